package consumer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func stampKey(id string, fill byte) consumer.StampKey {
	return consumer.StampKey{ID: id, Secret: bytes.Repeat([]byte{fill}, 32)}
}

// What a signature is for: nothing of a stamp can be changed, and nobody without the key can make one.
func TestSignedStamp(t *testing.T) {
	old, next := stampKey("2025", 1), stampKey("2026", 2)
	for _, s := range stamps() {
		signed := s.Sign(next, old)
		got, err := consumer.ParseStamp([]byte(signed.String()))
		if err != nil || !reflect.DeepEqual(*got, signed) {
			t.Fatalf("%s: %+v, %v", signed, got, err)
		}
		if signed.Signer != next.ID || !got.SignedBy(next) || !got.SignedBy(old, next) {
			t.Errorf("%s: not signed by the first key", signed)
		}
		if got.SignedBy() || got.SignedBy(old) || got.SignedBy(stampKey(next.ID, 3)) || s.SignedBy(next) {
			t.Errorf("%s: signed by somebody else", signed)
		}
		if unsigned := signed.Sign(); !reflect.DeepEqual(unsigned, s) {
			t.Errorf("without a signature %+v, want %+v", unsigned, s)
		}
		for name, change := range map[string]func(*consumer.Stamp){
			"source":      func(s *consumer.Stamp) { s.Source += "x" },
			"id":          func(s *consumer.Stamp) { s.ID += "x" },
			"no position": func(s *consumer.Stamp) { s.Pos = nil },
			"log":         func(s *consumer.Stamp) { s.Pos.Log = "x" + s.Pos.Log },
			"epoch":       func(s *consumer.Stamp) { s.Pos.Epoch++ },
			"offset":      func(s *consumer.Stamp) { s.Pos.Offset-- },
			"fingerprint": func(s *consumer.Stamp) { s.Fingerprint[15] ^= 1 },
			"token":       func(s *consumer.Stamp) { s.Token ^= 1 },
			"group":       func(s *consumer.Stamp) { s.Group += "x" },
			"broker":      func(s *consumer.Stamp) { s.Broker = !s.Broker },
			"signer":      func(s *consumer.Stamp) { s.Signer = old.ID },
			"MAC":         func(s *consumer.Stamp) { s.MAC[31] ^= 1 },
		} {
			other := signed
			if s.Pos == nil && strings.Contains("no position log epoch offset", name) {
				other.Pos = &ledger.Position{Log: "cluster/uuid/0", Prev: -1}
			} else if s.Pos != nil {
				at := *s.Pos
				other.Pos = &at
			}
			if change(&other); !reflect.DeepEqual(other, signed) && other.SignedBy(old, next) {
				t.Errorf("%s: signed with another %s", signed, name)
			}
		}
	}
}

func TestParseSignedStampRefuses(t *testing.T) {
	s := stamps()[1].Sign(stampKey("k", 1)).String()
	for name, value := range map[string]string{
		"no MAC":    strings.Replace(s, "mac=", "x=", 1),
		"short MAC": strings.Replace(s, "mac=", "mac=00&x=", 1),
		"no digits": strings.Replace(s, "mac=", "mac="+strings.Repeat("x", 64)+"&x=", 1),
	} {
		if got, err := consumer.ParseStamp([]byte(value)); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestParseStampKeys(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	got, err := consumer.ParseStampKeys("2026:" + secret + " \n2025:" + secret + "\n")
	if err != nil || !reflect.DeepEqual(got, []consumer.StampKey{stampKey("2026", 7), stampKey("2025", 7)}) {
		t.Fatalf("%+v, %v", got, err)
	}
	var most strings.Builder
	for i := range 16 {
		most.WriteString("k" + strconv.Itoa(i) + ":" + secret + " ")
	}
	if got, err := consumer.ParseStampKeys(most.String()); err != nil || len(got) != 16 {
		t.Errorf("as many as there may be: %d, %v", len(got), err)
	}
	for text, want := range map[string]string{
		"":                                      "must be at least 1, are 0",
		" \n":                                   "must be at least 1, are 0",
		"k:" + secret + " plain":                "key 2 must be id:secret, has no colon",
		"k:*" + secret:                          "key 1: its secret must be base64, is not",
		"k:c2hvcnQ=":                            `key "k": its secret must be 32 to 1024 bytes, is 5 bytes`,
		":" + secret:                            `key 1: its id must be 1 to 64`,
		"a/b:" + secret:                         `is "a/b"`,
		"k:" + secret + " k:" + secret:          `key 2: its id must be its own, is "k"`,
		strings.Repeat("k:"+secret+" ", 17)[1:]: "must be at most 16, are 17",
	} {
		_, err := consumer.ParseStampKeys(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestStampsOption(t *testing.T) {
	keys := []consumer.StampKey{stampKey("k", 1)}
	for want, stamps := range map[string]consumer.Stamps{
		"": {Keys: keys},
		"Options.Stamps.Ignore: must not be set with Keys, of which there are 1":          {Ignore: true, Keys: keys},
		"Options.Stamps.Keys: key \"k\": its secret must be 32 to 1024 bytes, is 0 bytes": {Keys: []consumer.StampKey{{ID: "k"}}},
	} {
		_, err := consumer.Options{Stamps: stamps}.WithDefaults()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Settings are printed and logged.
func TestStampKeyIsPrintedWithoutItsSecret(t *testing.T) {
	o := consumer.Options{Stamps: consumer.Stamps{Keys: []consumer.StampKey{{ID: "key 1", Secret: bytes.Repeat([]byte("S"), 32)}}}}
	inJSON, err := json.Marshal(o.Stamps)
	if err != nil {
		t.Fatal(err)
	}
	secret := base64.StdEncoding.EncodeToString(o.Stamps.Keys[0].Secret)
	for _, text := range []string{fmt.Sprint(o), fmt.Sprintf("%+v", o), fmt.Sprintf("%#v", o.Stamps), fmt.Sprintf("%v", &o.Stamps), string(inJSON)} {
		if !strings.Contains(text, "key 1") || strings.Contains(text, "SSSS") || strings.Contains(text, "83 83 83") || strings.Contains(text, "0x53, 0x53") || strings.Contains(text, secret) {
			t.Errorf("%s", text)
		}
	}
}

// Who clears his secrets after he has made a worker takes nothing from it.
func TestWorkersHaveKeysOfTheirOwn(t *testing.T) {
	secret := bytes.Repeat([]byte("k"), 32)
	o, err := consumer.Options{Stamps: consumer.Stamps{Keys: []consumer.StampKey{{ID: "a", Secret: secret}}}}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	signed := consumer.NewStamp("source", "id", []byte("body")).Sign(consumer.StampKey{ID: "a", Secret: bytes.Clone(secret)})
	clear(secret)
	if !signed.SignedBy(o.Stamps.Keys...) {
		t.Error("the worker's key is cleared with its owner's")
	}
}

package consumer_test

import (
	"math"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func stamps() []consumer.Stamp {
	plain := consumer.NewStamp("arn:aws:sqs:eu-west-1:1:orders", "order 17", []byte("body"))
	full := consumer.Stamp{
		Source: "cluster/topic", ID: "topic-0-" + strconv.FormatInt(ledger.MaxOffset, 10), Fingerprint: ledger.NewFingerprint([]byte("a"), []byte("b")), Token: math.MaxInt64,
		Group: "group & more", Pos: &ledger.Position{Log: "cluster/uuid/0", Epoch: -1, Offset: ledger.MaxOffset, Prev: -1},
	}
	odd := consumer.NewStamp("\x00&=;%+ \xff\n", "ü\xfe\x00", nil)
	moved := consumer.NewStamp("arn:aws:sqs:eu-west-1:1:orders", "message id", []byte("body"))
	moved.Broker = true
	first := full // of its log
	first.ID, first.Pos = "topic-0-0", &ledger.Position{Log: "cluster/uuid/0", Epoch: 3, Prev: -1}
	return []consumer.Stamp{plain, full, odd, moved, first}
}

func TestStampRoundTrip(t *testing.T) {
	for _, s := range stamps() {
		got, err := consumer.ParseStamp([]byte(s.String()))
		if err != nil || !reflect.DeepEqual(*got, s) {
			t.Errorf("%s: %+v, %v; want %+v", s, got, err, s)
		}
		for _, r := range s.String() {
			if r < ' ' || r > '~' {
				t.Errorf("%q cannot be an attribute everywhere", s.String())
			}
		}
	}
}

func TestParseStampRefuses(t *testing.T) {
	s := stamps()[1].String()
	for name, value := range map[string]string{
		"empty":           "",
		"not a stamp":     "hello",
		"another version": strings.Replace(s, "v=1", "v=2", 1),
		"too long":        s + "&x=" + strings.Repeat("x", 8<<10),
		"bad escape":      s + "&x=%zz",
		"no source":       strings.Replace(s, "source=", "x=", 1),
		"no id":           strings.Replace(s, "&id=", "&x=", 1),
		"no fingerprint":  strings.Replace(s, "fp=", "x=", 1),
		"short print":     strings.Replace(s, "fp=", "fp=00&x=", 1),
		"negative token":  strings.Replace(s, "token=", "token=-", 1),
		"huge token":      strings.Replace(s, "token=", "token=9", 1),
		"bad epoch":       strings.Replace(s, "epoch=-1", "epoch=x", 1),
		"huge epoch":      strings.Replace(s, "epoch=-1", "epoch=4294967296", 1),
		"negative offset": strings.Replace(s, "offset=", "offset=-", 1),
		"other topic":     strings.Replace(s, "id=topic", "id=x", 1),
		"other partition": strings.Replace(s, "id=topic-0", "id=topic-1", 1),
		"other offset":    strings.Replace(s, "offset=", "offset=1&x=", 1),
		"no partition":    strings.Replace(s, "id=topic-0-", "id=topic-", 1),
		"empty log":       strings.Replace(s, "log=", "log=&x=", 1),
	} {
		if got, err := consumer.ParseStamp([]byte(value)); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A separator that some parsers take is refused by name, so that no two read one stamp in two ways.
func TestParseStampRefusesSemicolons(t *testing.T) {
	if got, err := consumer.ParseStamp([]byte(stamps()[1].String() + ";x=1")); err == nil || got != nil || !strings.Contains(err.Error(), "semicolon") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestStampCounts(t *testing.T) {
	s := consumer.NewStamp("source", "id", []byte("body"))
	if !s.Counts("source", ledger.BodyFingerprint([]byte("body"))) || !s.Counts("source", ledger.NewFingerprint([]byte("body"), []byte("x"))) {
		t.Error("its own message")
	}
	if s.Counts("other", ledger.BodyFingerprint([]byte("body"))) || s.Counts("source", ledger.BodyFingerprint([]byte("other"))) || s.Counts("", s.Fingerprint) {
		t.Error("another message")
	}
}

// A header's value is what url.Values make of the fields, and is read as they read it: programs of other versions are beside
// this one.
func TestStampIsQuery(t *testing.T) {
	for _, s := range stamps() {
		v, err := url.ParseQuery(s.String())
		if err != nil || v.Encode() != s.String() {
			t.Errorf("%s: as a query %s, %v", s, v.Encode(), err)
		}
	}
}

// A replay reads and writes one for each message.
func TestStampCost(t *testing.T) {
	s := consumer.NewStamp("cluster/topic", "order-17", []byte("body"))
	text := []byte(s.String())
	for name, test := range map[string]struct {
		most float64
		do   func()
	}{
		"String":     {3, func() { _ = s.String() }},
		"ParseStamp": {3, func() { _, _ = consumer.ParseStamp(text) }},
	} {
		if got := testing.AllocsPerRun(100, test.do); got > test.most {
			t.Errorf("%s: %v allocations, want at most %v", name, got, test.most)
		}
	}
}

// Whatever a header holds: no panic, and what is taken for a stamp says the same when it is written again.
func FuzzParseStamp(f *testing.F) {
	for _, s := range stamps() {
		f.Add([]byte(s.String()))
	}
	f.Add([]byte("v=1&source=s&id=i&fp=00000000000000000000000000000000&token=0&log=l&epoch=0&offset=0&offset=1"))
	f.Add([]byte("v=1&&=&s=;&source=s;"))
	f.Add([]byte(stamps()[1].Sign(stampKey("k", 1)).String()))
	f.Fuzz(func(t *testing.T, value []byte) {
		s, err := consumer.ParseStamp(value)
		v, bad := url.ParseQuery(string(value))
		if err == nil && (bad != nil || v.Get("source") != s.Source || v.Get("id") != s.ID || v.Get("group") != s.Group ||
			v.Get("key") != s.Signer || v.Has("log") != (s.Pos != nil)) {
			t.Fatalf("%q: %+v, as a query %v, %v", value, s, v, bad)
		}
		if err != nil {
			return
		}
		again, err := consumer.ParseStamp([]byte(s.String()))
		if err != nil && len(s.String()) <= 8<<10 || err == nil && !reflect.DeepEqual(s, again) {
			t.Fatalf("%q: %+v, again %+v, %v", value, s, again, err)
		}
	})
}

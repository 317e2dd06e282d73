package ledger_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

func key(scope, id string) ledger.Key { return ledger.Key{Scope: scope, ID: []byte(id)} }

func at(scope, log string, epoch int32, offset int64) ledger.Key {
	return ledger.Key{Scope: scope, ID: []byte("id"), Pos: &ledger.Position{Log: log, Epoch: epoch, Offset: offset, Prev: offset - 1}}
}

// TestKeyDistinct holds keys apart that must never meet.
func TestKeyDistinct(t *testing.T) {
	seen := map[[ledger.KeySize]byte]string{}
	for _, k := range []ledger.Key{
		key("ab", "c"), key("a", "bc"), key("", "abc"), key("abc", ""), key("a", "b\x00c"), key("a\x00b", "c"),
		at("s", "log", 0, 1), at("s", "log", 1, 1), at("s", "log", -1, 1), at("s", "log", 0, 2), at("s", "lo", 0, 1),
		at("sl", "og", 0, 1), at("t", "log", 0, 1), key("s", "id"), key("s", "log"), at("s", "log", 0, 1<<62),
	} {
		if before, twice := seen[k.Sum()]; twice {
			t.Errorf("%v %+v meets %s", k, k.Pos, before)
		}
		seen[k.Sum()] = k.String()
	}
}

func TestKeyIdentity(t *testing.T) {
	a, b := at("s", "log", 3, 9), at("s", "log", 3, 9)
	b.Pos.Prev, b.ID = -1, []byte("another text for people")
	if a.Sum() != b.Sum() {
		t.Error("neither the previous offset nor the readable id is part of a position's identity")
	}
	c, d := at("s", "log", 3, 255).Sum(), at("s", "log", 3, 256).Sum()
	if !bytes.Equal(c[:8], d[:8]) || bytes.Compare(c[:], d[:]) >= 0 {
		t.Errorf("neighbours in the log are not neighbours in the ledger: %x, %x", c, d)
	}
	if got := key("orders", "a\x00\xff").String(); got != `orders/"a\x00\xff"` {
		t.Errorf("shown as %s", got)
	}
}

func TestKeyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 6, 6)
		a, b := key(text.Draw(t, "scope"), text.Draw(t, "id")), key(text.Draw(t, "scope2"), text.Draw(t, "id2"))
		same := a.Scope == b.Scope && bytes.Equal(a.ID, b.ID)
		if same != (a.Sum() == b.Sum()) {
			t.Fatalf("%v and %v: same %t", a, b, same)
		}
	})
}

// TestPitfall94_FingerprintHalves: a deploy that changes the FingerprintFunc must make no mismatch of a redelivery.
func TestPitfall94_FingerprintHalves(t *testing.T) {
	raw, canonical := []byte("raw"), []byte("canonical")
	f := ledger.NewFingerprint(raw, canonical)
	for name, c := range map[string]struct {
		g      ledger.Fingerprint
		agrees bool
	}{
		"same":            {ledger.NewFingerprint(raw, canonical), true},
		"other function":  {ledger.NewFingerprint(raw, []byte("v2")), true},
		"other body":      {ledger.NewFingerprint([]byte("raw2"), canonical), true},
		"both":            {ledger.NewFingerprint([]byte("raw2"), []byte("v2")), false},
		"halves swapped":  {ledger.NewFingerprint(canonical, raw), false},
		"default, body":   {ledger.BodyFingerprint(raw), true},
		"default, other":  {ledger.BodyFingerprint(canonical), true}, // its canonical bytes are these
		"nil, not empty":  {ledger.BodyFingerprint(nil), false},
		"zero is no body": {ledger.Fingerprint{}, false},
	} {
		if f.Agrees(c.g) != c.agrees || c.g.Agrees(f) != c.agrees {
			t.Errorf("%s: agrees %t, want %t", name, f.Agrees(c.g), c.agrees)
		}
	}
	if ledger.BodyFingerprint(nil).Agrees(ledger.BodyFingerprint([]byte{})) {
		t.Error("a nil body is an empty one")
	}
}

func TestTicket(t *testing.T) {
	sum := key("s", "a").Sum()
	ticket, mismatch := ledger.NewTicket(sum, 5), ledger.MismatchTicket(sum)
	if ticket.Sum() != sum || ticket.Token() != 5 || ticket.IsMismatch() || ticket.IsZero() {
		t.Errorf("ticket %+v", ticket)
	}
	if mismatch.Sum() != sum || mismatch.Token() != 0 || !mismatch.IsMismatch() || mismatch.IsZero() {
		t.Errorf("mismatch ticket %+v", mismatch)
	}
	if !(ledger.Ticket{}).IsZero() {
		t.Error("the zero ticket is not zero")
	}
}

// What is kept inside of a key, and what a log's keys share, is what the key is hashed to anyway.
func TestKnownKeysHaveTheSameSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 300, 300)
		plain := key(text.Draw(t, "scope"), text.Draw(t, "id"))
		if known := plain.Known(); known.Sum() != plain.Sum() || known.Known().Sum() != plain.Sum() || known.Scope != plain.Scope {
			t.Fatalf("%v: known as %x, is %x", plain, known.Sum(), plain.Sum())
		}
		keys := ledger.LogKeys{Scope: text.Draw(t, "scope of the log"), Log: text.Draw(t, "log")}
		for range 20 {
			k := at(keys.Scope, keys.Log, rapid.Int32Range(-1, 2).Draw(t, "epoch"), rapid.Int64().Draw(t, "offset"))
			got := keys.Key(k.ID, k.Pos)
			if got.Sum() != k.Sum() || got.Scope != k.Scope || !bytes.Equal(got.ID, k.ID) || got.Pos != k.Pos {
				t.Fatalf("%+v: made as %x, is %x", k.Pos, got.Sum(), k.Sum())
			}
		}
	})
}

func TestBodyFingerprintIsThatOfTheBodyTwice(t *testing.T) {
	for _, body := range [][]byte{nil, {}, {0}, []byte("body"), make([]byte, 1<<16)} {
		if ledger.BodyFingerprint(body) != ledger.NewFingerprint(body, body) {
			t.Errorf("a body of %d bytes (nil: %v) has two fingerprints", len(body), body == nil)
		}
	}
}

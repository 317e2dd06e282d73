package engine_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

func stampKey(id string, fill byte) consumer.StampKey {
	return consumer.StampKey{ID: id, Secret: bytes.Repeat([]byte{fill}, 32)}
}

// there are the records below an offset.
type there int64

func (t there) Exists(p *ledger.Position) bool { return p.Offset < int64(t) }

// What a stamp needs to count, by the settings. One that is refused skips nothing, and leaves no token.
func TestWhichStampsCount(t *testing.T) {
	body := []byte("body")
	old, next := stampKey("old", 1), stampKey("next", 2)
	plain := consumer.NewStamp(origin.Source, "order 17", body)
	placed := plain
	placed.ID, placed.Token, placed.Pos = "topic-3-5", 9, &ledger.Position{Log: "cluster/uuid/3", Offset: 5, Prev: -1}
	yetToCome := placed
	yetToCome.ID, yetToCome.Pos = "topic-3-6", &ledger.Position{Log: "cluster/uuid/3", Offset: 6, Prev: -1}
	elsewhere := plain.Sign(next)
	elsewhere.Group = "other"
	for _, c := range []struct {
		name   string
		stamps consumer.Stamps
		stamp  consumer.Stamp
		counts bool
	}{
		{"by default", consumer.Stamps{}, plain, true},
		{"by default, of a record", consumer.Stamps{}, placed, true},
		{"by default, of a record yet to come", consumer.Stamps{}, yetToCome, false},
		{"by default, signed by whomever", consumer.Stamps{}, plain.Sign(next), true},
		{"by default, of a record yet to come, signed by whomever", consumer.Stamps{}, yetToCome.Sign(next), false},
		{"ignored", consumer.Stamps{Ignore: true}, plain, false},
		{"ignored, of a record", consumer.Stamps{Ignore: true}, placed, false},
		{"ignored, signed", consumer.Stamps{Ignore: true}, plain.Sign(next), false},
		{"with keys", consumer.Stamps{Keys: []consumer.StampKey{next}}, plain, false},
		{"with keys, of a record", consumer.Stamps{Keys: []consumer.StampKey{next}}, placed, false},
		{"signed", consumer.Stamps{Keys: []consumer.StampKey{next}}, placed.Sign(next), true},
		{"signed, of a record that is gone", consumer.Stamps{Keys: []consumer.StampKey{next}}, yetToCome.Sign(next), true},
		{"signed with the key before", consumer.Stamps{Keys: []consumer.StampKey{next, old}}, placed.Sign(old), true},
		{"signed with a key that is gone", consumer.Stamps{Keys: []consumer.StampKey{next}}, placed.Sign(old), false},
		{"signed with another's of that name", consumer.Stamps{Keys: []consumer.StampKey{next}}, placed.Sign(stampKey("next", 3)), false},
		{"for another group than signed", consumer.Stamps{Keys: []consumer.StampKey{next}}, elsewhere, false},
	} {
		from := origin
		from.Records = there(6)
		m := message(body, c.stamp)
		id := engine.Identify(&consumer.Options{Stamps: c.stamps}, from, m)
		if id.Copy != c.counts || (id.Refused == nil) != c.counts || (m.ID == c.stamp.ID) != c.counts || (string(id.Key.ID) == c.stamp.ID) != c.counts {
			t.Errorf("%s: %+v", c.name, id)
		}
		if !c.counts && (id.StampToken != 0 || id.Skip || id.Key.Pos != origin.Pos || id.Invalid != nil) {
			t.Errorf("%s: refused, but %+v", c.name, id)
		}
	}
}

// KeyFunc goes before nothing but a stamp that counts.
func TestRefusedStampLeavesKeyFunc(t *testing.T) {
	o := &consumer.Options{Stamps: consumer.Stamps{Ignore: true}, KeyFunc: func(*consumer.Message) (string, error) { return "key", nil }}
	id := engine.Identify(o, origin, message([]byte("body"), consumer.NewStamp(origin.Source, "other", []byte("body"))))
	if string(id.Key.ID) != "key" || id.Refused == nil || id.Copy {
		t.Errorf("%+v", id)
	}
}

// A dead letter is signed with the first key, so that its copy counts when it comes back.
func TestDeadLetterIsSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []consumer.StampKey{stampKey("next", 2), stampKey("old", 1)}
		to := &target{}
		o := forwarding(to)
		o.Stamps.Keys = keys
		it := item("one", "")
		e, b := begin(t, memory.New(), o, boom)
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		b.wantAcked(t, it)
		got := to.letters()
		if len(got) != 1 || got[0].Stamp == nil || !got[0].Stamp.SignedBy(keys[0]) || got[0].Stamp.SignedBy(keys[1]) || got[0].Stamp.Token == 0 {
			t.Errorf("%+v", got)
		}
		end(t, e)
	})
}

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// lock is a cipher of one key. It opens nothing that another has sealed, and nothing at all while it is away.
type lock struct {
	key  byte
	away atomic.Bool
}

func (l *lock) Seal(_ context.Context, plain []byte) ([]byte, error) {
	return append([]byte{l.key}, l.turned(plain)...), nil
}

func (l *lock) Open(_ context.Context, sealed []byte) ([]byte, error) {
	if l.away.Load() || sealed[0] != l.key {
		return nil, errors.New("another key")
	}
	return l.turned(sealed[1:]), nil
}

func (l *lock) turned(b []byte) []byte {
	b = bytes.Clone(b)
	for i := range b {
		b[i] ^= l.key
	}
	return b
}

// sealed publishes under a cipher.
func (r *relaying) sealed(c ledger.Cipher, messages ...ledger.Outgoing) {
	r.Helper()
	r.publishIn(consumer.WithStepCipher(r.Context(), c), messages...)
}

// TestPitfall249_OutboxReadable: what is published under a cipher is not readable in the ledger, and is what was published at its target.
func TestPitfall249_OutboxReadable(t *testing.T) {
	t.Parallel()
	a, c := &shop{}, &lock{key: 7}
	c.away.Store(true)
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Cipher: c})
	m := keyed("k", "secret body")
	m.Headers = []ledger.Header{{Name: "h", Value: []byte("secret header")}}
	r.sealed(c, m)
	list, err := r.ListOutbox(t.Context(), "a", 0, 10, true)
	if err != nil || len(list) != 1 || !list[0].Sealed() {
		t.Fatalf("%+v, %v", list, err)
	}
	if text := fmt.Sprintf("%s %s", list[0].Body, list[0].Headers); bytes.Contains([]byte(text), []byte("secret")) {
		t.Fatalf("in the ledger: %s", text)
	}
	if string(m.Body) != "secret body" {
		t.Fatalf("the caller's message has become %q", m.Body)
	}
	c.away.Store(false)
	r.empty()
	got := a.got[0]
	if string(got.Body) != "secret body" || len(got.Headers) != 1 || string(got.Headers[0].Value) != "secret header" ||
		!got.Stamp.Counts("cluster/topic", ledger.BodyFingerprint(m.Body)) {
		t.Fatalf("sent %+v, stamp %+v", got, got.Stamp)
	}
}

// TestRelayCipherAway: while the cipher opens nothing, nothing counts.
func TestRelayCipherAway(t *testing.T) {
	t.Parallel()
	a, c := &shop{}, &lock{key: 7}
	c.away.Store(true)
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Cipher: c, Tries: 1})
	r.sealed(c, keyed("k", "1"), keyed("k", "2"))
	r.sealed(c, keyed("k", "3"))
	r.until("the lane rests", func() bool {
		all, err := r.OutboxStats(t.Context())
		return err == nil && len(all) == 1 && all[0].Failing == 0 && all[0].Untaken == 0
	})
	c.away.Store(false)
	r.empty()
	if got := fmt.Sprint(a.bodies()); got != "[1 2 3]" {
		t.Fatalf("sent %s", got)
	}
}

// TestRelayUnopened: a message that is not opened waits with those of its key, the others go on, and it is never given up.
func TestRelayUnopened(t *testing.T) {
	t.Parallel()
	a, ours, other := &shop{}, &lock{key: 7}, &lock{key: 8}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Cipher: ours, Tries: 1})
	lane := sameLane(t)
	r.publish(keyed("k", "1"), keyed(lane, "2")) // before there was a cipher
	r.empty()
	r.sealed(other, keyed("k", "closed"))
	for i := range 3 {
		r.sealed(ours, keyed("k", "behind"), keyed(lane, fmt.Sprint(3+i)))
	}
	r.until("the others are sent", func() bool { return len(a.bodies()) == 5 })
	var due time.Time
	r.until("it is tried again", func() bool {
		list, err := r.ListOutbox(t.Context(), "a", 0, 10, true)
		if err != nil || len(list) == 0 || !list[0].Sealed() {
			return false
		}
		if due.IsZero() {
			due = list[0].Due
		}
		return list[0].Due.After(due)
	})
	if got := fmt.Sprint(a.bodies()); got != "[1 2 3 4 5]" || len(r.archived()) > 0 {
		t.Fatalf("sent %s, %d archived", got, len(r.archived()))
	}
}

// TestPitfall273_UnopenedBlocksItsLane: a whole batch was not opened, and what lies behind it in its lane was not sent either, also under
// other keys.
func TestPitfall273_UnopenedBlocksItsLane(t *testing.T) {
	for name, cfg := range map[string]consumer.Relay{"messages": {Batch: 3}, "bytes": {BatchBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, ours, other := &shop{}, &lock{key: 7}, &lock{key: 8}
				cfg.Targets, cfg.Cipher = map[string]consumer.Publisher{"a": a}, ours
				r := relay(t, cfg)
				r.sealed(other, keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
				r.sealed(ours, keyed(sameLane(t), "of another key"))
				r.until("another key is sent", func() bool { return len(a.bodies()) == 1 })
			})
		})
	}
}

// TestPitfall274_UnopenedCountsAsRefused: a cipher did not open a message for a while, which counted as refusals of its target. The first real
// one gave it up.
func TestPitfall274_UnopenedCountsAsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals, c := 0, &lock{key: 7}
		a := &shop{refuse: func(m *consumer.Publication, _ int) error {
			if string(m.Body) == "closed" && refusals < 2 {
				refusals++
				return errors.New("not now")
			}
			return nil
		}}
		r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Cipher: c, Tries: 3})
		c.away.Store(true)
		r.sealed(c, keyed("k", "closed"))
		r.publish(keyed(sameLane(t), "open"))
		time.Sleep(time.Minute)
		list, err := r.ListOutbox(t.Context(), "a", 0, 10, false)
		if err != nil || len(list) != 1 || list[0].Tries != 0 || list[0].Error == "" {
			t.Fatalf("in the outbox: %+v, %v", list, err)
		}
		c.away.Store(false)
		r.empty()
		if dead := r.archived(); len(dead) > 0 || refusals != 2 {
			t.Fatalf("refused %d times of 3, and %d archived", refusals, len(dead))
		}
	})
}

// sameLane is another key that lies in the lane of the key "k".
func sameLane(t *testing.T) string {
	t.Helper()
	const key = "k"
	want, _ := storage.LaneOf(&ledger.Outgoing{Key: []byte(key)})
	for i := range 10_000 {
		other := fmt.Sprint(key, i)
		if shard, _ := storage.LaneOf(&ledger.Outgoing{Key: []byte(other)}); shard == want {
			return other
		}
	}
	t.Fatal("no other key has the lane")
	return ""
}

// TestRelayBuriesSealed: what is refused for good is archived as it would be by the worker.
func TestRelayBuriesSealed(t *testing.T) {
	t.Parallel()
	a, c := &shop{refuse: func(*consumer.Publication, int) error { return errNever }}, &lock{key: 7}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Cipher: c})
	r.sealed(c, keyed("k", "secret body"))
	r.empty()
	dead := r.archived()
	if len(dead) != 1 || !dead[0].Sealed() || dead[0].Fingerprint != ledger.BodyFingerprint([]byte("secret body")) {
		t.Fatalf("%+v", dead)
	}
	if err := dead[0].Open(t.Context(), c); err != nil || string(dead[0].Body) != "secret body" {
		t.Fatalf("%q, %v", dead[0].Body, err)
	}
}

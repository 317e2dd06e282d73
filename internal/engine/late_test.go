package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// late says what an item leaves out, and counts how often it is asked.
type late struct {
	body     []byte
	delivery string
	asked    atomic.Int64
}

func (l *late) Identify() (ledger.Fingerprint, []byte) {
	l.asked.Add(1)
	return ledger.BodyFingerprint(l.body), []byte(l.delivery)
}

func consumerID(offset int64) string { return fmt.Sprintf("orders-0-%d", offset) }

// rangedItem is a record as Kafka's worker offers it.
func rangedItem(offset int64, l *late) *engine.Item {
	it := item(consumerID(offset), "")
	pos := &ledger.Position{Log: "log", Offset: offset, Prev: offset - 1}
	it.Key = ledger.Key{Scope: it.Key.Scope, ID: []byte(consumerID(offset)), Pos: pos}
	it.Ranged, it.Late, it.Fingerprint, it.Delivery = true, l, ledger.Fingerprint{}, nil
	return it
}

// What stays in its range is never hashed. What fails has its fingerprint in its row and its archive; what is asked for
// in a row is compared by it.
func TestFingerprintsAreMadeWhenTheyAreNeeded(t *testing.T) {
	l := memory.New()
	sink := &counter{}
	e, _ := begin(t, l, consumer.Options{Name: "late", Window: time.Hour, Attempts: 2, BackoffBase: time.Millisecond, BackoffMax: time.Millisecond}, nil,
		func(cfg *engine.Config) {
			cfg.Sink = sink
			cfg.Handler = consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
				if m.ID == consumerID(7) {
					return errors.New("always")
				}
				return nil
			})
		})
	var items []*engine.Item
	var lates []*late
	for i := range int64(20) {
		lates = append(lates, &late{body: []byte(consumerID(i)), delivery: consumerID(i)})
		items = append(items, rangedItem(i, lates[i]))
	}
	settledBy(t, e, sink, items)
	for i, l := range lates {
		if n := l.asked.Load(); (n > 0) != (i == 7) {
			t.Errorf("item %d was hashed %d times", i, n)
		}
	}
	rec, err := l.Get(t.Context(), items[7].Key)
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.BodyFingerprint(lates[7].body)
	if rec.State != ledger.Failed || rec.Fingerprint != want {
		t.Errorf("the row of what failed: %s, fingerprint %x, want %x", rec.State, rec.Fingerprint, want)
	}
	if len(rec.Archived) != 1 || string(rec.Archived[0].Delivery) != consumerID(7) || rec.Archived[0].Fingerprint != want {
		t.Errorf("archived: %+v", rec.Archived)
	}
	other := rangedItem(7, &late{body: []byte("another body"), delivery: "a copy"})
	settledBy(t, e, sink, []*engine.Item{other})
	if rec, err = l.Get(t.Context(), items[7].Key); err != nil || rec.State != ledger.Failed || len(rec.Archived) != 2 {
		t.Errorf("a copy with another body: %v, %d archived, %v", rec.State, len(rec.Archived), err)
	}
	end(t, e)
}

package replay

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// noMeter is a provider whose meters make no counters.
type noMeter struct {
	noop.MeterProvider
	err error
}

type noCounter struct {
	noop.Meter
	err error
}

func (p noMeter) Meter(string, ...metric.MeterOption) metric.Meter { return noCounter{err: p.err} }
func (m noCounter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, m.err
}

// TestInPlaceWithoutMeters: a run in place whose metrics cannot be made does not begin.
func TestInPlaceWithoutMeters(t *testing.T) {
	refused := errors.New("no such instrument")
	nothing := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
	dst, err := InPlace(nothing, &InPlaceOptions{Options: consumer.Options{Name: aConsumer, MeterProvider: noMeter{err: refused}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Begin(t.Context(), Begin{Operator: memory.New(), Source: "archive", Concurrency: 1}); !errors.Is(err, refused) {
		t.Errorf("it begins: %v", err)
	}
}

// TestPatienceInPlace: a letter whose message the ledger does not give is left after a while; a handler has all of its time.
func TestPatienceInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		away  error
		takes time.Duration
		want  Outcome
		after time.Duration // at least
	}{
		"the ledger does not answer": {errors.New("away"), 0, Kept, 70 * time.Second},
		"a slow handler":             {nil, time.Hour, Handled, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			slow := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { time.Sleep(c.takes); return nil })
			target, err := InPlace(slow, &InPlaceOptions{Options: consumer.Options{Name: aConsumer, Lease: 30 * time.Second, HandlerTimeout: 2 * time.Hour}})
			if err != nil {
				t.Fatal(err)
			}
			l, dst := memory.New(), target.(*inPlace)
			l.FailBefore(func(_ context.Context, op memory.Op) error {
				if op == memory.Claim {
					return c.away
				}
				return nil
			})
			if err := dst.Begin(t.Context(), Begin{Operator: l, Source: "archive", Concurrency: 1}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got := dst.handle(t.Context(), aLetter("body"))
			if took := time.Since(began); got.Outcome != c.want || took < c.after || took > c.after+time.Minute {
				t.Errorf("%s: %+v after %s, want outcome %d after %s", name, got, took, c.want, c.after)
			}
			if err := dst.End(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMendedKeyIsKept: a message whose key was empty has an empty key when its mended body is sent from the archive, and not none.
func TestMendedKeyIsKept(t *testing.T) {
	sealed := ledger.Archive{Delivery: []byte("last"), Body: []byte("body")}
	if err := sealed.Seal(t.Context(), turned{}); err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{nil, {}, []byte("key")} {
		r := &runner{c: Config{Mend: true, Body: []byte("mended"), Filter: ledger.Filter{Cipher: turned{}}, Logger: zap.NewNop()},
			op: &answers{record: ledger.Record{Archived: []ledger.ArchiveRecord{{Archive: sealed}}}}}
		l, renewal := aLetter("body"), ledger.Renewal{}
		l.status.Delivery, l.Message.Key = []byte("last"), key
		if err := r.mend(t.Context(), l, &renewal); err != nil {
			t.Fatal(err)
		}
		stored := ledger.Archive{Body: bytes.Clone(renewal.Body), Headers: sealed.Headers}
		if err := stored.Open(t.Context(), turned{}); err != nil || string(stored.Body) != "mended" {
			t.Fatalf("%q, %v", stored.Body, err)
		}
		if empty := stored.UnmarkEmptyKey(); empty != (key != nil && len(key) == 0) {
			t.Errorf("key %q: marked as empty: %v", key, empty)
		}
	}
}

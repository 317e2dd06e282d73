package engine_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// TestPitfall189_LastBatchHangs: what the batches of a stretch had done was not settled as long as the last of them hung: a crash
// repeated it all.
func TestPitfall189_LastBatchHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		b := newInBatches(t, func(_ context.Context, batch []*consumer.Message) []error {
			if batch[len(batch)-1].ID == "a-209" {
				<-let
			}
			return nil
		})
		b.offer(200)
		pass(10 * time.Second)
		if n := len(b.acks); n != 160 {
			t.Errorf("%d records are acknowledged beside the batch that hangs, want 160", n)
		}
		close(let)
		pass(time.Minute)
		b.settled(b.whole)
		end(t, b.Engine)
	})
}

// A handler of a stretch's record is told why it is cancelled.
func TestHandlerInAStretchIsCancelled(t *testing.T) {
	for _, c := range []struct {
		want error
		why  func(s *stretches)
	}{
		{consumer.ErrRevoked, func(s *stretches) { s.Drop(func(*engine.Item) bool { return true }, time.Second) }},
		{ledger.ErrLost, func(s *stretches) { s.net.set(down, nil) }},
		{consumer.ErrShutdown, func(s *stretches) { go func() { _ = s.Drain(context.Background()) }() }},
		{consumer.ErrTimeout, func(s *stretches) { time.Sleep(time.Hour) }},
	} {
		t.Run(c.want.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cause error
				hung := false
				s := newStretches(t, func(ctx context.Context, offset int64) error {
					if offset != 15 || hung {
						return nil
					}
					hung = true
					<-ctx.Done()
					cause = context.Cause(ctx)
					return ctx.Err()
				})
				s.offer(100)
				pass(3 * time.Millisecond)
				c.why(s)
				pass(time.Minute)
				if !errors.Is(cause, c.want) {
					t.Errorf("the cause is %v, want %v", cause, c.want)
				}
				s.net.set(nil, nil)
				pass(time.Hour)
				_ = s.Drain(context.Background())
				_ = s.Close(context.Background())
			})
		})
	}
}

// weighed is records whose handlers' bodies are watched.
type weighed struct {
	*stormRecords
	bodies map[int64]weak.Pointer[byte]
}

func (w *weighed) Messages(first int, to []consumer.Message) {
	w.stormRecords.Messages(first, to)
	for i := range to {
		to[i].Body = make([]byte, 1<<10)
		w.bodies[w.Offset(first+i)] = weak.Make(&to[i].Body[0])
	}
}

// A handler that hangs keeps nothing in memory of the records that were taken with its own.
func TestHangingHandlerKeepsNoBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 15 {
				<-let
			}
			return nil
		})
		w := &weighed{s.records(100), map[int64]weak.Pointer[byte]{}}
		st := w.stretch()
		st.Records = w
		s.OfferStretch(st)
		pass(time.Minute)
		runtime.GC()
		kept := 0
		for offset, body := range w.bodies {
			if offset > 15 && body.Value() != nil {
				kept++
			}
		}
		if n := len(w.bodies); n < 20 || kept > 0 {
			t.Errorf("%d of %d bodies are in memory", kept, n)
		}
		close(let)
		pass(time.Hour)
		end(t, s.Engine)
	})
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// batches is a batch handler that keeps a book of its calls.
type batches struct {
	mu    sync.Mutex
	calls [][]string // ids of each call
	f     func(ctx context.Context, batch []*consumer.Message) []error
}

func (b *batches) handle(ctx context.Context, batch []*consumer.Message) []error {
	ids := make([]string, len(batch))
	for i, m := range batch {
		ids[i] = m.ID
	}
	b.mu.Lock()
	b.calls = append(b.calls, ids)
	b.mu.Unlock()
	if b.f == nil {
		return nil
	}
	return b.f(ctx, batch)
}

// count is how many calls there were.
func (b *batches) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// runs says how often a message was in a call, and how often alone.
func (b *batches) runs(id string) (all, alone int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ids := range b.calls {
		if slices.Contains(ids, id) {
			all++
			if len(ids) == 1 {
				alone++
			}
		}
	}
	return all, alone
}

// beginBatch starts an engine with a batch handler of up to size messages.
func beginBatch(t *testing.T, l ledger.Ledger, o consumer.Options, size int, b *batches) (*engine.Engine, *broker) {
	t.Helper()
	return begin(t, l, o, nil, func(c *engine.Config) { c.Handler = consumer.Batch(size, b.handle) })
}

// oneByOne are options for a single batch at a time.
func oneByOne() consumer.Options {
	o := options()
	o.Concurrency, o.Attempts = 1, 3
	return o
}

const poison = "m00003"

func hasPoison(batch []*consumer.Message) bool {
	return slices.ContainsFunc(batch, func(m *consumer.Message) bool { return m.ID == poison })
}

// each returns one error for the poison, and none for the others.
func each(batch []*consumer.Message, err error) []error {
	errs := make([]error, len(batch))
	for i, m := range batch {
		if m.ID == poison {
			errs[i] = err
		}
	}
	return errs
}

// wantInnocent fails for each item but the poison that is not succeeded without a counted attempt.
func wantInnocent(t *testing.T, l *memory.Ledger, b *broker, in []*engine.Item) {
	t.Helper()
	b.wantAcked(t, in...)
	for _, it := range in {
		if rec := state(t, l, it); it.Msg.ID != poison && (rec.State != ledger.Succeeded || rec.Attempts != 0) {
			t.Errorf("message %s: %+v", it.Msg.ID, rec)
		}
	}
}

func TestBatchHandlerGetsEachMessageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		h.f = func(ctx context.Context, batch []*consumer.Message) []error {
			for _, m := range batch {
				one := consumer.For(ctx, m)
				if consumer.MessageFrom(one) != m || consumer.Token(one) != 1 || consumer.ChildKey(one, "x") != consumer.DeriveChildKey(ledger.Key{Scope: scope, ID: []byte(m.ID)}.Sum(), "x", 0) {
					t.Errorf("message %s: the context is of %v, token %d", m.ID, consumer.MessageFrom(one), consumer.Token(one))
				}
				if err := consumer.SetResult(one, []byte("result of "+m.ID)); err != nil {
					t.Error(err)
				}
				if err := memory.InTx(one, func(context.Context) error { return nil }); !errors.Is(err, ledger.ErrNoAttempt) {
					t.Errorf("InTx for one message: %v", err)
				}
			}
			if consumer.MessageFrom(ctx) != nil || consumer.SetResult(ctx, nil) == nil {
				t.Error("the batch's context is one message's")
			}
			if consumer.For(ctx, &consumer.Message{ID: batch[0].ID}) != ctx {
				t.Error("a message of no batch has a context of its own")
			}
			time.Sleep(time.Millisecond)
			return nil
		}
		e, b := beginBatch(t, l, options(), 30, h)
		in := items(1000, noLane)
		e.Offer(in)
		pass(time.Minute)
		wantInnocent(t, l, b, in)
		largest := 0
		for _, ids := range h.calls {
			largest = max(largest, len(ids))
		}
		if largest != 30 {
			t.Errorf("the largest batch has %d messages", largest)
		}
		for _, it := range in {
			if all, _ := h.runs(it.Msg.ID); all != 1 || string(state(t, l, it).Result) != "result of "+it.Msg.ID {
				t.Errorf("message %s ran %d times, result %q", it.Msg.ID, all, state(t, l, it).Result)
			}
		}
		end(t, e)
	})
}

func TestBatchErrorsAreEachMessagesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		h.f = func(_ context.Context, batch []*consumer.Message) []error {
			errs := each(batch, errBoom)
			for i, m := range batch {
				if m.ID == "m00005" {
					errs[i] = consumer.Terminal(errBoom)
				}
			}
			return errs
		}
		e, b := beginBatch(t, l, oneByOne(), 8, h)
		in := items(8, noLane)
		e.Offer(in)
		pass(time.Hour)
		b.wantAcked(t, in...)
		for _, it := range in {
			rec := state(t, l, it)
			all, _ := h.runs(it.Msg.ID)
			want, runs := ledger.Succeeded, 1
			switch it.Msg.ID {
			case poison:
				want, runs = ledger.Failed, 3
			case "m00005":
				want = ledger.Failed
			}
			if rec.State != want || all != runs {
				t.Errorf("message %s: %v after %d runs", it.Msg.ID, rec.State, all)
			}
		}
		end(t, e)
	})
}

// A message of a batch is not ours any more when its transaction commits: nothing is committed, the others run alone, and
// the lost one is asked for.
func TestBatchLosesOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		in := items(8, noLane)
		commits := map[string]int{}
		h.f = func(ctx context.Context, batch []*consumer.Message) []error {
			if len(batch) == 8 {
				l.Drop(in[3].Key)
			}
			err := memory.InTx(ctx, func(context.Context) error { return nil })
			for _, m := range batch {
				if err == nil {
					commits[m.ID]++
				}
			}
			return slices.Repeat([]error{err}, len(batch))
		}
		e, b := beginBatch(t, l, oneByOne(), 8, h)
		e.Offer(in)
		pass(time.Hour)
		wantInnocent(t, l, b, in)
		for _, it := range in {
			if commits[it.Msg.ID] != 1 {
				t.Errorf("message %s was committed %d times", it.Msg.ID, commits[it.Msg.ID])
			}
		}
		if rec := state(t, l, in[3]); rec.State != ledger.Succeeded || rec.Attempts != 0 {
			t.Errorf("the lost one: %+v", rec)
		}
		end(t, e)
	})
}

// One message takes all the time of its batch: the time limit counts for it alone.
func TestBatchTimeLimitCountsForTheSlowOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		h.f = func(ctx context.Context, batch []*consumer.Message) []error {
			errs := make([]error, len(batch))
			for i, m := range batch {
				if m.ID == poison {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), consumer.ErrTimeout) {
						t.Errorf("cancelled: %v", context.Cause(ctx))
					}
				}
				errs[i] = ctx.Err()
			}
			return errs
		}
		o := oneByOne()
		o.HandlerTimeout = time.Second
		e, b := beginBatch(t, l, o, 8, h)
		in := items(8, noLane)
		e.Offer(in)
		pass(time.Hour)
		wantInnocent(t, l, b, in)
		rec := state(t, l, in[3])
		if rec.State != ledger.Failed || rec.Archived[0].Errors[0].Kind != ledger.KindTimeout || rec.Archived[0].Attempts != 3 {
			t.Errorf("the slow one: %+v", rec)
		}
		for i, it := range in[:3] { // those before it were done
			if all, _ := h.runs(it.Msg.ID); all != 1 {
				t.Errorf("message %d ran %d times", i, all)
			}
		}
		end(t, e)
	})
}

// A handler that returns while its transaction runs must not run again before that transaction can commit no more: the
// messages are released, which fences it, and run alone then. It counts for none.
func TestBatchTransactionLeftRunning(t *testing.T) {
	for name, leave := range map[string]func() []error{
		"success": func() []error { return nil },
		"panic":   func() []error { panic("ouch") },
		"errors":  func() []error { return slices.Repeat([]error{errBoom}, 8) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, h := memory.New(), &batches{}
				goOn, late := make(chan struct{}), make(chan error, 1)
				h.f = func(ctx context.Context, batch []*consumer.Message) []error {
					if len(batch) == 1 {
						return nil
					}
					inside := make(chan struct{})
					go func() {
						late <- memory.InTx(ctx, func(context.Context) error { close(inside); <-goOn; return nil })
					}()
					<-inside
					return leave()
				}
				e, b := beginBatch(t, l, oneByOne(), 8, h)
				in := items(8, noLane)
				e.Offer(in)
				pass(time.Minute)
				wantInnocent(t, l, b, in)
				for _, it := range in {
					if rec := state(t, l, it); rec.State != ledger.Succeeded || rec.Token != 2 || rec.Attempts != 0 {
						t.Errorf("message %s: %+v", it.Msg.ID, rec)
					}
				}
				close(goOn)
				if err := <-late; !ledger.IsLost(err) {
					t.Errorf("the transaction left behind: %v", err)
				}
				end(t, e)
			})
		})
	}
}

// Nobody knows whether the batch's transaction committed: nothing runs again before the ledger has been asked.
func TestBatchUnknownCommit(t *testing.T) {
	for _, landed := range []bool{true, false} {
		t.Run(fmt.Sprint("landed ", landed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, h := memory.New(), &batches{}
				h.f = func(ctx context.Context, _ []*consumer.Message) []error {
					if h.count() > 1 {
						return nil
					}
					a, _ := ledger.AttemptFrom(ctx)
					if landed {
						if err := memory.InTx(ctx, func(context.Context) error { return nil }); err != nil {
							t.Error(err)
						}
					} else if err := a.Begin(); err != nil {
						t.Error(err)
					}
					a.End(ledger.AttemptUnknown, errBoom)
					return slices.Repeat([]error{errBoom}, 8)
				}
				e, b := beginBatch(t, l, oneByOne(), 8, h)
				in := items(8, noLane)
				e.Offer(in)
				synctest.Wait()
				if h.count() != 1 {
					t.Errorf("it ran again at once: %v", h.calls)
				}
				pass(time.Hour)
				wantInnocent(t, l, b, in)
				for _, it := range in {
					if all, _ := h.runs(it.Msg.ID); landed != (all == 1) || state(t, l, it).Attempts != 0 {
						t.Errorf("message %s: %d runs, %+v", it.Msg.ID, all, state(t, l, it))
					}
				}
				end(t, e)
			})
		})
	}
}

// A message that breaks the database's connection each time it is in a transaction: outages count for none, and so that
// its neighbours are not with it for ever, each soon runs alone.
func TestBatchThatBreaksItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		h.f = func(ctx context.Context, batch []*consumer.Message) []error {
			if hasPoison(batch) {
				err := failTx(ctx, ledger.MarkUnavailable(errBoom))
				return slices.Repeat([]error{err}, len(batch))
			}
			return nil
		}
		e, b := beginBatch(t, l, oneByOne(), 8, h)
		in := items(8, noLane)
		e.Offer(in)
		pass(time.Hour)
		wantInnocent(t, l, b, in)
		if rec := state(t, l, in[3]); rec.State != ledger.Failed {
			t.Errorf("poison: %+v", rec)
		}
		end(t, e)
	})
}

package engine_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// mirror is a cipher that anybody can read. While it is broken, it fails.
type mirror struct{ broken func() error }

func (m mirror) Seal(_ context.Context, plain []byte) ([]byte, error) {
	if m.broken != nil {
		if err := m.broken(); err != nil {
			return nil, err
		}
	}
	out := slices.Clone(plain)
	slices.Reverse(out)
	return out, nil
}

func (m mirror) Open(ctx context.Context, sealed []byte) ([]byte, error) {
	return mirror{}.Seal(ctx, sealed)
}

// What fails is published as it is and archived sealed, with a target and without one. The cipher opens it whole.
func TestArchiveIsSealed(t *testing.T) {
	for name, to := range map[string]*target{"with a target": {}, "without one": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				o := forwarding(nil)
				if to != nil {
					o.DeadLetter = to
				}
				o.Cipher = mirror{}
				e, b := begin(t, l, o, boom)
				it := item("one", "")
				it.Original = func(*engine.Item) engine.Content {
					return engine.Content{Key: []byte{}, Body: []byte("body of one"), Headers: []ledger.Header{{Name: "a"}}}
				}
				e.Offer([]*engine.Item{it})
				pass(time.Second)
				b.wantAcked(t, it)
				rec := state(t, l, it)
				if rec.State != ledger.Failed || !rec.Archived[0].Sealed() || string(rec.Archived[0].Body) == "body of one" {
					t.Fatalf("%+v", rec)
				}
				dead := rec.Archived[0].Archive
				if err := dead.Open(t.Context(), mirror{}); err != nil || !dead.UnmarkEmptyKey() || string(dead.Body) != "body of one" || len(dead.Headers) != 1 {
					t.Errorf("%v, %+v", err, dead)
				}
				if to != nil && (to.count() != 1 || string(to.letters()[0].Message.Body) != "body of one" || len(to.letters()[0].Message.Headers) != 1) {
					t.Errorf("%+v", to.letters())
				}
				end(t, e)
			})
		})
	}
}

// While the cipher fails, panics, ends its goroutine or does not return, nothing is archived and nothing acknowledged; the others go on. Then the message ends.
func TestCipherThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, hang := memory.New(), make(chan struct{})
		var calls atomic.Int64
		o := forwarding(nil)
		o.DeadLetter, o.BackoffMax = nil, time.Minute
		o.Cipher = mirror{broken: func() error {
			switch calls.Add(1) {
			case 1:
				return errors.New("no key")
			case 2:
				panic("ouch")
			case 3:
				runtime.Goexit()
			case 4:
				<-hang
			}
			return nil
		}}
		e, b := begin(t, l, o, func(ctx context.Context, m *consumer.Message) error {
			if m.ID == "good" {
				return nil
			}
			return boom(ctx, m)
		})
		bad, good := item("bad", ""), item("good", "")
		e.Offer([]*engine.Item{bad, good})
		pass(time.Second)
		b.wantAcked(t, good)
		if rec := state(t, l, bad); rec.State != ledger.Pending || len(rec.Archived) > 0 || b.acked(t, bad) {
			t.Errorf("%+v", rec)
		}
		pass(15 * time.Minute)
		b.wantAcked(t, bad)
		if rec := state(t, l, bad); rec.State != ledger.Failed || !rec.Archived[0].Sealed() || calls.Load() != 5 {
			t.Errorf("after %d calls: %+v", calls.Load(), rec)
		}
		close(hang)
		end(t, e)
	})
}

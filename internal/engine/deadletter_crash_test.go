package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// crash runs a message in a process that is killed when its dead letter is published, before or after the target has it,
// and returns what a second process makes of the message.
func crash(t *testing.T, published bool, second consumer.HandlerFunc) (rec ledger.Record, letters []*consumer.DeadLetter) {
	t.Helper()
	l, to := memory.New(), &target{}
	var p *process
	dying := &target{do: func(ctx context.Context, n int, d *consumer.DeadLetter) error {
		if published && n == 1 {
			_ = to.Publish(ctx, d) // it takes everything
		}
		p.kill()
		<-t.Context().Done()
		return errBoom
	}}
	p = spawn(t, l, forwarding(dying), func(*process, context.Context, *consumer.Message) error { return errBoom })
	p.Offer([]*engine.Item{item("one", "")})
	<-p.dead
	again := item("one", "")
	e, b := begin(t, l, forwarding(to), second)
	e.Offer([]*engine.Item{again})
	pass(5 * time.Minute)
	b.wantAcked(t, again)
	end(t, e)
	p.bury(t)
	return state(t, l, again), to.letters()
}

// Killed before the publish, and between the publish and the settle: the message is never lost; the copies carry one
// identity, and the token says which is of the last failure.
func TestPitfall74_KilledBetweenPublishAndSettle(t *testing.T) {
	for _, published := range []bool{false, true} {
		t.Run(fmt.Sprint("published ", published), func(t *testing.T) {
			t.Run("it fails again", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rec, letters := crash(t, published, boom)
					if want := map[bool]int{false: 1, true: 2}[published]; len(letters) != want {
						t.Fatalf("%d letters, want %d", len(letters), want)
					}
					last := letters[len(letters)-1].Stamp
					if rec.State != ledger.Failed || len(rec.Archived) != 1 || !rec.Archived[0].Sent || rec.Token != last.Token {
						t.Errorf("row %+v, stamp %+v", rec, last)
					}
					if first := letters[0].Stamp; published && (first.ID != last.ID || first.Token >= last.Token) {
						t.Errorf("stamps %+v, %+v", first, last)
					}
				})
			})
			t.Run("it succeeds", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rec, letters := crash(t, published, func(context.Context, *consumer.Message) error { return nil })
					if rec.State != ledger.Succeeded || len(rec.Archived) != 0 || published != (len(letters) == 1) {
						t.Errorf("row %+v, %d letters", rec, len(letters))
					}
				})
			})
		})
	}
}

// Killed between the settle and the acknowledge: the redelivery is acknowledged; nothing is published or run again.
func TestKilledBetweenSettleAndAcknowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, to, runs := memory.New(), &target{}, 0
		for range 3 {
			it := item("one", "")
			e, b := begin(t, l, forwarding(to), func(context.Context, *consumer.Message) error { runs++; return errBoom })
			e.Offer([]*engine.Item{it})
			pass(time.Second)
			b.wantAcked(t, it) // which the broker never hears
			end(t, e)
		}
		if len(to.letters()) != 1 || runs != 1 {
			t.Errorf("%d letters, %d runs", len(to.letters()), runs)
		}
	})
}

// Dead-lettering that kills the process each time ends: at the crash limit it is tried a last time, then the archive alone
// has the message. A suspect is published in the suspects' place: the innocents that die with it each time are not failed.
func TestPitfall101_DeadLetteringThatKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, calls := memory.New(), 0
		var it *engine.Item
		innocents := map[string]*engine.Item{}
		for i := range 20 {
			innocents[fmt.Sprint("innocent ", i)] = nil
		}
		for lives := 1; ; lives++ {
			if lives > ledger.CrashLimit+3 {
				t.Fatalf("no end after %d processes", lives)
			}
			to := &target{}
			p := spawn(t, l, forwarding(to), func(_ *process, _ context.Context, m *consumer.Message) error {
				if m.ID == "killer" {
					return errBoom
				}
				time.Sleep(10 * time.Millisecond)
				return nil
			})
			to.do = func(context.Context, int, *consumer.DeadLetter) error {
				calls++
				p.kill()
				<-t.Context().Done()
				return errBoom
			}
			it = item("killer", "")
			in := []*engine.Item{it}
			for id, before := range innocents {
				if before == nil || !succeeded(l, before) {
					innocents[id] = item(id, "")
					in = append(in, innocents[id])
				}
			}
			p.Offer(in)
			select {
			case <-p.dead:
				p.bury(t)
				continue
			case <-time.After(time.Hour):
			}
			p.wantAcked(t, in...)
			end(t, p.Engine)
			break
		}
		rec := state(t, l, it)
		if rec.State != ledger.Failed || rec.Archived[0].Sent || rec.Archived[0].Kind != ledger.KindExhausted || calls != ledger.CrashLimit+1 {
			t.Errorf("%+v after %d kills", rec, calls)
		}
		for id, it := range innocents {
			if !succeeded(l, it) {
				t.Errorf("%s: %+v", id, state(t, l, it))
			}
		}
	})
}

func succeeded(l *memory.Ledger, it *engine.Item) bool {
	r, err := l.Get(context.Background(), it.Key)
	return err == nil && r.State == ledger.Succeeded
}

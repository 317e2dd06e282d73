package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// A message with a known id and another body kills the process when its dead letter is published. It has no row that could
// count its crashes: archived before it is published, it does so once, and no innocent in hand is failed for it.
func TestPitfall101_MismatchWhoseDeadLetterKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, kills := memory.New(), 0
		known := item("known", "")
		nothing := func(context.Context, *consumer.Message) error { return nil }
		e, _ := begin(t, l, options(), nothing)
		e.Offer([]*engine.Item{known})
		pass(time.Second)
		end(t, e)
		for again := true; again; {
			to := &target{}
			p := spawn(t, l, forwarding(to), func(*process, context.Context, *consumer.Message) error {
				time.Sleep(time.Second)
				return nil
			})
			to.do = func(context.Context, int, *consumer.DeadLetter) error {
				kills++
				p.kill()
				<-t.Context().Done()
				return errBoom
			}
			other, innocent := item("known", ""), item("innocent", "")
			other.Fingerprint, other.Delivery = ledger.BodyFingerprint([]byte("forged")), []byte("delivery two")
			other.Original = func(*engine.Item) engine.Content { return engine.Content{Body: []byte("forged")} }
			p.Offer([]*engine.Item{other, innocent})
			select {
			case <-p.dead:
				p.bury(t)
				if kills > ledger.CrashLimit {
					t.Fatalf("no end after %d processes", kills)
				}
			case <-time.After(time.Hour):
				p.wantAcked(t, other, innocent)
				end(t, p.Engine)
				again = false
			}
		}
		rec := state(t, l, known)
		if kills != 1 || len(rec.Archived) != 1 || string(rec.Archived[0].Body) != "forged" || rec.Archived[0].Sent {
			t.Errorf("%d kills, %+v", kills, rec)
		}
		if rec := state(t, l, item("innocent", "")); rec.State != ledger.Succeeded || rec.Crashes > 1 {
			t.Errorf("the innocent: %+v", rec)
		}
	})
}

// A message that kills its process was dead-lettered, and is brought back while suspects wait: innocents that had been in
// hand in crashes. It begins as a suspect too, alone in the suspects' place, so its kills are counted for it alone: it fails
// again, at the crash limit, and no innocent comes any nearer to its own. (Begun anew as any other message, it would kill
// the suspect that runs beside it each time, until that one is failed in its place.)
func TestPitfall118_KillerIsReplayedWhileSuspectsWait(t *testing.T) {
	for name, make := range map[string]func(n int) *engine.Item{
		"rows": func(n int) *engine.Item { return item(fmt.Sprint("m", n), "") },
		"ranges": func(n int) *engine.Item {
			id := consumerID(int64(n))
			return rangedItem(int64(n), &late{[]byte(id), id, atomic.Int64{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replayKiller(t, make) })
		})
	}
}

// replayKiller plays it: message 0 is the killer, the others are innocent.
func replayKiller(t *testing.T, make func(n int) *engine.Item) {
	const innocents = 20
	l := memory.New()
	killer := make(0)
	kills := 0
	handler := func(p *process, _ context.Context, m *consumer.Message) error {
		if m.ID == killer.Msg.ID {
			kills++
			p.kill()
			return errors.New("nobody hears of this: the process is gone")
		}
		time.Sleep(5 * time.Second)
		return nil
	}
	offer := func(waits time.Duration, items ...*engine.Item) (killed bool) {
		p := spawn(t, l, options(), handler)
		p.Offer(items)
		select {
		case <-p.dead:
		case <-time.After(waits):
			if waits < time.Hour {
				p.kill()
				break
			}
			p.wantAcked(t, items...)
			end(t, p.Engine)
			return false
		}
		p.bury(t)
		return true
	}
	for offer(time.Hour, make(0)) { // it fails for good
	}
	rest := func() (out []*engine.Item) {
		for n := range innocents {
			if it := make(n + 1); !succeeded(l, it) {
				out = append(out, it)
			}
		}
		return out
	}
	for range ledger.SuspectCrashes {
		offer(time.Second, rest()...)
	}
	for round := range 2 {
		failed := state(t, l, killer)
		if failed.State != ledger.Failed || failed.Archived[0].Kind != ledger.KindExhausted {
			t.Fatalf("round %d: the killer: %+v", round, failed)
		}
		before := kills
		for again := true; again; {
			replayed := make(0)
			replayed.Ranged, replayed.Late, replayed.Delivery = false, nil, fmt.Append(nil, "copy ", round)
			replayed.Fingerprint, replayed.StampToken = failed.Fingerprint, failed.Token
			again = offer(time.Hour, append(rest(), replayed)...)
		}
		if n := kills - before; n != ledger.CrashLimit-ledger.SuspectCrashes {
			t.Errorf("round %d: the killer killed %d processes", round, n)
		}
	}
	for n := range innocents {
		it := make(n + 1)
		if rec := state(t, l, it); rec.State != ledger.Succeeded || rec.Crashes > ledger.SuspectCrashes || len(rec.Archived) > 0 {
			t.Errorf("innocent %s: %s after %d crashes, %d archived", it.Msg.ID, rec.State, rec.Crashes, len(rec.Archived))
		}
	}
}

package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// process is a worker's process that can be killed: its connection goes dead, and its handlers never return.
type process struct {
	*engine.Engine
	*broker
	net  *link
	dead chan struct{}
	once sync.Once
}

// kill ends the process at once: the ledger hears nothing more of it.
func (p *process) kill() {
	p.once.Do(func() {
		p.net.set(func(memory.Op) error { return ledger.MarkUnknown(errDown) }, nil)
		close(p.dead)
	})
}

// spawn starts a process whose handler is h until it is killed.
func spawn(t *testing.T, l ledger.Ledger, o consumer.Options, h func(p *process, ctx context.Context, m *consumer.Message) error) *process {
	t.Helper()
	p := &process{net: &link{Ledger: l}, dead: make(chan struct{})}
	p.Engine, p.broker = begin(t, p.net, o, func(ctx context.Context, m *consumer.Message) error {
		err := h(p, ctx, m)
		select {
		case <-p.dead:
			<-t.Context().Done() // gone: what it would return changes nothing
			return err
		default:
			return err
		}
	})
	return p
}

// bury ends the goroutines of a killed process, but those of its handlers.
func (p *process) bury(t *testing.T) {
	t.Helper()
	if err := p.Close(t.Context()); err == nil {
		t.Error("a dead process has left the ledger")
	}
}

// crashLoop redelivers messages to one process after the other, each of which runs until it is killed or an hour has
// passed, and returns how many were killed.
func crashLoop(t *testing.T, l ledger.Ledger, o consumer.Options, ids []string, h func(*process, context.Context, *consumer.Message) error) int {
	t.Helper()
	acked := map[string]bool{}
	for kills := 0; ; kills++ {
		if kills > 40 {
			t.Fatalf("still not at an end after %d crashes", kills)
		}
		p := spawn(t, l, o, h)
		var in []*engine.Item
		for _, id := range ids {
			if !acked[id] {
				in = append(in, item(id, ""))
			}
		}
		p.Offer(in)
		select {
		case <-p.dead:
		case <-time.After(time.Hour):
		}
		synctest.Wait()
		for _, it := range in {
			acked[it.Msg.ID] = p.acked(t, it)
		}
		select {
		case <-p.dead:
			p.bury(t)
			continue
		default:
		}
		end(t, p.Engine)
		for _, id := range ids {
			if !acked[id] {
				t.Errorf("message %s did not come to an end", id)
			}
		}
		return kills
	}
}

// One message of 2,000 kills its process each time: the 1,999 succeed, it ends exhausted and archived after a bounded number
// of crashes, and suspects run one at a time, so that no innocent shares its fate.
func TestPitfall80_KillerAmongInnocents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var runs sync.Map
		var suspects atomic.Int64
		ids := make([]string, 2000)
		for i := range ids {
			ids[i] = fmt.Sprintf("m%04d", i)
		}
		kills := crashLoop(t, l, options(), ids, func(p *process, ctx context.Context, m *consumer.Message) error {
			n, _ := runs.LoadOrStore(m.ID, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
			rec, err := l.Get(context.WithoutCancel(ctx), ledger.Key{Scope: scope, ID: []byte(m.ID)})
			if err == nil && rec.Crashes >= ledger.SuspectCrashes {
				if suspects.Add(1) > 1 {
					t.Errorf("message %s is a suspect and does not run alone", m.ID)
				}
				time.Sleep(time.Second)
				suspects.Add(-1)
			}
			if m.ID == "m0042" {
				p.kill()
				return nil
			}
			time.Sleep(5 * time.Second) // in its handler when the killer comes
			return nil
		})
		if kills > ledger.CrashLimit {
			t.Errorf("%d crashes, at most %d are needed", kills, ledger.CrashLimit)
		}
		for _, id := range ids {
			rec := state(t, l, item(id, ""))
			if id == "m0042" {
				if rec.State != ledger.Failed || rec.Crashes != ledger.CrashLimit || rec.Archived[0].Kind != ledger.KindExhausted || string(rec.Archived[0].Body) != "body of m0042" {
					t.Errorf("the killer: %+v", rec)
				}
				continue
			}
			if rec.State != ledger.Succeeded || rec.Crashes > ledger.SuspectCrashes || rec.Attempts != 0 {
				t.Errorf("innocent %s: %+v", id, rec)
			}
		}
	})
}

// A message that kills the process on every attempt ends failed, exhausted, at the crash limit, also alone, also at the
// head of a lane, behind which the others then run.
func TestPitfall67_KillerAtTheHeadOfALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		runs, order := 0, []string{}
		for kills := 0; ; kills++ {
			p := spawn(t, l, options(), func(p *process, _ context.Context, m *consumer.Message) error {
				if m.ID == "killer" {
					runs++
					p.kill()
					return nil
				}
				order = append(order, m.ID)
				return nil
			})
			in := []*engine.Item{item("killer", "lane"), item("second", "lane"), item("third", "lane")}
			p.Offer(in)
			select {
			case <-p.dead:
				synctest.Wait()
				p.bury(t)
				continue
			case <-time.After(time.Hour):
			}
			synctest.Wait()
			p.wantAcked(t, in...)
			end(t, p.Engine)
			break
		}
		if runs != ledger.CrashLimit || fmt.Sprint(order) != "[second third]" {
			t.Errorf("%d runs of the killer, order %v", runs, order)
		}
		if rec := state(t, l, item("killer", "")); rec.State != ledger.Failed || rec.Archived[0].Kind != ledger.KindExhausted {
			t.Errorf("%+v", rec)
		}
	})
}

// Park: an attempt that was cut short is not run again, but archived as uncertain. What was not started when the process
// died is not claimed ahead, so it is not uncertain.
func TestParkArchivesAsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.Park = true
		first := true
		var ids []string
		for i := range 30 {
			ids = append(ids, fmt.Sprintf("m%04d", i))
		}
		var mu sync.Mutex
		runs := map[string]int{}
		kills := crashLoop(t, l, o, ids, func(p *process, _ context.Context, m *consumer.Message) error {
			mu.Lock()
			runs[m.ID]++
			die := first && len(runs) == 4
			mu.Unlock()
			if die {
				first = false
				p.kill()
			}
			time.Sleep(time.Second)
			return nil
		})
		uncertain := 0
		for _, id := range ids {
			rec := state(t, l, item(id, ""))
			if runs[id] != 1 {
				t.Errorf("message %s ran %d times", id, runs[id])
			}
			if rec.State == ledger.Failed {
				uncertain++
				if rec.Archived[0].Kind != ledger.KindUncertain {
					t.Errorf("message %s: %s", id, rec.Archived[0].Kind)
				}
			}
		}
		if kills != 1 || uncertain != 4 {
			t.Errorf("%d crashes, %d uncertain, want the 4 that ran", kills, uncertain)
		}
	})
}

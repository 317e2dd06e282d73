package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// keptAll claims messages and settles them as kept successes, so many in a call as a slow machine carries out in the
// time that stores give a call.
func (e *env) keptAll(all []ledger.Entry) {
	e.Helper()
	o := e.owner()
	for part := range slices.Chunk(all, 200) {
		e.hold(o, e.allRun(o, part), func(c ledger.Claim) ledger.Settlement { return e.kept(succeed(c)) })
	}
}

// maintainEight: eight processes maintain at once: one at a time sweeps, and all messages go.
func maintainEight(e *env) {
	n := inLongRun(1000, 300)
	var entries []ledger.Entry
	for i := range n {
		entries = append(entries, e.short(number(i)))
	}
	e.keptAll(entries)
	var all []*process
	for range 8 {
		all = append(all, e.start(doMaintain, time.Second))
	}
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	reports := make(chan ledger.SweepReport)
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { p.reports(ctx, reports) })
	}
	var seen passes
	removed := int64(0)
	for at := 0; (removed < int64(n) || at < 20) && ctx.Err() == nil; at++ {
		select {
		case r := <-reports:
			removed += r.Messages
			seen.note(r)
		case <-ctx.Done():
		}
	}
	cancel()
	wg.Wait()
	for _, p := range all {
		p.kill()
	}
	seen.check(e, 20)
	if removed != int64(n) {
		e.Errorf("%d messages went, want %d", removed, n)
	}
}

// reports passes on what a process that maintains says, until ctx ends.
func (p *process) reports(ctx context.Context, to chan<- ledger.SweepReport) {
	for {
		select {
		case ev, ok := <-p.events:
			if !ok || ev.Do == "failed" {
				p.env.Errorf("a process that maintains ended: %s", ev.Error)
				return
			}
			if ev.Report == nil {
				continue
			}
			select {
			case to <- *ev.Report:
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return
		}
	}
}

// maintainKilled: processes that are killed in the middle of a sweep lose nothing, and the next ones go on.
func maintainKilled(e *env) {
	n := inLongRun(3000, 2000)
	if e.Ranged {
		n = inLongRun(3000, 1000) // each has a log of its own, to be swept as well
	}
	var watched, kept []ledger.Entry
	middle := 0
	for try := 0; middle == 0 && try < 5; try++ { // on a busy machine a process may have swept all before it is stopped
		some, stay := e.expired(try, n)
		watched, kept = append(watched, some...), append(kept, stay...)
		for range 4 {
			if some = e.killSweeping(some); len(some) == 0 {
				break
			}
			middle++
		}
	}
	if middle == 0 {
		e.Error("no process was killed in the middle of its sweep: none left an expired row behind")
	}
	var last ledger.SweepReport
	e.eventually("the killed one's last statement is over, and nothing is left to remove", func() bool {
		last = e.sweep(keep)
		return last.Messages == 0 && e.gone(watched[0])
	})
	if !e.Ranged && last.Rows != int64(len(kept)) {
		e.Errorf("the last pass: %+v", last)
	}
	for part := range slices.Chunk(kept, 200) {
		e.answers(e.owner(), part, func(int) ledger.Answer { return ledger.Done })
	}
	for _, m := range watched {
		if !e.gone(m) {
			e.Errorf("%s is there", m.Key.ID)
		}
	}
}

// expired makes n messages whose time is over, and a tenth as many that stay. It returns some of the first, in their order, and
// all that stay.
func (e *env) expired(try, n int) (some, stay []ledger.Entry) {
	e.Helper()
	var all []ledger.Entry
	for i := range n {
		m := e.short(fmt.Sprint("expired ", try, " ", i))
		if all = append(all, m); i%10 == 0 {
			stay = append(stay, e.entry(fmt.Sprint("kept ", try, " ", i)))
		}
		if i%100 == 0 {
			some = append(some, m)
		}
	}
	e.keptAll(all)
	e.keptAll(stay)
	e.pass(shortWindow)
	return some, stay
}

// killSweeping starts a process that maintains, kills it when the first of the rows is gone, and returns those it left. The
// process is stopped while the rows are looked at, or it would be done before anybody has seen that it began.
func (e *env) killSweeping(rows []ledger.Entry) []ledger.Entry {
	e.Helper()
	p := e.start(doMaintain, time.Second)
	p.waitFor("maintaining")
	turn := time.Millisecond
	e.eventually("the sweep begins", func() bool {
		p.signal(syscall.SIGCONT)
		<-time.After(turn) // so long it may run: longer each time, since on a busy machine it hardly does
		turn += turn / 8
		p.signal(syscall.SIGSTOP)
		// It may have been stopped where nobody can read (SQLite: while it writes the header of the WAL's index): it goes on then.
		ctx, cancel := context.WithTimeout(e.ctx, time.Second)
		defer cancel()
		for _, m := range rows {
			r, err := e.Get(ctx, m.Key)
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				e.Logf("while the process is stopped: %v", err)
				return false
			}
			if err != nil || r.In != nil {
				return true
			}
		}
		return false
	})
	p.kill()
	e.rest() // its last statement is over
	return slices.DeleteFunc(rows, e.swept)
}

// swept says that a message has no row any more.
func (e *env) swept(m ledger.Entry) bool {
	e.Helper()
	r, err := e.Get(e.ctx, m.Key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		e.Fatalf("get: %v", err)
	}
	return err != nil || r.In != nil
}

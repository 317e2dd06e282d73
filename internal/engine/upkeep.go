package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// How often the ledger is asked how much is archived; consumer.Options.ArchiveBudget names them for users.
const (
	weighRest  = 10 * time.Second
	weighShare = 20        // the rest is so many times as long as the asking took that was answered
	weighLimit = time.Hour // of an archive of any size; the store notices before that if nobody answers
)

// upkeep is what a worker does for the ledger as a whole: it sweeps it, relays its outbox, and asks how much is archived.
type upkeep struct {
	*kernel
	life      *life
	opt       *consumer.Options
	notes     *notes
	relay     relay // nil: it relays nothing
	unweighed error // of the last time that the ledger was asked how much is archived; the kernel's lock guards it
}

// relay sends what was published: a [Relay].
type relay interface {
	Run(ctx context.Context) error
	Close()
}

// sweep sweeps the ledger for as long as the engine lives; of all processes one does at a time.
func (u *upkeep) sweep(m ledger.Maintainer) {
	err := m.Maintain(u.life.gone, ledger.MaintainConfig{Keep: u.opt.Keep, Report: u.notes.swept})
	if err == nil {
		return
	}
	u.log.Error("the ledger is not maintained by this worker: its tables grow", zap.Error(err))
	u.notes.notSwept(err)
}

// relays sends what was published, for as long as the engine lives.
func (u *upkeep) relays() {
	defer u.relay.Close()
	if err := u.relay.Run(u.life.gone); err != nil {
		u.log.Error("nothing is relayed", zap.Error(err))
	}
}

// pressureRest is how often Options.Pressure is asked.
const pressureRest = time.Second

// press asks now and then how loaded something is.
func (u *upkeep) press(ask func() float64) {
	t := time.NewTicker(pressureRest)
	defer t.Stop()
	for failed := false; ; {
		select {
		case <-t.C:
		case <-u.life.gone.Done():
			return
		}
		select {
		case a := <-apart("Options.Pressure", func() (float64, error) { return ask(), nil }):
			if a.err != nil && !failed {
				u.log.Warn("a function of the user's has failed: it says nothing", zap.Error(a.err))
			}
			failed = a.err != nil
			u.do(func(f *flow.Flow, _ time.Duration) { f.Pressed(a.value) })
		case <-u.life.gone.Done():
			return
		}
	}
}

// weigh asks the ledger now and then how much is archived.
func (u *upkeep) weigh(m ledger.ArchiveMeter) {
	for failed := 0; ; {
		began := time.Now()
		var rest time.Duration
		if err := u.weighAll(m); err == nil {
			rest, failed = max(weighRest, weighShare*time.Since(began)), 0
		} else {
			failed++
			rest = outage(failed)
		}
		t := time.NewTimer(rest)
		select {
		case <-t.C:
		case <-u.wait.look:
		case <-u.life.gone.Done():
		}
		t.Stop()
		if u.life.gone.Err() != nil {
			return
		}
	}
}

// weighAll asks the ledger for all scopes.
func (u *upkeep) weighAll(m ledger.ArchiveMeter) error {
	var scopes []string
	u.do(func(f *flow.Flow, _ time.Duration) { scopes = f.Weigh() })
	for _, scope := range scopes {
		u.mu.Lock()
		u.flow.Weighing(scope)
		u.mu.Unlock()
		ctx, cancel := context.WithTimeout(u.life.gone, weighLimit)
		n, err := m.ArchivedBytes(ctx, scope, u.opt.ArchiveBudget)
		cancel()
		if u.weighed(scope, n, err); err != nil {
			return err
		}
	}
	return nil
}

// weighed takes the ledger's answer.
func (u *upkeep) weighed(scope string, n int64, err error) {
	u.mu.Lock()
	defer u.unlock()
	if err != nil && u.unweighed == nil && u.life.gone.Err() == nil {
		u.log.Warn("how much is archived cannot be read", zap.String("scope", scope), zap.Error(err))
	}
	if u.unweighed = err; err == nil {
		u.flow.Weighed(u.now(), scope, n)
	}
}

// why says in words why nothing starts, and since when; empty: the budget has room. The kernel's lock is held.
func (u *upkeep) why() (text string, since time.Duration) {
	stops, scope, bytes, known, since := u.flow.BudgetStops()
	switch {
	case !stops:
		return "", 0
	case known:
		text = fmt.Sprintf("the budget of archived bytes is spent: %d of %d in scope %q", bytes, u.opt.ArchiveBudget, scope)
	case u.unweighed != nil:
		text = fmt.Sprintf("how much of scope %q is archived cannot be read: %v", scope, u.unweighed)
	default:
		text = fmt.Sprintf("how much of scope %q is archived is not known yet", scope)
	}
	return text, since
}

package driver

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// owner is the ledger's own owner, which stands behind that of ranges.
type owner struct {
	l      *Ledger
	id     OwnerID
	lease  time.Duration
	ranged *ranges.Owner // what Join returned, or what is beneath it
	opens  atomic.Bool   // it has opened ranges: claims of one log wait for each other
	beats.Slate

	mu    sync.Mutex
	pulse beats.Pulse
}

// ID implements [ledger.Owner].
func (o *owner) ID() string { return o.id.String() }

// Beat implements [ledger.Owner].
func (o *owner) Beat(ctx context.Context) (time.Duration, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	sent := o.l.store.Now()
	err := o.l.store.Beat(ctx, o.id, o.lease, o.Written())
	seal := o.note(sent, err)
	if err != nil {
		return 0, o.named("beat of", err)
	}
	o.hear(ctx)
	if seal {
		if err := o.l.store.Seal(ctx, o.id); err != nil { // our own beat is confirmed; the next one tries again
			o.l.cfg.Warn("overdue owners were not declared dead by owner "+o.ID(), err)
		}
	}
	return o.lease, nil
}

// hearLimit is how long a beat may take longer for the pauses.
const hearLimit = time.Second

// hear asks for the pauses that hold. The beat is confirmed without: if there is no answer, those stay that were known.
func (o *owner) hear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, hearLimit)
	defer cancel()
	pauses, err := o.l.pauses(ctx)
	if err != nil {
		o.l.cfg.Warn("the pauses were not read by owner "+o.ID(), err)
		return
	}
	o.Heard(pauses)
}

// note keeps the pulse, and says whether peers may be declared dead.
func (o *owner) note(sent time.Time, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.l.store.Now()
	if err != nil {
		o.pulse.Missed(now)
		return false
	}
	o.pulse.Confirmed(sent, now)
	return o.pulse.MaySeal(now)
}

// Leave implements [ledger.Owner].
func (o *owner) Leave(ctx context.Context) error {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	return o.named("leave of", o.l.store.Leave(ctx, o.id))
}

func (o *owner) named(what string, err error) error {
	if err == nil {
		return nil
	}
	return o.l.named(fmt.Sprintf("%s owner %d", what, o.id), err)
}

// each runs fn for each message or log of a call while this owner is live. A call about nothing tells of the owner.
func (o *owner) each(ctx context.Context, call Call, fn func(tx Tx, i int) error) (busy map[int]error, err error) {
	if call.Len() == 0 {
		if err = o.l.store.Update(ctx, call, o.lives); Busy(err) {
			err = nil
		}
		return nil, err
	}
	var last Tx
	return each(ctx, o.l.store, call, func(tx Tx, i int) error {
		if i == 0 || tx != last { // a transaction of several begins with the first
			if err := o.lives(tx); err != nil {
				return err
			}
			last = tx
		}
		return fn(tx, i)
	})
}

// lives is [ledger.ErrLost] if this owner does not live any more.
func (o *owner) lives(tx Tx) error {
	me, err := tx.Owner(o.id)
	if err == nil && me.Fate != Live {
		err = ledger.ErrLost
	}
	return err
}

// holds tells whose something is that an owner has, as me sees it.
func holds(r Reader, me, id OwnerID) (ledger.Holder, time.Duration, error) {
	switch id {
	case Nobody:
		return ledger.Nobody, 0, nil
	case me:
		return ledger.Mine, 0, nil
	}
	holder, err := r.Owner(id)
	switch {
	case err != nil:
		return ledger.Nobody, 0, err
	case holder.Fate == Live:
		return ledger.Live, holder.Lease.Sub(r.Now()), nil
	case holder.Fate == Left:
		return ledger.Left, 0, nil
	}
	return ledger.Dead, 0, nil
}

// sees is what the tables need to know of a message, as me sees it.
func sees(r Reader, me OwnerID, m *Message) (*ledger.Row, error) {
	row := &ledger.Row{Fingerprint: m.Fingerprint, State: m.State, Token: m.Token, Attempts: m.Attempts, Crashes: m.Crashes,
		Archived: m.Archived}
	if !m.Due.IsZero() {
		row.DueIn = m.Due.Sub(r.Now())
	}
	var err error
	row.Holder, row.HeldFor, err = holds(r, me, m.Owner)
	return row, err
}

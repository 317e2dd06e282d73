package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Worker is an owner, and what its worker said last.
type Worker struct {
	ID     OwnerID
	Fate   Fate
	Lease  time.Duration // what is left of it, of a live one
	Report []byte        // as [Owners.Beat] got it; nil: none
}

// Workers implements [ledger.Board].
func (l *Ledger) Workers(ctx context.Context) ([]ledger.WorkerStatus, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	all, err := l.store.Workers(ctx, ledger.OwnerRest)
	if err != nil {
		return nil, l.named("workers", err)
	}
	slices.SortStableFunc(all, func(a, b Worker) int { return int(a.Fate) - int(b.Fate) }) // live ones have the lowest
	out := make([]ledger.WorkerStatus, min(len(all), ledger.MaxWorkers))
	for i := range out {
		w := &all[i]
		out[i] = ledger.WorkerStatus{Owner: w.ID.String(), Fate: holders[w.Fate], Report: beats.DecodeReport(w.Report)}
		if w.Fate == Live {
			out[i].Lease = w.Lease
		}
	}
	return out, nil
}

var holders = map[Fate]ledger.Holder{Live: ledger.Live, Left: ledger.Left, Dead: ledger.Dead}

// Pauses implements [ledger.Board].
func (l *Ledger) Pauses(ctx context.Context) ([]ledger.Pause, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	pauses, err := l.pauses(ctx)
	return pauses, l.named("pauses", err)
}

func (l *Ledger) pauses(ctx context.Context) (hold []ledger.Pause, err error) {
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
		hold, err = r.Pauses()
		return err
	})
	return hold, err
}

// Pause implements [ledger.Board].
func (l *Ledger) Pause(ctx context.Context, scope string, by ledger.By) error {
	if err := checks.Pause(scope, by); err != nil {
		return err
	}
	return l.named("pause", l.operate(ctx, Call{}, func(tx Tx) error {
		hold, err := tx.Pauses()
		if err != nil {
			return err
		}
		if hold, err = beats.AddPause(hold, ledger.Pause{Scope: scope, By: by, Since: tx.Now()}); err != nil {
			return err
		}
		return putPauses(tx, hold, acts.PauseRecord(scope, by, ledger.ActionPause))
	}))
}

// Resume implements [ledger.Board].
func (l *Ledger) Resume(ctx context.Context, scope string, by ledger.By) (was bool, err error) {
	if err := checks.Pause(scope, by); err != nil {
		return false, err
	}
	err = l.operate(ctx, Call{}, func(tx Tx) error {
		was = false
		hold, err := tx.Pauses()
		if err != nil {
			return err
		}
		rest := slices.DeleteFunc(slices.Clone(hold), func(p ledger.Pause) bool { return p.Scope == scope })
		if len(rest) == len(hold) {
			return nil
		}
		was = true
		return putPauses(tx, rest, acts.PauseRecord(scope, by, ledger.ActionResume))
	})
	return was && err == nil, l.named("resume", err)
}

func putPauses(tx Tx, hold []ledger.Pause, note ledger.AuditRecord) error {
	if err := tx.Note([]ledger.AuditRecord{note}); err != nil {
		return err
	}
	return tx.PutPauses(hold)
}

// storedPause is a pause as JSON. Scopes need not be UTF-8, and a text as bytes has a size that its escapes do not change.
type storedPause struct {
	Scope, Actor, Reason []byte
	Since                time.Time
}

// EncodePauses gives the stored form of pauses, for stores that keep them together: 200 kB at most.
func EncodePauses(hold []ledger.Pause) ([]byte, error) {
	stored := make([]storedPause, len(hold))
	for i, p := range hold {
		stored[i] = storedPause{Scope: []byte(p.Scope), Actor: []byte(p.By.Actor), Reason: []byte(p.By.Reason), Since: p.Since}
	}
	return json.Marshal(stored)
}

// DecodePauses reads what [EncodePauses] wrote; nothing is no pauses.
func DecodePauses(b []byte) ([]ledger.Pause, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var stored []storedPause
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("the stored pauses cannot be read: %w", err)
	}
	hold := make([]ledger.Pause, len(stored))
	for i, p := range stored {
		hold[i] = ledger.Pause{Scope: string(p.Scope), By: ledger.By{Actor: string(p.Actor), Reason: string(p.Reason)}, Since: p.Since}
	}
	return hold, nil
}

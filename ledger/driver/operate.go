package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// Renew implements [ledger.Operator].
func (l *Ledger) Renew(ctx context.Context, r ledger.Renewal) (out ledger.Renewed, err error) {
	if err := checks.By(r.By); err != nil {
		return out, err
	}
	err = l.operate(ctx, Call{}, func(tx Tx) error {
		out, err = renew(tx, &r)
		return err
	})
	if err != nil {
		return ledger.Renewed{}, l.named(fmt.Sprintf("renew %v", r.Key), err)
	}
	return out, nil
}

func renew(tx Tx, r *ledger.Renewal) (out ledger.Renewed, err error) {
	key := r.Key.Sum()
	m, err := tx.Message(key, nil)
	if err != nil {
		return out, err
	}
	if m == nil || m.State != ledger.Failed || m.Token != r.Token {
		return out, ledger.ErrChanged
	}
	archived, err := tx.Archive(key, false)
	if err != nil {
		return out, err
	}
	a := find(archived, m.Failed)
	if a == nil || !a.Purged.IsZero() {
		return out, fmt.Errorf("%w: it has no archived delivery", ledger.ErrChanged)
	}
	note := ledger.AuditRecord{By: r.By, Action: ledger.ActionRenew, Key: a.Key, State: m.State, Token: m.Token,
		Delivery: a.Delivery, Detail: acts.RenewalDetail(r)}
	m.Token++
	m.Generation++
	if !r.Mended {
		_, err = tx.Alter(key, a.Delivery, ArchiveChange{Token: m.Token})
	} else {
		m.Fingerprint, m.Failed = r.Fingerprint, acts.RenewedDelivery(m.Token)
		mended := *a
		mended.Body, mended.BodyBytes, mended.Fingerprint, mended.Delivery = r.Body, 0, r.Fingerprint, m.Failed
		mended.Token, mended.Generation, mended.At, mended.Sent = m.Token, m.Generation, tx.Now(), false
		mended.Replayed = time.Time{}
		err = tx.File(&mended)
	}
	if err == nil {
		err = tx.Put(m)
	}
	if err == nil {
		err = tx.Note([]ledger.AuditRecord{note})
	}
	return ledger.Renewed{Token: m.Token, Generation: m.Generation, Delivery: bytes.Clone(m.Failed)}, err
}

// Reopen implements [ledger.Operator].
func (l *Ledger) Reopen(ctx context.Context, r ledger.ReopenRequest) (ledger.ReopenReport, error) {
	if err := checks.Reopen(&r); err != nil {
		return ledger.ReopenReport{}, err
	}
	logs, err := l.finished(ctx, r.Filter.Scope)
	if err != nil {
		return ledger.ReopenReport{}, l.named("reopen", err)
	}
	ranged := ranges.Reopening{Request: r, Join: l.Join, Audit: l.Audit, Rows: l.Messages}
	if err := ranged.Check(logs); err != nil {
		return ledger.ReopenReport{}, err
	}
	began, f := l.store.Now().UTC(), r.Filter
	f.State = ledger.Succeeded
	// What is claimed at this very moment is of before: a clock may stand still.
	if end := began.Add(time.Microsecond); f.To.IsZero() || f.To.After(end) {
		f.To = end
	}
	if !f.From.Before(f.To) { // nothing can be of then
		return ledger.ReopenReport{Began: began}, nil
	}
	report, err := acts.Reopen(ctx, r, began, l.Messages(ctx, f), func(ctx context.Context, batch []ledger.Listed) (int64, error) {
		p := parts[ledger.Listed]{key: func(m *ledger.Listed) Key { return m.Key }, ahead: setAside,
			write: func(tx Tx, part []ledger.Listed) (int64, error) { return reopen(tx, &r, part) }}
		return p.run(ctx, l, batch)
	})
	if err == nil {
		err = ranged.Run(ctx, logs, &report)
	}
	return report, l.named("reopen", err)
}

// reopen writes the messages that still are as they were listed, and returns how many these are.
func reopen(tx Tx, r *ledger.ReopenRequest, batch []ledger.Listed) (int64, error) {
	var notes []ledger.AuditRecord
	for i := range batch {
		m, err := tx.Message(batch[i].Key, nil)
		if err != nil {
			return 0, err
		}
		if m == nil || m.State != ledger.Succeeded || m.Token != batch[i].Token {
			continue
		}
		window, covered, err := cover(tx, m)
		if err != nil {
			return 0, err
		}
		*m = Message{Key: m.Key, Scope: m.Scope, ID: m.ID, Fingerprint: m.Fingerprint, State: ledger.Pending, Token: m.Token + 1,
			Generation: m.Generation, At: tx.Now(), Expiry: tx.Now().Add(window), Covered: covered}
		if r.FreshKeys {
			m.Generation++
		}
		if err := tx.Put(m); err != nil {
			return 0, err
		}
		archived, err := tx.Archive(m.Key, false)
		if err == nil { // so that they run when they come again
			_, err = rename(tx, m.Key, m.Token, archived)
		}
		if err != nil {
			return 0, err
		}
		notes = append(notes, acts.MessageRecord(&batch[i], r.By, ledger.ActionReopen, acts.ReopenDetail(r)))
	}
	return int64(len(notes)), tx.Note(notes)
}

// rename gives archived deliveries the names that they have once their message is reopened with a token, and says how many had others.
func rename(tx Tx, key Key, token uint64, archived []ledger.ArchiveRecord) (n int64, err error) {
	for i := range archived {
		delivery := archived[i].Delivery
		if bytes.HasPrefix(delivery, acts.ReopenedDelivery(token, nil)) {
			continue
		}
		if _, err := tx.Alter(key, delivery, ArchiveChange{Delivery: acts.ReopenedDelivery(token, delivery)}); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// setAside renames some archived deliveries of a message ahead of its reopening, which are more than one transaction takes, and says how
// many. Nothing hangs on their names as long as the message has succeeded.
func setAside(tx Tx, listed *ledger.Listed, most int) (int64, error) {
	m, err := tx.Message(listed.Key, nil)
	if err != nil || m == nil || m.State != ledger.Succeeded || m.Token != listed.Token {
		return 0, err
	}
	archived, err := tx.Archive(m.Key, false)
	if err != nil {
		return 0, err
	}
	archived = slices.DeleteFunc(archived, func(a ledger.ArchiveRecord) bool {
		return bytes.HasPrefix(a.Delivery, acts.ReopenedDelivery(m.Token+1, nil))
	})
	return rename(tx, m.Key, m.Token+1, archived[:min(most, len(archived))])
}

// cover says whether a range or segment still speaks for a message that is finished, and how long the message is to be known from now
// on: for as long as that says, at least, since its own row was to go soon.
func cover(tx Tx, m *Message) (window time.Duration, covered bool, err error) {
	if window = m.Expiry.Sub(m.At); !m.Covered {
		return window, false, nil
	}
	log, offset := ranges.SplitSum(m.Key)
	span := Span{From: offset, To: offset + 1}
	open, err := tx.Ranges(nil, log, span, nil)
	for i := range open {
		window, covered = max(window, open[i].Window), true
	}
	if err != nil {
		return 0, false, err
	}
	near, err := tx.Segments(nil, log, span)
	for _, s := range near {
		if s.Has(offset) && !s.Rows {
			window, covered = max(window, s.Expiry.Sub(tx.Now())), true
		}
	}
	return window, covered, err
}

// Purge implements [ledger.Operator].
func (l *Ledger) Purge(ctx context.Context, r ledger.PurgeRequest) (ledger.PurgeReport, error) {
	if err := checks.Purge(&r); err != nil {
		return ledger.PurgeReport{}, err
	}
	report, err := acts.Purge(ctx, r, l.DeadLetters(ctx, r.Filter), func(ctx context.Context, batch []ledger.DeadLetter) (int64, error) {
		p := parts[ledger.DeadLetter]{key: func(d *ledger.DeadLetter) Key { return d.Key.Sum() },
			write: func(tx Tx, part []ledger.DeadLetter) (int64, error) { return purge(tx, r.By, part) }}
		return p.run(ctx, l, batch)
	})
	return report, l.named("purge", err)
}

// purge empties the dead letters whose message still is as it was listed, and returns how many these are. They go with
// their message, if that goes before them.
func purge(tx Tx, by ledger.By, batch []ledger.DeadLetter) (int64, error) {
	var notes []ledger.AuditRecord
	for i := range batch {
		d := &batch[i]
		key := d.Key.Sum()
		c := ArchiveChange{Purged: tx.Now(), Expiry: tx.Now()}
		m, now, err := status(tx, key)
		if err != nil {
			return 0, err
		}
		if now.State != d.Status.State || now.Token != d.Status.Token {
			continue
		}
		if m != nil {
			c.Expiry = m.Expiry
		}
		done, err := tx.Alter(key, d.Delivery, c)
		if err != nil {
			return 0, err
		}
		if done {
			notes = append(notes, acts.DeadLetterRecord(d, by, ledger.ActionPurge, ""))
		}
	}
	return int64(len(notes)), tx.Note(notes)
}

// Audit implements [ledger.Operator].
func (l *Ledger) Audit(ctx context.Context, records []ledger.AuditRecord) error {
	if err := checks.AuditRecords(records); err != nil || len(records) == 0 {
		return err
	}
	err := l.operate(ctx, Call{}, func(tx Tx) error {
		if _, err := replayed(tx, records); err != nil {
			return err
		}
		return tx.Note(records)
	})
	if errors.Is(err, ErrTooLarge) { // the hints go ahead, which may be there without the records
		p := parts[ledger.AuditRecord]{key: func(r *ledger.AuditRecord) Key { return r.Key.Sum() }, write: replayed}
		if _, err = p.run(ctx, l, records); err == nil {
			err = l.operate(ctx, Call{}, func(tx Tx) error { return tx.Note(records) })
		}
	}
	return l.named("audit", err)
}

// replayed notes on archived deliveries that they were sent again.
func replayed(tx Tx, records []ledger.AuditRecord) (int64, error) {
	for i := range records {
		if r := &records[i]; r.Action == ledger.ActionReplay && r.Delivery != nil {
			if _, err := tx.Alter(r.Key.Sum(), r.Delivery, ArchiveChange{Replayed: tx.Now()}); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

const selectRange = `SELECT token, first, last, owner, messages, keep, at, done, back FROM ackledger_claim_range
	WHERE log = ? AND token = ?`

// fenceRange writes the successes of an attempt that lie in one range, if that is still this owner's and none of them has
// left it. SQLite has one writer, so nobody does so meanwhile.
func (o *owner) fenceRange(ctx context.Context, a *ledger.Attempt, tx *sql.Tx, f *ranges.Fenced) error {
	r, holder, err := scanRange(tx.QueryRowContext(ctx, selectRange, f.Log[:], int64(f.Token)))
	if errors.Is(err, sql.ErrNoRows) || err == nil && holder != o.id {
		return fmt.Errorf("%w: range %d of log %x", ledger.ErrLost, f.Token, f.Log)
	}
	if err != nil {
		return err
	}
	for _, s := range f.Offsets.Spans() {
		if !r.Has(s.From) || !r.Has(s.To-1) || meets(&r.Done, s) || meets(&r.Back, s) {
			return fmt.Errorf("%w: offsets %d to %d of log %x, token %d", ledger.ErrLost, s.From, s.To-1, f.Log, f.Token)
		}
	}
	tickets := a.Tickets()
	for _, i := range f.Items {
		if result := a.ResultAt(i); result != nil {
			if err := o.resultRow(ctx, tx, f, &r, tickets[i], result); err != nil {
				return err
			}
		}
	}
	r.Done.AddAll(f.Offsets)
	_, err = tx.ExecContext(ctx, alterRange, f.Log[:], int64(f.Token), r.Done.Encode(r.From), r.Back.Encode(r.From), r.Messages)
	return err
}

// meets says whether some of the span is in the set.
func meets(set *ranges.Set, span ranges.Span) bool {
	var left int64
	for s := range set.Without(span) {
		left += s.Len()
	}
	return left < span.Len()
}

// resultRow makes the row of a message that has a result.
func (o *owner) resultRow(ctx context.Context, tx *sql.Tx, f *ranges.Fenced, r *ranges.Range, t ledger.Ticket, result []byte) error {
	sum := t.Sum()
	_, offset := ranges.SplitSum(sum)
	var scope int64
	var prefix []byte
	if err := tx.QueryRowContext(ctx, `SELECT scope, prefix FROM ackledger_range_log WHERE log = ?`, f.Log[:]).Scan(&scope, &prefix); err != nil {
		return err
	}
	g := &rangeLog{prefix: string(prefix)}
	none := ledger.Fingerprint{}
	if _, err := tx.ExecContext(ctx, leaveRange, sum[:], scope, g.id(offset), none[:], int64(t.Token()), o.id, r.At.UnixMicro(),
		r.At.Add(r.Window).UnixMicro(), offset); err != nil {
		return err
	}
	return o.fenceRow(ctx, tx, t, result)
}

// fenceRow writes the success of a message that has a row, if it is still ours.
func (o *owner) fenceRow(ctx context.Context, tx *sql.Tx, t ledger.Ticket, result []byte) error {
	sum := t.Sum()
	res, err := tx.ExecContext(ctx, fence, sum[:], int64(t.Token()), o.id, ledger.CutResult(result, o.l.cfg.Limits.Result),
		time.Now().Add(foldAfter).UnixMicro())
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("%w: message %x, token %d", ledger.ErrLost, sum, t.Token()), err)
	}
	return nil
}

// rangeRow is how ranges show a message that has no row, for [ledger.DecideCommit].
func (b *batch) rangeRow(t ledger.Ticket) (ledger.Row, error) {
	log, offset := ranges.SplitSum(t.Sum())
	g, err := b.log(log)
	if g == nil {
		return ledger.Row{}, err
	}
	f, err := b.facts(g, &ranges.Query{Span: ranges.Span{From: offset, To: offset + 1}})
	if err != nil {
		return ledger.Row{}, err
	}
	var rec ledger.Record
	if !ranges.Find(f, offset, &rec) {
		return ledger.Row{}, nil
	}
	row := ledger.Row{State: rec.State, Token: rec.Token}
	if rec.State == ledger.Succeeded { // nobody but this owner can have brought it about, while the range is its own
		row.Token = t.Token()
	}
	if g.owners[rec.Token] == b.o.id {
		row.Holder = ledger.Mine
	}
	return row, nil
}

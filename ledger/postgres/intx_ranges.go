package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// fenceArgs are the parts of an attempt that lie in ranges, in columns.
type fenceArgs struct {
	logs, tokens          []int64
	places, firsts, lasts []int64 // of segments
	of                    []int64 // of results: their ranges' places
	keys                  keyArray
	ids, results          byteArray
}

func (r *run) fenceArgs(tickets []ledger.Ticket) (a fenceArgs) {
	for i := range r.fences {
		f := &r.fences[i]
		place := int64(i + 1)
		a.logs, a.tokens = append(a.logs, logKey(f.Log)), append(a.tokens, int64(f.Token))
		for _, s := range f.Offsets.Spans() {
			a.places, a.firsts, a.lasts = append(a.places, place), append(a.firsts, s.From), append(a.lasts, s.To)
		}
		for _, item := range f.Items {
			result := r.attempt.ResultAt(item)
			if result == nil {
				continue
			}
			sum := tickets[item].Sum()
			_, offset := ranges.SplitSum(sum)
			a.of, a.keys = append(a.of, place), append(a.keys, uuid(sum))
			a.ids = append(a.ids, f.Info.ID(offset))
			a.results = append(a.results, storage.CutResult(result, r.ledger.cfg.Limits.Result))
		}
	}
	return a
}

// fenceRanges writes the successes of what lies in ranges, if all of it is still ours there. Until the transaction is over nobody can take
// a message out of these ranges; what had left them before is seen in their sets.
func (r *run) fenceRanges(ctx context.Context, tickets []ledger.Ticket) (here, ours bool, err error) {
	a := r.fenceArgs(tickets)
	var met int
	var sets []byte
	f := &fence{began: r.mark.at(), tune: sqlTxTune, sql: r.ledger.sql(sqlRangeFence), dest: []any{&met, &sets}, args: []any{a.logs, a.tokens, r.owner.id,
		r.mark.began, a.places, a.firsts, a.lasts, orEmpty(a.of), orEmpty(a.keys), orEmpty(a.ids), orEmpty(a.results)}}
	if here, err = r.session.fence(ctx, f); err != nil || met != len(r.fences) {
		return here, false, err
	}
	for i := range r.fences {
		fenced := &r.fences[i]
		for range 2 { // done, back
			var left ranges.Set
			if left, sets, err = cutSet(sets, fenced.From); err != nil {
				return here, false, err
			}
			before := left.Count() + fenced.Offsets.Count()
			if left.AddAll(fenced.Offsets); left.Count() != before {
				return here, false, nil
			}
		}
	}
	return here, true, nil
}

var errCut = errors.New("postgres: the fence answered less than its ranges")

// cutSet reads one set of sqlRangeFence's answer.
func cutSet(b []byte, base int64) (set ranges.Set, rest []byte, err error) {
	if len(b) < 4 {
		return set, nil, errCut
	}
	n := int(binary.BigEndian.Uint32(b))
	if b = b[4:]; n < 0 || n > len(b) {
		return set, nil, errCut
	}
	set, err = ranges.DecodeSet(b[:n], base)
	return set, b[n:], err
}

// rangeOutcome says what became of a transaction whose COMMIT was sent, from one of the ranges that it fenced. Its segment
// is there, or can be written by another, only when it is over.
func (r *run) rangeOutcome(ctx context.Context) (state ledger.AttemptState, err error) {
	f := &r.fences[0]
	ticket := r.attempt.Tickets()[f.Items[0]]
	_, offset := ranges.SplitSum(ticket.Sum())
	var covered, ours bool
	var rowState int32
	var rowToken int64
	l := r.ledger
	err = pgx.BeginTxFunc(ctx, l.own, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(sqlTune)
		b.Queue(l.sql(sqlRangeSettings), milliseconds(l.cfg.LockWait), milliseconds(frozenLimit))
		b.Queue(l.sql(sqlSegmentProbe), logKey(f.Log), f.Offsets.Spans()[0].From)
		b.Queue(l.sql(sqlRangeOutcome), logKey(f.Log), offset, int64(f.Token), r.owner.id, uuid(ticket.Sum())).
			QueryRow(func(row pgx.Row) error { return row.Scan(&covered, &ours, &rowState, &rowToken) })
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return errProbed // rolled back
	})
	if !errors.Is(err, errProbed) {
		return ledger.AttemptUnknown, fmt.Errorf("postgres: read an outcome: %w", usable(err))
	}
	switch {
	case rowState != 0 && (ledger.State(rowState) != ledger.Succeeded || uint64(rowToken) != ticket.Token()):
		return ledger.AttemptLost, nil // taken out of its range after a rollback
	case covered:
		return ledger.AttemptSucceeded, nil
	case ours:
		return ledger.AttemptOpen, nil
	}
	return ledger.AttemptLost, nil
}

var errProbed = errors.New("postgres: probed")

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/ranges"
)

// rangeWrite is what the plans of one transaction make, in columns.
type rangeWrite struct {
	*update

	logs, versions, tokens, tops []int64
	rows                         rowArgs
	alter, open                  rangeArgs
	closeLogs, closeTokens       []int64
	dropLogs, dropFirsts         []int64
	put                          segmentArgs
}

// rangeArgs are ranges in columns.
type rangeArgs struct {
	logs, tokens, firsts, lasts, messages, keeps, ats []int64
	dones, backs                                      byteArray
}

// rowArgs are messages that leave their ranges, in columns.
type rowArgs struct {
	keys, prints                keyArray
	ids                         byteArray
	scopes                      []int32
	owners, tokens, ats, expiry []int64
}

// segmentArgs are segments in columns.
type segmentArgs struct {
	logs, firsts, lasts, messages, since, until, expiry []int64
	kinds                                               []int16
}

// add notes the change of one log; owners are those of its ranges.
func (w *rangeWrite) add(q *ranges.Query, f *ranges.Facts, c *ranges.Change, owners map[uint64]int64) {
	log := logKey(q.Info.Log)
	if c.Version != f.Version || c.Token != f.Token || c.Top != f.Top {
		w.logs, w.versions = append(w.logs, log), append(w.versions, int64(c.Version))
		w.tokens, w.tops = append(w.tokens, int64(c.Token)), append(w.tops, c.Top)
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		owner := owners[r.Token]
		if r.Nobody {
			owner = 0
		}
		w.rows.add(&q.Info, w.scopes[q.Info.Scope], owner, r)
	}
	for i := range c.Alter {
		w.alter.add(log, &c.Alter[i])
	}
	for i := range c.Open {
		if c.Open[i].At.IsZero() {
			c.Open[i].At = f.Now
		}
		w.open.add(log, &c.Open[i])
	}
	for _, token := range c.Close {
		w.closeLogs, w.closeTokens = append(w.closeLogs, log), append(w.closeTokens, int64(token))
	}
	for _, first := range c.Drop {
		if !slices.ContainsFunc(c.Put, func(s ranges.Segment) bool { return s.From == first }) { // else it is changed in place
			w.dropLogs, w.dropFirsts = append(w.dropLogs, log), append(w.dropFirsts, first)
		}
	}
	for i := range c.Put {
		w.put.add(log, &c.Put[i])
	}
}

func (a *rangeArgs) add(log int64, r *ranges.Range) {
	a.logs, a.tokens = append(a.logs, log), append(a.tokens, int64(r.Token))
	a.firsts, a.lasts = append(a.firsts, r.From), append(a.lasts, r.To)
	a.messages, a.keeps = append(a.messages, r.Messages), append(a.keeps, r.Window.Microseconds())
	a.ats = append(a.ats, r.At.UnixMicro())
	a.dones, a.backs = append(a.dones, r.Done.Encode(r.From)), append(a.backs, r.Back.Encode(r.From))
}

func (a *rowArgs) add(info *ranges.Info, scope int32, owner int64, r *ranges.Row) {
	a.keys = append(a.keys, uuid(ranges.JoinSum(info.Log, r.Offset)))
	a.ids = append(a.ids, info.ID(r.Offset))
	a.prints, a.scopes = append(a.prints, uuid(r.Fingerprint)), append(a.scopes, scope)
	a.owners, a.tokens = append(a.owners, owner), append(a.tokens, int64(r.Token))
	a.ats, a.expiry = append(a.ats, r.At.UnixMicro()), append(a.expiry, r.Expiry.UnixMicro())
}

func (a *segmentArgs) add(log int64, s *ranges.Segment) {
	kind := int16(kindFinished)
	if s.Rows {
		kind = kindRows
	}
	a.logs, a.firsts, a.lasts = append(a.logs, log), append(a.firsts, s.From), append(a.lasts, s.To)
	a.messages, a.kinds = append(a.messages, s.Messages), append(a.kinds, kind)
	a.since, a.until = append(a.since, s.Since.UnixMicro()), append(a.until, s.Until.UnixMicro())
	a.expiry = append(a.expiry, s.Expiry.UnixMicro())
}

// errMissed says that a range was not there to be changed, though its log is locked.
var errMissed = errors.New("postgres: ranges have changed under the lock of their log")

// send writes everything and commits, in one round trip. The database looks at the deadline first and last.
func (w *rangeWrite) send(ctx context.Context, conn *pgxpool.Conn) error {
	sql := w.ledger.sql
	var changed int64
	b := &pgx.Batch{}
	b.Queue(sqlRangeInTime, w.until)
	if reopens(ctx) {
		b.Queue(sqlRangeReopen)
	}
	if len(w.logs) > 0 {
		b.Queue(sql(sqlLogWrite), w.logs, w.versions, w.tokens, w.tops)
	}
	if r := &w.rows; len(r.keys) > 0 {
		b.Queue(sql(sqlRowsWrite), r.keys, r.ids, r.prints, r.scopes, r.owners, r.tokens, r.ats, r.expiry)
	}
	if r := &w.alter; len(r.logs) > 0 {
		b.Queue(sql(sqlRangeAlter), r.logs, r.tokens, r.dones, r.backs, r.messages).Exec(count(&changed))
	}
	if len(w.closeLogs) > 0 {
		b.Queue(sql(sqlRangeClose), w.closeLogs, w.closeTokens).Exec(count(&changed))
	}
	if r := &w.open; len(r.logs) > 0 {
		b.Queue(sql(sqlRangeOpenMore), w.me, r.logs, r.tokens, r.firsts, r.lasts, r.messages, r.keeps, r.ats, r.dones, r.backs)
	}
	if len(w.dropLogs) > 0 {
		b.Queue(sql(sqlSegmentDrop), w.dropLogs, w.dropFirsts)
	}
	if s := &w.put; len(s.logs) > 0 {
		b.Queue(sql(sqlSegmentPut), s.logs, s.firsts, s.lasts, s.kinds, s.messages, s.since, s.until, s.expiry)
	}
	b.Queue(sqlRangeInTime, w.until)
	var end string
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error { end = tag.String(); return nil })
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if end != "COMMIT" {
		return fmt.Errorf("postgres: COMMIT was answered with %q", end)
	}
	if want := int64(len(w.alter.logs) + len(w.closeLogs)); changed != want {
		return fmt.Errorf("%w: %d of %d", errMissed, changed, want)
	}
	return nil
}

// count adds up the rows that statements of a batch have changed.
func count(n *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error { *n += tag.RowsAffected(); return nil }
}

// reopening marks the context of writes that may take out of segments what is finished.
type reopening struct{}

func withReopening(ctx context.Context) context.Context {
	return context.WithValue(ctx, reopening{}, true)
}

func reopens(ctx context.Context) bool { return ctx.Value(reopening{}) != nil }

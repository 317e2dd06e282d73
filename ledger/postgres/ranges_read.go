package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// update is one call of Update, or a part of the sweep.
type update struct {
	ledger  *Ledger
	me      int64 // the owner; 0: the sweep, which has none
	until   int64 // the deadline on the database's clock
	queries []ranges.Query
	plan    func(i int, f *ranges.Facts) ranges.Change
	scopes  map[string]int32
	patient bool // waits for what others hold; else that is skipped
	makes   bool // logs that are new; one that another transaction makes is waited for in any case
}

// settles says that the plans change no more than ranges of this owner, and what touches these. The sweep dissolves others'.
func (u *update) settles() bool {
	return u.me != 0 && len(u.queries) > 0 && len(u.queries[0].Tokens) > 0
}

// errReplaced says that a segment was taken into another while it was waited for: another transaction sees that.
var errReplaced = errors.New("postgres: a segment was replaced while it was waited for")

// rangeSight is what a transaction sees after it has locked its logs.
type rangeSight struct {
	facts  []ranges.Facts     // by query
	owners []map[uint64]int64 // by query: of the ranges, by token
	at     map[int64]int      // queries by their logs
	fate   int32
	inTime bool
	now    time.Time
	rows   map[[ledger.KeySize]byte]struct{}
	held   map[[2]int64]bool // ranges by log and token, that are locked
	// replaced says that a segment is another's now, which is not seen.
	replaced bool
	err      error // of something stored that cannot be read
}

// logAsks are the queries in columns: those that ask about spans, and those that ask for tokens.
type logAsks struct {
	logs              []int64 // all
	spans             []int64
	firsts, lasts     []int64
	lows, highs       keyArray
	rooms, ends       []int64 // those that ask for room: their logs, and from where
	froms, tops       keyArray
	tokenLogs, tokens []int64
	alone             bool
	begins            []int64 // those that know a first offset: their logs, scopes and names, and the offsets
	beginScopes       []int32
	beginNames        byteArray
	begin             []int64
}

func (u *update) asks() logAsks {
	var a logAsks
	for i := range u.queries {
		q := &u.queries[i]
		log := logKey(q.Info.Log)
		a.logs = append(a.logs, log)
		a.alone = a.alone || q.Alone || !u.patient // else what is over could not be taken away, at last
		for _, t := range q.Tokens {
			a.tokenLogs, a.tokens = append(a.tokenLogs, log), append(a.tokens, int64(t))
		}
		if q.First > 0 {
			a.begins, a.begin = append(a.begins, log), append(a.begin, q.First)
			a.beginScopes, a.beginNames = append(a.beginScopes, u.scopes[q.Info.Scope]), append(a.beginNames, []byte(q.Info.Name))
		}
		if q.Span.Len() == 0 {
			continue
		}
		a.spans = append(a.spans, log)
		a.firsts, a.lasts = append(a.firsts, q.Span.From), append(a.lasts, q.Span.To)
		a.lows = append(a.lows, uuid(ranges.JoinSum(q.Info.Log, q.Span.From)))
		a.highs = append(a.highs, uuid(ranges.JoinSum(q.Info.Log, q.Span.To)))
		if q.Room {
			a.rooms, a.ends = append(a.rooms, log), append(a.ends, q.Span.To)
			a.froms = append(a.froms, uuid(ranges.JoinSum(q.Info.Log, q.Span.To)))
			a.tops = append(a.tops, uuid(ranges.JoinSum(q.Info.Log, math.MaxInt64)))
		}
	}
	return a
}

// read sends all that is asked in one round trip. Its order is what the plans rely on: the logs are locked, then the
// ranges, and only statements that began after that read.
func (u *update) read(ctx context.Context, conn *pgxpool.Conn, wait time.Duration) (*rangeSight, error) {
	sql := u.ledger.sql
	a := u.asks()
	s := newSight(u.queries, u.patient)
	b := &pgx.Batch{}
	b.Queue(sqlReadCommitted)
	b.Queue(sql(sqlRangeSettings), milliseconds(wait), milliseconds(frozenLimit))
	b.Queue(sqlTune)
	if len(a.spans) > 0 && u.me != 0 && u.makes {
		b.Queue(sql(sqlLogMake), u.makeArgs()...)
	}
	lock, holdOf, readOf, segmentsOf := sqlLogLock, sqlRangeHoldOf, sqlRangeReadOf, sqlSegmentsOf
	if !u.patient {
		lock, holdOf = sqlLogLockSkip, sqlRangeHoldOfSkip
	}
	if u.settles() {
		lock, readOf, segmentsOf = sqlLogShare, sqlRangeReadHeld, sqlSegmentsHeld
		if !u.patient {
			lock = sqlLogShareSkip
		}
	}
	b.Queue(sql(lock), a.logs).Query(s.locked)
	if late := ranges.TrimAfter.Microseconds(); len(a.begins) > 0 {
		b.Queue(sql(sqlSegmentTrim), a.beginScopes, a.beginNames, a.begins, late)
		b.Queue(sql(sqlLogNote), a.begins, a.begin, late)
	}
	if len(a.tokens) > 0 && a.alone {
		b.Queue(sql(holdOf), a.tokenLogs, a.tokens).Query(s.holds)
	}
	if len(a.spans) > 0 && a.alone {
		b.Queue(sql(sqlRangeHold), a.spans, a.firsts, a.lasts).Query(s.holds)
	}
	b.Queue(sql(sqlRangeState), u.me, u.until).QueryRow(s.state)
	if len(a.tokens) > 0 {
		b.Queue(sql(readOf), a.tokenLogs, a.tokens).Query(s.ranges(u.me))
		b.Queue(sql(segmentsOf), a.tokenLogs, a.tokens).Query(s.segments)
	}
	if len(a.spans) > 0 {
		b.Queue(sql(sqlRangeRead), a.spans, a.firsts, a.lasts).Query(s.ranges(u.me))
		b.Queue(sql(sqlSegments), a.spans, a.firsts, a.lasts).Query(s.segments)
		b.Queue(sql(sqlRowsBetween), a.lows, a.highs).Query(s.keys)
	}
	if len(a.rooms) > 0 {
		b.Queue(sql(sqlRoom), a.rooms, a.ends, a.froms, a.tops).Query(s.room(u.queries))
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	if s.replaced {
		return nil, errReplaced
	}
	s.finish(u.queries, a.alone)
	return s, s.err
}

// makeArgs lines up the parameters of sqlLogMake.
func (u *update) makeArgs() []any {
	var logs []int64
	var scopes, epochs []int32
	var names, prefixes byteArray
	var lows, highs keyArray
	for i := range u.queries {
		q := &u.queries[i].Info
		logs, scopes, epochs = append(logs, logKey(q.Log)), append(scopes, u.scopes[q.Scope]), append(epochs, q.Epoch)
		names, prefixes = append(names, []byte(q.Name)), append(prefixes, []byte(q.Prefix))
		lows, highs = append(lows, uuid(ranges.JoinSum(q.Log, 0))), append(highs, uuid(ranges.JoinSum(q.Log, math.MaxInt64)))
	}
	return []any{logs, scopes, names, epochs, prefixes, lows, highs}
}

func newSight(queries []ranges.Query, patient bool) *rangeSight {
	n := len(queries)
	s := &rangeSight{facts: make([]ranges.Facts, n), owners: make([]map[uint64]int64, n), at: make(map[int64]int, n),
		rows: map[[ledger.KeySize]byte]struct{}{}, held: map[[2]int64]bool{}}
	for i := range queries {
		s.at[logKey(queries[i].Info.Log)] = i
		s.owners[i] = map[uint64]int64{}
		// Until its lock is there. Of a log with ranges of ours it can only be missing when those were lost with it.
		s.facts[i].Locked = !patient || len(queries[i].Tokens) == 0
	}
	return s
}

func (s *rangeSight) locked(rows pgx.Rows) error {
	var log, version, token, top int64
	_, err := pgx.ForEachRow(rows, []any{&log, &version, &token, &top}, func() error {
		f := &s.facts[s.at[log]]
		f.Locked, f.Version, f.Token, f.Top = false, uint64(version), uint64(token), top
		return nil
	})
	return err
}

func (s *rangeSight) holds(rows pgx.Rows) error {
	var at [2]int64
	_, err := pgx.ForEachRow(rows, []any{&at[0], &at[1]}, func() error { s.held[at] = true; return nil })
	return err
}

func (s *rangeSight) state(row pgx.Row) error {
	var now int64
	err := row.Scan(&s.fate, &now, &s.inTime)
	s.now = time.UnixMicro(now)
	return err
}

// ranges reads ranges as the owner me sees them.
func (s *rangeSight) ranges(me int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var r storedRange
		_, err := pgx.ForEachRow(rows, r.dest(), func() error {
			seen, err := r.decode(me, s.now)
			i := s.at[r.log]
			s.facts[i].Ranges = append(s.facts[i].Ranges, seen)
			s.owners[i][seen.Token] = r.owner
			return err
		})
		return err
	}
}

func (s *rangeSight) segments(rows pgx.Rows) error {
	var r storedSegment
	_, err := pgx.ForEachRow(rows, r.dest(), func() error {
		f := &s.facts[s.at[r.log]]
		f.Segments = append(f.Segments, r.decode())
		s.replaced = s.replaced || r.first < 0
		return nil
	})
	return err
}

func (s *rangeSight) room(queries []ranges.Query) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var log, next int64
		_, err := pgx.ForEachRow(rows, []any{&log, &next}, func() error {
			i := s.at[log]
			if from := queries[i].Span.To; from < next {
				s.facts[i].Room = ranges.Span{From: from, To: next}
			}
			return nil
		})
		return err
	}
}

func (s *rangeSight) keys(rows pgx.Rows) error {
	var key [ledger.KeySize]byte
	_, err := pgx.ForEachRow(rows, []any{&key}, func() error { s.rows[key] = struct{}{}; return nil })
	return err
}

// finish puts together what the statements have read.
func (s *rangeSight) finish(queries []ranges.Query, alone bool) {
	for i := range queries {
		q, f := &queries[i], &s.facts[i]
		f.Now = s.now
		f.HasRow = func(offset int64) bool { _, ok := s.rows[ranges.JoinSum(q.Info.Log, offset)]; return ok }
		for j := range f.Ranges {
			if r := &f.Ranges[j]; alone && !s.held[[2]int64{logKey(q.Info.Log), int64(r.Token)}] {
				r.Locked = true
				f.Locked = f.Locked || q.Alone && len(q.Tokens) > 0 // an InTx is at its end there
			}
		}
	}
}

// storedRange is a row of claim_range as sqlRangeRead answers it.
type storedRange struct {
	log, token, first, last, owner, messages, keep, at int64
	done, back                                         []byte
	fate                                               int32
	leaseEnd                                           int64
}

func (r *storedRange) dest() []any {
	return []any{&r.log, &r.token, &r.first, &r.last, &r.owner, &r.messages, &r.keep, &r.at, &r.done, &r.back, &r.fate, &r.leaseEnd}
}

func (r *storedRange) decode(me int64, now time.Time) (ranges.Range, error) {
	out := ranges.Range{Span: ranges.Span{From: r.first, To: r.last}, Token: uint64(r.token), Messages: r.messages,
		At: time.UnixMicro(r.at), Window: time.Duration(r.keep) * time.Microsecond}
	switch {
	case r.owner == me:
		out.Holder = ledger.Mine
	case r.fate == 1:
		out.Holder, out.HeldFor = ledger.Live, time.UnixMicro(r.leaseEnd).Sub(now)
	case r.fate == 2:
		out.Holder = ledger.Left
	case r.fate == 3:
		out.Holder = ledger.Dead
	}
	var err error
	if out.Done, err = ranges.DecodeSet(r.done, r.first); err == nil {
		out.Back, err = ranges.DecodeSet(r.back, r.first)
	}
	if err != nil {
		err = fmt.Errorf("log %016x, range %d: %w", uint64(r.log), r.token, err)
	}
	return out, err
}

// The kinds of a segment.
const (
	kindFinished = 1
	kindRows     = 2
)

// storedSegment is a row of segment as sqlSegments answers it.
type storedSegment struct {
	log, first, last, messages, since, until, expiry int64
	kind                                             int16
}

func (r *storedSegment) dest() []any {
	return []any{&r.log, &r.first, &r.last, &r.kind, &r.messages, &r.since, &r.until, &r.expiry}
}

func (r *storedSegment) decode() ranges.Segment {
	return ranges.Segment{Span: ranges.Span{From: r.first, To: r.last}, Rows: r.kind == kindRows, Messages: r.messages,
		Since: time.UnixMicro(r.since), Until: time.UnixMicro(r.until), Expiry: time.UnixMicro(r.expiry)}
}

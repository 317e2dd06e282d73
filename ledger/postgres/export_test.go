package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// OwnerNumber is the number in the owner table behind an owner's name.
func OwnerNumber(name string) (int64, error) {
	digits, ok := strings.CutPrefix(name, "pg-")
	if !ok {
		return 0, fmt.Errorf("not an owner's name: %q", name)
	}
	return strconv.ParseInt(digits, 36, 64)
}

// Detection is all that finds out what a server is.
var Detection = []string{sqlFacts, sqlVersion, sqlSpanner}

// SQLFacts, SQLVersion and SQLSpanner are its parts.
const SQLFacts, SQLVersion, SQLSpanner = sqlFacts, sqlVersion, sqlSpanner

// Statement is one statement with its arguments, as the ledger would send it.
type Statement struct {
	Tune, SQL string
	Args      []any
}

// ClaimStatement is the claim of entries by o.
func ClaimStatement(o ledger.Owner, entries []ledger.Entry, until time.Time) Statement {
	c, part := claimOf(o, entries, until)
	return Statement{sqlTune, c.owner.ledger.sql(sqlClaim), c.args(part, time.Second)}
}

// FreshStatement is the claim of new entries by o.
func FreshStatement(o ledger.Owner, entries []ledger.Entry, until time.Time) Statement {
	c, part := claimOf(o, entries, until)
	query, args := c.lean(part)
	return Statement{sqlTune, c.owner.ledger.sql(query), args}
}

func claimOf(o ledger.Owner, entries []ledger.Entry, until time.Time) (*claimCall, []int32) {
	own := ledger.Unwrap(o).(*owner)
	c := &claimCall{owner: own, entries: entries, out: make([]ledger.Claim, len(entries)), until: until.UnixMicro()}
	part := c.check()
	c.scopes = scopeNames(entries, part)
	for name := range c.scopes {
		c.scopes[name] = 1
	}
	return c, part
}

// SucceedStatement is the settling of successes by o, the one that goes ahead.
func SucceedStatement(o ledger.Owner, settlements []ledger.Settlement, until time.Time) Statement {
	c, items := settleOf(o, settlements)
	query, args := c.lean(items)
	return Statement{sqlTune, c.owner.ledger.sql(query), append([]any{c.owner.id, until.UnixMicro(), "1000"}, args...)}
}

// SettleStatement is the settling of settlements of one kind, Fail or others, by o.
func SettleStatement(o ledger.Owner, settlements []ledger.Settlement, until time.Time) Statement {
	c, items := settleOf(o, settlements)
	sql := c.owner.ledger.sql
	head := []any{c.owner.id, until.UnixMicro(), "1000"}
	if settlements[0].Kind == ledger.Fail {
		return Statement{sqlTune, sql(sqlFail), append(head, c.failArgs(items)...)}
	}
	return Statement{sqlTune, sql(sqlSettle), append(head, c.plainArgs(items)...)}
}

func settleOf(o ledger.Owner, settlements []ledger.Settlement) (*settleCall, []int32) {
	own := ledger.Unwrap(o).(*owner)
	c := &settleCall{owner: own, settlements: settlements, sums: make([][ledger.KeySize]byte, len(settlements))}
	c.scopes = map[string]int32{}
	items := make([]int32, len(settlements))
	for i := range settlements {
		c.sums[i], items[i] = settlements[i].Ticket.Sum(), int32(i)
	}
	return c, items
}

// OtherStatements are the rest of the statements that look messages up, by name.
func OtherStatements(o ledger.Owner, entries []ledger.Entry) map[string]Statement {
	own := ledger.Unwrap(o).(*owner)
	sql := own.ledger.sql
	n := len(entries)
	keys, tokens, deliveries := make([]pgtype.UUID, n), make([]int64, n), make([][]byte, n)
	for i := range entries {
		keys[i], tokens[i], deliveries[i] = uuid(entries[i].Key.Sum()), 1, entries[i].Delivery
	}
	return map[string]Statement{
		"past errors":      {sqlTune, sql(sqlPastErrors), []any{keys}},
		"find":             {sqlTune, sql(sqlFind), []any{keys, deliveries}},
		"get":              {sqlTune, sql(sqlGetMessage), []any{keys[0]}},
		"get archive":      {sqlTune, sql(sqlGetArchive), []any{keys[0], false}},
		"fence":            {sqlTuneOne, sql(sqlTxFence), []any{keys[0], tokens[0], own.id, int64(1), []byte("r")}},
		"fence of a batch": {sqlTune, sql(sqlTxFenceAll), []any{keys, tokens, own.id, int64(1), [][]byte{}}},
		"outcome":          {sqlTune, sql(sqlTxOutcome), []any{keys}},
	}
}

// RangeStatements are the statements of ranges, by name, for records of one log.
func RangeStatements(o ledger.Owner, entries []ledger.Entry) map[string]Statement {
	own := ledger.Unwrap(o).(*owner)
	l := own.ledger
	u := &update{ledger: l, me: own.id, scopes: map[string]int32{entries[0].Key.Scope: 1}}
	log, _ := ranges.SplitSum(entries[0].Key.Sum())
	n := int64(len(entries))
	u.queries = []ranges.Query{{Info: ranges.Info{Log: log, Scope: entries[0].Key.Scope, Name: "log"}, Span: ranges.Span{To: n}, First: 5}}
	a := u.asks()
	keys, ids, results, nulls := make([]pgtype.UUID, n), make([][]byte, n), make([][]byte, n), make([]pgtype.UUID, n)
	ones, scopes := make([]int64, n), make([]int32, n)
	for i := range entries {
		keys[i], ids[i], ones[i], nulls[i] = uuid(entries[i].Key.Sum()), entries[i].Key.ID, 1, uuid([16]byte{})
	}
	one := []int64{1}
	sql := l.sql
	return map[string]Statement{
		"make a log":      {sqlTune, sql(sqlLogMake), u.makeArgs()},
		"rows between":    {sqlTune, sql(sqlRowsBetween), []any{a.lows, a.highs}},
		"rows out":        {sqlTune, sql(sqlRowsWrite), []any{keys, ids, nulls, scopes, ones, ones, ones, ones}},
		"fence of a span": {sqlTuneOne, sql(sqlRangeFenceOne), []any{one[0], one[0], own.id, int64(1), int64(0), int64(1), []byte(nil)}},
		"fence of a log":  {sqlTune, sql(sqlRangeFence), []any{one, one, own.id, int64(1), one, one, one, ones, keys, ids, results}},
		"outcome of one":  {sqlTune, sql(sqlRangeOutcome), []any{int64(1), int64(1), int64(1), own.id, keys[0]}},
	}
}

// ResetConns closes the ledger's connections, as after a restart of the server that was noticed.
func (l *Ledger) ResetConns() {
	l.own.Reset()
	l.beats.Reset()
}

// PlayVersion makes the ledger a program of that version: one that knew no later schema.
func (l *Ledger) PlayVersion(n int) { l.is = versions{worker: n, needs: n} }

// MigrateTo makes the default schema, or takes it, to that version.
func MigrateTo(ctx context.Context, conn *pgx.ConnConfig, version int64) (err error) {
	db := openSchema(conn, DefaultSchema)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := createSchema(ctx, db, DefaultSchema, migrateWait); err != nil {
		return err
	}
	provider, err := newProvider(db, DefaultSchema, migrateWait)
	if err != nil {
		return err
	}
	at, err := provider.GetDBVersion(ctx)
	switch {
	case err != nil:
	case version < at:
		_, err = provider.DownTo(ctx, version)
	default:
		_, err = provider.UpTo(ctx, version)
	}
	return err
}

// FreezeUpdate locks the log of an entry as a call of o does, and says nothing for so long.
func FreezeUpdate(t testing.TB, o ledger.Owner, e ledger.Entry, token uint64, pause time.Duration) {
	log, _ := ranges.SplitSum(e.Key.Sum())
	ctx, cancel := context.WithTimeout(t.Context(), pause)
	defer cancel()
	err := ledger.Unwrap(o).(*owner).Update(ctx, []ranges.Query{{Info: ranges.Info{Log: log, Scope: e.Key.Scope}, Tokens: []uint64{token}}},
		func(_ int, f *ranges.Facts) ranges.Change {
			timer := time.NewTimer(2 * frozenLimit)
			defer timer.Stop()
			<-timer.C
			return ranges.Change{Version: f.Version + 1, Token: f.Token, Top: f.Top}
		})
	if err == nil {
		t.Error("an update was written after its transaction had been ended")
	}
}

// SaveWhile settles a whole range of o, whose first message is e, as a Settle does, and calls during between what that reads
// and what it writes.
func SaveWhile(t testing.TB, o ledger.Owner, e ledger.Entry, token uint64, messages int64, during func()) {
	t.Helper()
	log, first := ranges.SplitSum(e.Key.Sum())
	var done ranges.Set
	done.Add(ranges.Span{From: first, To: first + messages})
	err := ledger.Unwrap(o).(*owner).Update(t.Context(), []ranges.Query{{Info: ranges.Info{Log: log, Scope: e.Key.Scope}, Tokens: []uint64{token}}},
		func(_ int, f *ranges.Facts) ranges.Change {
			during()
			c, _ := ranges.Save(f, []ranges.Saved{{Token: token, Done: done, Messages: messages}})
			return c
		})
	if err != nil {
		t.Error(err)
	}
}

// MigrationIdle is how long the server lets a session of Migrate be silent, in a transaction and outside of one.
func MigrationIdle(ctx context.Context, conn *pgx.ConnConfig) (inside, outside time.Duration, err error) {
	db := openSchema(conn, DefaultSchema)
	err = db.QueryRowContext(ctx, `SELECT 1000000 * max(setting::bigint) FILTER (WHERE name LIKE '%transaction%'),
		1000000 * max(setting::bigint) FILTER (WHERE name = 'idle_session_timeout')
		FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'idle_session_timeout')`).Scan(&inside, &outside)
	return inside, outside, errors.Join(err, db.Close())
}

// MigrateWaiting is Migrate of the default schema with another patience for others.
func MigrateWaiting(ctx context.Context, conn *pgx.ConnConfig, wait time.Duration) error {
	db := openSchema(conn, DefaultSchema)
	return errors.Join(migrate(ctx, db, DefaultSchema, wait), db.Close())
}

// UnlockTurn gives back the turn to migrate the default schema.
func UnlockTurn(ctx context.Context, conn *sql.Conn) error {
	return turn{id: lockID(DefaultSchema)}.SessionUnlock(ctx, conn)
}

// MigrationTurns are the advisory locks of the default schema: of its making, and of its migrations.
func MigrationTurns() (makes, migrates int64) {
	return lockID(DefaultSchema) + 1, lockID(DefaultSchema)
}

// EndTurn gives back a turn to sweep, as the process does that had it under this number.
func (l *Ledger) EndTurn(ctx context.Context, number int64) error {
	p := &pass{ledger: l, me: number}
	return p.end(ctx, true)
}

package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// DeadStatement is the statement of the first page of dead letters that the filter selects.
func DeadStatement(l *Ledger, f ledger.Filter, scope int32, until int64) Statement {
	p := deadPages{l: l, f: &f, begin: listBegin{at: until, scope: scope}, until: until}
	sql, args := p.statement()
	return Statement{sqlTune, l.sql(sql), args}
}

// OperateStatements are the operators' other statements on tables that grow, for n messages, by name.
func OperateStatements(l *Ledger, keys []ledger.Key, until int64) map[string]Statement {
	n := len(keys)
	sums, deliveries, details := make([]pgtype.UUID, n), make([][]byte, n), make([][]byte, n)
	states, tokens := make([]int32, n), make([]int64, n)
	var notes []ledger.AuditRecord
	for i, key := range keys {
		sums[i], deliveries[i], states[i], tokens[i] = uuid(key.Sum()), []byte("d"), 3, 1
		note := ledger.AuditRecord{By: ledger.By{Actor: "a"}, Action: ledger.ActionReplay, Key: key, Delivery: []byte("d")}
		details[i] = storage.EncodeAudit(&note)
		notes = append(notes, note)
	}
	of := func(sql string, args ...any) Statement { return Statement{sqlTune, l.sql(sql), args} }
	return map[string]Statement{
		"status": of(sqlStatus, sums), "list by keys": of(sqlListKeys, sums), "bodies": of(sqlDeadBodies, sums, deliveries),
		"successes":    of(sqlSuccesses, sums),
		"find":         of(sqlArchivedID, []byte("id 7")),
		"past":         of(sqlPast, sums[0], true, int64(ledger.MaxPast)),
		"find past":    of(sqlPastID, []byte("id 7")),
		"list pages":   of(sqlListPages, "(0,0)", "(10,0)", int32(0), int32(3), until),
		"renew":        of(sqlRenew, sums[0], int64(1), (*pgtype.UUID)(nil), []byte(nil)),
		"renew kept":   of(sqlRenewKept, sums[0], []byte("d"), int64(2)),
		"renew mended": of(sqlRenewMended, sums[0], []byte("d"), int64(2), int32(1), sums[0], []byte("renewed"), []byte("b"), []byte(nil)),
		"reopen":       of(sqlReopen, sums, tokens, details, int32(1), "a"),
		"purge":        of(sqlPurge, sums, deliveries, states, tokens, details, "a"),
		"audit":        of(sqlAudit, auditArgs(notes)...),
		"replayed":     of(sqlReplayed, sums, deliveries, make([]int64, n)),
		"audits":       of(sqlAudits, int64(0), until, int64(listPage)),
		"weigh":        of(sqlWeigh, int64(0), until, int64(weighPage), int32(1), int64(ledger.ArchiveRowBytes)),
		"audits of":    of(sqlAuditsKey, int64(0), until, int64(listPage), sums[0], sums[0]),
	}
}

// ParkStatement is the parking of settlements by o.
func ParkStatement(t testing.TB, o ledger.Owner, settlements []ledger.Settlement, until time.Time) Statement {
	t.Helper()
	c, items := settleOf(o, settlements)
	if err := c.prepare(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return Statement{sqlTune, c.owner.ledger.sql(sqlPark), append([]any{c.owner.id, until.UnixMicro(), "1000"}, c.parkArgs(items)...)}
}

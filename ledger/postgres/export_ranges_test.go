package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// LogStatements are the statements of ranges that a worker sends for n logs at once, by name, other than those of
// RangeStatements. The logs are numbered from 1, as are their ranges.
func LogStatements(o ledger.Owner, n int, until time.Time) map[string]Statement {
	own := ledger.Unwrap(o).(*owner)
	logs, ones, froms, tos := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	scopes, kinds, names, sets := make([]int32, n), make([]int16, n), make([][]byte, n), make([][]byte, n)
	lows, highs := make(keyArray, n), make(keyArray, n)
	for i := range n {
		lows[i], highs[i] = uuid(ranges.JoinSum(logOf(int64(i+1)), 2100)), uuid(ranges.JoinSum(logOf(int64(i+1)), math.MaxInt64))
		logs[i], ones[i], froms[i], tos[i] = int64(i+1), 1, 2000, 2100
		scopes[i], kinds[i], names[i] = 1, 1, fmt.Appendf(nil, "log %d", i+1)
	}
	sql, trim := own.ledger.sql, ranges.TrimAfter.Microseconds()
	head := func(args ...any) []any { return append([]any{own.id, until.UnixMicro(), "1000"}, args...) }
	out := make(map[string]Statement)
	for name, q := range map[string]struct {
		sql  string
		args []any
	}{
		"open a range":       {sql(sqlRangeOpen), head(logs, ones, ones, ones, tos, logs, ones, froms, tos, ones, ones, sets)},
		"close a range":      {sql(sqlRangeOver), head(logs, ones, froms, froms, tos, ones, ones)},
		"trim segments":      {sql(sqlSegmentTrim), []any{scopes, names, logs, trim}},
		"note first offsets": {sql(sqlLogNote), []any{logs, froms, trim}},
		"lock logs":          {sql(sqlLogLock), []any{logs}},
		"lock free logs":     {sql(sqlLogLockSkip), []any{logs}},
		"share logs":         {sql(sqlLogShare), []any{logs}},
		"share free logs":    {sql(sqlLogShareSkip), []any{logs}},
		"hold ranges":        {sql(sqlRangeHold), []any{logs, froms, tos}},
		"hold own ranges":    {sql(sqlRangeHoldOf), []any{logs, ones}},
		"hold free ranges":   {sql(sqlRangeHoldOfSkip), []any{logs, ones}},
		"read ranges":        {sql(sqlRangeRead), []any{logs, froms, tos}},
		"read own ranges":    {sql(sqlRangeReadOf), []any{logs, ones}},
		"read ranges held":   {sql(sqlRangeReadHeld), []any{logs, ones}},
		"segments":           {sql(sqlSegments), []any{logs, froms, tos}},
		"segments of ranges": {sql(sqlSegmentsOf), []any{logs, ones}},
		"segments held":      {sql(sqlSegmentsHeld), []any{logs, ones}},
		"room":               {sql(sqlRoom), []any{logs, tos, lows, highs}},
		"write logs":         {sql(sqlLogWrite), []any{logs, ones, ones, ones}},
		"alter ranges":       {sql(sqlRangeAlter), []any{logs, ones, sets, sets, ones}},
		"drop ranges":        {sql(sqlRangeClose), []any{logs, ones}},
		"add ranges":         {sql(sqlRangeOpenMore), []any{own.id, logs, ones, froms, tos, ones, ones, ones, sets, sets}},
		"drop segments":      {sql(sqlSegmentDrop), []any{logs, froms}},
		"put segments":       {sql(sqlSegmentPut), []any{logs, froms, tos, kinds, ones, ones, ones, ones}},
		"probe a segment":    {sql(sqlSegmentProbe), []any{int64(1), int64(1)}},
	} {
		out[name] = Statement{sqlTune, q.sql, q.args}
	}
	return out
}

// CloseRange asks for the short end of a range of o, whose n messages from the offset of e on are all done, and says whether it is
// closed. The segment before it begins at an offset.
func CloseRange(ctx context.Context, o ledger.Owner, e ledger.Entry, token uint64, segment, n int64) (bool, error) {
	log, first := ranges.SplitSum(e.Key.Sum())
	closed, err := ledger.Unwrap(o).(*owner).Close(ctx, []ranges.Closing{{Log: log, Token: token, Segment: segment,
		Range: ranges.Span{From: first, To: first + n}, Messages: n, Window: time.Hour}})
	return err == nil && closed[0], err
}

// RangeOutcome reads what became of an InTx of one message that o holds in a range now, as that does when the answer to its
// COMMIT is lost.
func RangeOutcome(o ledger.Owner, ticket ledger.Ticket) func(context.Context) (ledger.AttemptState, error) {
	a, own := ledger.NewAttempt(o, ticket), ledger.Unwrap(o).(*owner)
	r := &run{attempt: a, owner: own, ledger: own.ledger}
	r.rows, r.fences = own.ranged.Fences(a.Tickets())
	return r.rangeOutcome
}

// SweepTune goes before each statement of the sweep.
const SweepTune = sqlTune

// CountStatements count what the logs after the first one, up to the second one, have.
func (l *Ledger) CountStatements(after, last int) []string {
	filled := strings.NewReplacer("$1", fmt.Sprint(after), "$2", fmt.Sprint(last))
	return []string{filled.Replace(l.sql(sqlSegmentCounts)), filled.Replace(l.sql(sqlRangeCounts))}
}

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// DeadLetters implements [ledger.Operator].
func (l *Ledger) DeadLetters(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		if err := f.Check(); err != nil {
			yield(ledger.DeadLetter{}, err)
			return
		}
		p := deadPages{l: l, f: &f, until: time.Now().UnixMicro(), at: math.MinInt64}
		found := 0
		for {
			page, err := p.next(ctx)
			for i := range page {
				kept, keepErr := f.Keep(ctx, &page[i])
				if keepErr != nil {
					err = keepErr
					break
				}
				if !kept {
					continue
				}
				if !yield(page[i], nil) {
					return
				}
				if found++; found == f.Limit {
					return
				}
			}
			if err != nil {
				yield(ledger.DeadLetter{}, operateError("dead letters", err))
				return
			}
			if p.done && len(p.ahead) == 0 {
				return
			}
		}
	}
}

// deadPages reads archived deliveries, the oldest first, after the last one that it read.
type deadPages struct {
	l       *Ledger
	f       *ledger.Filter
	until   int64 // when the list began
	at, num int64
	done    bool
	ahead   []placedLetter // read, but for their bodies
}

// placedLetter is a dead letter, its number, and the bytes of its body and headers.
type placedLetter struct {
	ledger.DeadLetter
	num  int64
	size int
}

// next returns some of the list; none at its end, or where all were skipped.
func (p *deadPages) next(ctx context.Context) ([]ledger.DeadLetter, error) {
	if len(p.ahead) == 0 {
		if err := p.page(ctx); err != nil {
			return nil, err
		}
	}
	n, size := 0, 0
	for n < len(p.ahead) && (n == 0 || !p.f.NeedsBody() || size+p.ahead[n].size <= listBytes) {
		size += p.ahead[n].size
		n++
	}
	part := p.ahead[:n]
	p.ahead = p.ahead[n:]
	if p.f.NeedsBody() && n > 0 {
		var err error
		if part, err = p.bodies(ctx, part); err != nil {
			return nil, err
		}
	}
	out := make([]ledger.DeadLetter, len(part))
	for i := range part {
		out[i] = part[i].DeadLetter
	}
	return out, nil
}

// page reads the next ones without their bodies.
func (p *deadPages) page(ctx context.Context) error {
	text, args := p.sql()
	var status []statusRow
	err := query(ctx, p.l.read, text, args, func(rows *sql.Rows) (err error) {
		var d placedLetter
		var s statusRow
		d.ArchiveRecord, err = scanArchive(rows, append([]any{&d.num, &d.size, &d.Superseded}, s.dest()...)...)
		s.sum = d.Key.Sum()
		p.ahead, status = append(p.ahead, d), append(status, s)
		return err
	})
	if err != nil {
		return err
	}
	p.done = len(p.ahead) < listPage
	if n := len(p.ahead); n > 0 {
		p.at, p.num = p.ahead[n-1].At.UnixMicro(), p.ahead[n-1].num
	}
	return p.l.resolve(ctx, len(status), func(i int) (*statusRow, *ledger.Status) { return &status[i], &p.ahead[i].Status })
}

// sql names the index that gives the order, or (with ids) that selects: SQLite keeps no statistics by itself.
func (p *deadPages) sql() (text string, args []any) {
	f := p.f
	until := p.until
	if !f.To.IsZero() {
		until = min(until, f.To.UnixMicro())
	}
	index := "ackledger_archive_at"
	where := "a.purged_at IS NULL AND (a.at, a.num) > (?, ?) AND a.at <= ?"
	args = []any{max(p.at, fromMicros(f.From)), p.num, until}
	if f.Scope != "" {
		index = "ackledger_archive_scope"
		where += " AND a.scope = (SELECT id FROM ackledger_scope WHERE name = ?)"
		args = append(args, []byte(f.Scope))
	}
	switch len(f.Kinds) {
	case 0:
	case 1:
		index = "ackledger_archive_kind"
		where += " AND a.kind = ?"
		args = append(args, string(f.Kinds[0]))
	default:
		where += " AND a.kind IN (" + marks(len(f.Kinds)) + ")"
		for _, kind := range f.Kinds {
			args = append(args, string(kind))
		}
	}
	if len(f.IDs) > 0 {
		index = "ackledger_archive_id"
		where += " AND a.id IN (" + marks(len(f.IDs)) + ")"
		for _, id := range f.IDs {
			args = append(args, id)
		}
	}
	return "SELECT " + archiveColumns("NULL", "NULL") + `,
		a.num, coalesce(length(a.body), 0) + coalesce(length(a.headers), 0),
		a.token <> 0 AND EXISTS (SELECT 1 FROM ackledger_archive b WHERE b.key = a.key AND b.token > a.token), ` + statusColumns + `
		FROM ackledger_archive a INDEXED BY ` + index + ` CROSS JOIN ackledger_scope s ON s.id = a.scope
		LEFT JOIN ackledger_message m ON m.key = a.key
		WHERE ` + where + fmt.Sprintf(" ORDER BY a.at, a.num LIMIT %d", listPage), args
}

// fromMicros is the last moment before a list that begins at t.
func fromMicros(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMicro() - 1
}

// bodies fills in bodies and headers. What was purged or swept meanwhile is left out.
func (p *deadPages) bodies(ctx context.Context, part []placedLetter) ([]placedLetter, error) {
	args, at := make([]any, len(part)), make(map[int64]int, len(part))
	for i := range part {
		args[i], at[part[i].num] = part[i].num, i
	}
	there := make([]bool, len(part))
	err := query(ctx, p.l.read, "SELECT num, headers, body FROM ackledger_archive WHERE purged_at IS NULL AND num IN ("+
		marks(len(args))+")", args, func(rows *sql.Rows) (err error) {
		var num int64
		var headers, body blob
		if err := rows.Scan(&num, &headers, &body); err != nil {
			return err
		}
		i := at[num]
		there[i], part[i].Body = true, body
		part[i].Headers, err = decodeHeaders(headers)
		return err
	})
	i := -1
	return slices.DeleteFunc(part, func(placedLetter) bool { i++; return !there[i] }), err
}

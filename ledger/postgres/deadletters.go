package postgres

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// DeadLetters implements [ledger.Operator].
func (l *Ledger) DeadLetters(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return acts.List(ctx, f.Limit, listError("dead letters"), func() (acts.NextPage[ledger.DeadLetter], error) {
		if err := f.Check(); err != nil {
			return nil, err
		}
		begin, err := l.listBegin(ctx, f.Scope)
		p := deadPages{l: l, f: &f, begin: begin, after: fromMicros(f.From), until: begin.at, rows: firstPage(f.Limit), done: begin.scope < 0}
		if !f.To.IsZero() {
			p.until = min(p.until, f.To.UnixMicro())
		}
		return func() ([]ledger.DeadLetter, bool, error) { return p.next(ctx) }, err
	}, func(d *ledger.DeadLetter) (bool, error) { return f.Keep(ctx, d) })
}

// deadPages reads archived deliveries behind the time of the last one that it read: the oldest first, or the last ones.
type deadPages struct {
	l     *Ledger
	f     *ledger.Filter
	begin listBegin

	after int64 // microseconds: what is left is of a time behind this,
	until int64 // and at this at the latest
	rows  int   // of the next page
	done  bool
	ahead []sizedLetter // read, but for their bodies
}

// sizedLetter is a dead letter, and the bytes of its body and headers.
type sizedLetter struct {
	ledger.DeadLetter
	size int64
}

// fromMicros is the last moment before a list that begins at t.
func fromMicros(t time.Time) int64 {
	if t.Before(time.UnixMicro(1)) {
		return 0
	}
	return t.UnixMicro() - 1
}

// next returns some of the list.
func (p *deadPages) next(ctx context.Context) (page []ledger.DeadLetter, more bool, err error) {
	if len(p.ahead) == 0 && !p.done {
		if err := p.page(ctx); err != nil {
			return nil, false, err
		}
	}
	n, size := 0, int64(0)
	for n < len(p.ahead) && (n == 0 || !p.f.NeedsBody() || size+p.ahead[n].size <= listBytes) {
		size += p.ahead[n].size
		n++
	}
	page = make([]ledger.DeadLetter, n)
	for i := range page {
		page[i] = p.ahead[i].DeadLetter
	}
	p.ahead = p.ahead[n:]
	if p.f.NeedsBody() && n > 0 {
		page, err = p.bodies(ctx, page)
	}
	return page, len(p.ahead) > 0 || !p.done, err
}

// page reads the next ones without their bodies.
func (p *deadPages) page(ctx context.Context) error {
	sql, args := p.statement()
	err := p.l.list(ctx, sql, args, func(rows pgx.Rows) error {
		var d sizedLetter
		var r archiveRow
		var s statusRow
		if err := rows.Scan(slices.Concat(r.dest(), []any{&d.size, &d.Superseded}, s.dest())...); err != nil {
			return err
		}
		err := r.fill()
		if p.f.Newest {
			p.until = r.at - 1
		} else {
			p.after = r.at
		}
		d.ArchiveRecord, d.Status = r.rec, s.status()
		p.ahead = append(p.ahead, d)
		return err
	})
	p.done, p.rows = len(p.ahead) < p.rows, listPage
	if err != nil {
		return err
	}
	records := make([]*ledger.ArchiveRecord, len(p.ahead))
	for i := range p.ahead {
		records[i] = &p.ahead[i].ArchiveRecord
	}
	return p.l.hint(ctx, records)
}

// turned makes of the oldest first the last ones first.
var turned = strings.NewReplacer("ORDER BY a.at, a.key, a.delivery", "ORDER BY a.at DESC, a.key DESC, a.delivery DESC",
	"ORDER BY a.at ", "ORDER BY a.at DESC ")

// statement is a page's, by the index that suits the filter.
func (p *deadPages) statement() (sql string, args []any) {
	args = []any{p.after, p.until, int64(p.rows)}
	source := sqlDeadAll
	switch {
	case len(p.f.IDs) > 0:
		source, args = sqlDeadIDs, append(args, p.begin.scope, p.f.IDs)
	case len(p.f.Kinds) > 0:
		kinds := make([][]byte, len(p.f.Kinds))
		for i, kind := range p.f.Kinds {
			kinds[i] = []byte(kind)
		}
		source, args = sqlDeadKinds, append(args, p.begin.scope, kinds)
	case p.begin.scope > 0:
		source, args = sqlDeadScope, append(args, p.begin.scope)
	}
	sql = strings.Replace(sqlDead, "{source}", source, 1)
	if p.f.Newest {
		sql = turned.Replace(sql)
	}
	return sql, args
}

// bodies fills in bodies and headers. What was purged or swept meanwhile is left out.
func (p *deadPages) bodies(ctx context.Context, part []ledger.DeadLetter) ([]ledger.DeadLetter, error) {
	sums, deliveries := make([]pgtype.UUID, len(part)), make([][]byte, len(part))
	for i := range part {
		sums[i], deliveries[i] = uuid(part[i].Key.Sum()), part[i].Delivery
	}
	there := make([]ledger.DeadLetter, 0, len(part))
	err := p.l.list(ctx, sqlDeadBodies, []any{sums, deliveries}, func(rows pgx.Rows) error {
		var place int64
		var headers, body []byte
		err := rows.Scan(&place, &headers, &body)
		if err != nil {
			return err // as rows.Err does
		}
		d := part[place-1]
		d.Body = body
		d.Headers, err = storage.DecodeHeaders(headers)
		there = append(there, d)
		return err
	})
	return there, err
}

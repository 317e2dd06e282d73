package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.Operator = (*Ledger)(nil)

const (
	// listPage is how many dead letters are read at once, without their bodies.
	listPage = 500
	// listBytes is about how many bytes of bodies and headers are read at once; a larger one comes alone.
	listBytes = 8 << 20
	// listPages is how many pages of messages one statement reads: 2 MiB.
	listPages = 256
)

// firstPage is how many rows a list reads at first: no more than it may hand out. What its filter leaves out, whole pages make up for.
func firstPage(limit int) int {
	if limit == 0 {
		return listPage
	}
	return min(limit, listPage)
}

// Scopes implements [ledger.Operator].
func (l *Ledger) Scopes(ctx context.Context) (names []string, err error) {
	var name []byte
	err = l.list(ctx, sqlScopes, nil, into([]any{&name}, func() { names = append(names, string(name)) }))
	return names, named("scopes", err)
}

// Find implements [ledger.Operator].
func (l *Ledger) Find(ctx context.Context, scope string, id []byte) ([]ledger.Record, error) {
	if err := checks.ID(id); err != nil {
		return nil, err
	}
	var archived []ledger.Key
	var name, prefix []byte
	var sum [ledger.KeySize]byte
	var log int64
	err := l.list(ctx, sqlArchivedID, []any{id}, into([]any{&name, &sum}, func() {
		archived = append(archived, ledger.KeyOfSum(string(name), id, sum))
	}))
	if err == nil {
		var past []ledger.Key
		past, err = l.pastKeys(ctx, id)
		archived = append(archived, past...)
	}
	if err == nil {
		err = l.list(ctx, sqlLogsOf, []any{id}, into([]any{&name, &log, &prefix}, func() {
			info := ranges.Info{Scope: string(name), Log: logOf(log), Prefix: string(prefix)}
			if key, ok := info.KeyOf(id); ok {
				archived = append(archived, key)
			}
		}))
	}
	if err != nil {
		return nil, named("find", err)
	}
	return acts.Find(ctx, l, archived, scope, id)
}

// Status implements [ledger.Operator].
func (l *Ledger) Status(ctx context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	if err := checks.Keys("keys", len(keys)); err != nil {
		return nil, err
	}
	out := make([]ledger.Status, 0, len(keys))
	var r statusRow
	err := l.list(ctx, sqlStatus, []any{keysOf(keys, ledger.Key.Sum)}, into(r.dest(), func() { out = append(out, r.status()) }))
	if err == nil && slices.ContainsFunc(out, func(s ledger.Status) bool { return s.State == ledger.Succeeded }) {
		err = l.confirm(ctx) // a replay drops the only copy of a message that has succeeded
	}
	if err != nil {
		return nil, named("status", err)
	}
	return out, nil
}

// statusRow is how a message is: sqlStatusFields.
type statusRow struct {
	state, generation, holder int32
	token, heldFor, dueIn     int64
	print                     *[16]byte
	delivery                  []byte
}

func (r *statusRow) dest() []any {
	return []any{&r.state, &r.token, &r.print, &r.generation, &r.holder, &r.heldFor, &r.dueIn, &r.delivery}
}

func (r *statusRow) status() ledger.Status {
	s := ledger.Status{State: ledger.State(r.state), Token: uint64(r.token), Generation: int(r.generation)}
	if r.print != nil {
		s.Fingerprint = *r.print
	}
	switch s.State {
	case ledger.Pending:
		s.Holder, s.HeldFor = ledger.Holder(r.holder), time.Duration(r.heldFor)*time.Microsecond
		s.DueIn = time.Duration(r.dueIn) * time.Microsecond
		if s.Holder != ledger.Live {
			s.HeldFor = 0
		}
	case ledger.Failed:
		s.Delivery = r.delivery
	}
	return s
}

// listBegin is how a list begins.
type listBegin struct {
	at    int64 // microseconds
	scope int32 // 0: all; -1: there is no such scope
	pages int64
}

func (l *Ledger) listBegin(ctx context.Context, scope string) (b listBegin, err error) {
	err = l.list(ctx, sqlBegin, []any{[]byte(scope)}, func(rows pgx.Rows) error { return rows.Scan(&b.at, &b.scope, &b.pages) })
	if scope == "" {
		b.scope = 0
	}
	return b, err
}

// Messages implements [ledger.Operator]. It reads the table by ranges of its pages, 2 MiB at a time.
func (l *Ledger) Messages(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.Listed, error] {
	return acts.List(ctx, f.Limit, listError("messages"), func() (acts.NextPage[ledger.Listed], error) { return l.messages(ctx, &f) },
		func(m *ledger.Listed) (bool, error) { return f.Match(m), nil })
}

// messages begins with what is kept by its id.
func (l *Ledger) messages(ctx context.Context, f *ledger.Filter) (next acts.NextPage[ledger.Listed], err error) {
	if err := f.CheckMessages(); err != nil {
		return nil, err
	}
	begin, err := l.listBegin(ctx, f.Scope)
	if err != nil {
		return nil, err
	}
	var first []ledger.Listed
	if f.Scope != "" && begin.scope > 0 {
		first, err = l.byID(ctx, f)
	}
	seen := map[[ledger.KeySize]byte]bool{}
	for i := range first {
		seen[first[i].Key] = true
	}
	state, until, at := f.State, begin.at, int64(0)
	if f.Stuck {
		state = ledger.Pending
	}
	if !f.To.IsZero() {
		until = min(until, f.To.UnixMicro())
	}
	rest := begin.scope >= 0 && begin.pages > 0 && (len(f.IDs) == 0 || len(first) < len(f.IDs))
	return func() (page []ledger.Listed, more bool, err error) {
		if page, first = first, nil; page != nil || !rest {
			page, err = l.unparked(ctx, f, page)
			return page, rest, err
		}
		from := at
		at += listPages
		page, err = l.listed(ctx, sqlListPages, fmt.Sprintf("(%d,0)", from), fmt.Sprintf("(%d,0)", at), begin.scope, int32(state), until)
		page = slices.DeleteFunc(page, func(m ledger.Listed) bool { return seen[m.Key] })
		if err == nil {
			page, err = l.unparked(ctx, f, page)
		}
		return page, at < begin.pages, err
	}, err
}

// byID looks up what is kept by its id.
func (l *Ledger) byID(ctx context.Context, f *ledger.Filter) (all []ledger.Listed, err error) {
	for part := range slices.Chunk(f.IDs, listPage) {
		sums := keysOf(part, func(id []byte) [ledger.KeySize]byte { return ledger.Key{Scope: f.Scope, ID: id}.Sum() })
		page, err := l.listed(ctx, sqlListKeys, sums)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

func (l *Ledger) listed(ctx context.Context, sql string, args ...any) (page []ledger.Listed, err error) {
	err = l.list(ctx, sql, args, func(rows pgx.Rows) error {
		var m ledger.Listed
		var s statusRow
		var sum [ledger.KeySize]byte
		r := messageRow{rec: &m.Record}
		if err := rows.Scan(slices.Concat([]any{&sum}, r.dest(), s.dest())...); err != nil {
			return err // as rows.Err does
		}
		err := r.fill()
		m.Key, m.Status = sum, s.status()
		page = append(page, m)
		return err
	})
	return page, err
}

// listError is what [acts.List] calls the errors of a list.
func listError(what string) func(error) error {
	return func(err error) error { return named(what, err) }
}

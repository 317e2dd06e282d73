package postgres

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// parkedBodies is how many parked messages are read at once with their bodies.
const parkedBodies = 20

// parkedList is sqlListParked.
func parkedList() string {
	return strings.NewReplacer("{status}", statusFields("p.key"), "{owner}", sqlJoinOwner).Replace(sqlListParked)
}

// mayPark says whether the schema parks. Nobody has asked it yet where no owner has joined.
func (l *Ledger) mayPark(ctx context.Context) error {
	if l.parks.Load() {
		return nil
	}
	if err := l.Check(ctx); err != nil || l.parks.Load() {
		return err
	}
	return &ledger.InvalidError{Field: "Ledger", Bound: "one that parks messages, with version " + strconv.Itoa(parkVersion) + " of the schema: " + runMigrate, Value: "an older one"}
}

// ParkedMessages implements [ledger.ParkingOperator].
func (l *Ledger) ParkedMessages(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.ParkedMessage, error] {
	return acts.List(ctx, f.Limit, listError("what is parked"), func() (acts.NextPage[ledger.ParkedMessage], error) { return l.parkedMessages(ctx, &f) },
		func(m *ledger.ParkedMessage) (bool, error) { return f.KeepParked(ctx, m) })
}

func (l *Ledger) parkedMessages(ctx context.Context, f *ledger.Filter) (next acts.NextPage[ledger.ParkedMessage], err error) {
	scopes, n := []string{f.Scope}, listPage
	if err = f.CheckParked(); err == nil {
		err = l.mayPark(ctx)
	}
	if err == nil && f.Scope == "" {
		scopes, err = l.Scopes(ctx)
	}
	if f.NeedsBody() {
		n = parkedBodies
	}
	var due int64
	var behind pgtype.UUID
	first := func() { due, behind = -1<<52, uuid([ledger.KeySize]byte{}) }
	first()
	return func() (page []ledger.ParkedMessage, more bool, err error) {
		if len(scopes) == 0 {
			return nil, false, nil
		}
		begin, err := l.listBegin(ctx, scopes[0])
		if err == nil && begin.scope > 0 {
			page, err = l.parkedPage(ctx, scopes[0], []any{begin.scope, due, behind, int64(n), f.NeedsBody()})
		}
		if len(page) < n {
			scopes = scopes[1:]
			first()
		} else {
			last := &page[n-1]
			due, behind = last.Due.UnixMicro(), uuid(last.Key.Sum())
		}
		return page, len(scopes) > 0, err
	}, err
}

func (l *Ledger) parkedPage(ctx context.Context, scope string, args []any) (page []ledger.ParkedMessage, err error) {
	err = l.list(ctx, parkedList(), args, func(rows pgx.Rows) error {
		var m ledger.ParkedMessage
		var s statusRow
		var errs []byte
		var bytes int64
		p, err := scanParkedWith(rows, scope, append([]any{&bytes, &errs}, s.dest()...)...)
		if err != nil {
			return err
		}
		m.Parked, m.Status = p, s.status()
		m.BodyBytes = int(bytes)
		m.Errors, err = storage.DecodeErrors(errs)
		page = append(page, m)
		return err
	})
	return page, err
}

// CountParked implements [ledger.ParkingOperator].
func (l *Ledger) CountParked(ctx context.Context) (map[string]ledger.ParkedStats, error) {
	if err := l.mayPark(ctx); err != nil {
		return nil, named("what is parked", err)
	}
	all := map[string]ledger.ParkedStats{}
	err := l.list(ctx, sqlCountParked, nil, func(rows pgx.Rows) error {
		var name []byte
		var s ledger.ParkedStats
		var overdue int64
		err := rows.Scan(&name, &s.Messages, &s.Bytes, &overdue)
		s.Overdue = time.Duration(overdue) * time.Microsecond
		all[string(name)] = s
		return err
	})
	return all, named("what is parked", err)
}

// ChangeParked implements [ledger.ParkingOperator]. It needs the rights of [Operator].
func (l *Ledger) ChangeParked(ctx context.Context, r ledger.ParkedRequest) (ledger.ParkedReport, error) {
	if err := checks.ChangeParked(&r); err != nil {
		return ledger.ParkedReport{}, err
	}
	change, sql := acts.ParkedChange{Request: r, List: l.ParkedMessages}, sqlRunParked
	if r.Action == ledger.ActionDrop {
		begin, err := l.listBegin(ctx, r.Filter.Scope)
		if err != nil {
			return ledger.ParkedReport{}, named("change what is parked", err)
		}
		change.Began, sql = time.UnixMicro(begin.at), sqlDropParked
	}
	change.Write = func(ctx context.Context, batch []ledger.ParkedMessage) (int64, error) {
		sums, tokens, details := make(keyArray, len(batch)), make([]int64, len(batch)), make(byteArray, len(batch))
		for i := range batch {
			note := acts.ParkedRecord(&batch[i], &r)
			sums[i], tokens[i], details[i] = uuid(batch[i].Key.Sum()), int64(batch[i].Status.Token), storage.EncodeAudit(&note)
		}
		return l.count(ctx, sql, sums, tokens, details, r.By.Actor)
	}
	report, err := change.Run(ctx)
	return report, named("change what is parked", err)
}

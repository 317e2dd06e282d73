package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Renew implements [ledger.Operator]. It needs the rights of [Operator].
func (l *Ledger) Renew(ctx context.Context, r ledger.Renewal) (out ledger.Renewed, err error) {
	if err := checks.By(r.By); err != nil {
		return out, err
	}
	err = l.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out, err = l.renew(ctx, tx, r)
		return err
	})
	if err != nil {
		return ledger.Renewed{}, named(fmt.Sprintf("renew %v", r.Key), err)
	}
	return out, nil
}

func (l *Ledger) renew(ctx context.Context, tx pgx.Tx, r ledger.Renewal) (out ledger.Renewed, err error) {
	sum := uuid(r.Key.Sum())
	var print *pgtype.UUID
	if r.Mended {
		given := uuid(r.Fingerprint)
		print, out.Delivery = &given, acts.RenewedDelivery(r.Token+1)
	}
	note := ledger.AuditRecord{By: r.By, Action: ledger.ActionRenew, Key: r.Key, State: ledger.Failed, Token: r.Token, Detail: acts.RenewalDetail(&r)}
	var token int64
	var position []byte
	err = tx.QueryRow(ctx, l.sql(sqlRenew), sum, int64(r.Token), print, out.Delivery).
		Scan(&token, &out.Generation, &note.Delivery, &position)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, ledger.ErrChanged
	}
	if err != nil {
		return out, err
	}
	out.Token = uint64(token)
	if r.Mended {
		pos, bad := decodePosition(position, note.Delivery)
		if bad != nil {
			return out, bad
		}
		_, err = tx.Exec(ctx, l.sql(sqlRenewMended), sum, note.Delivery, token, int32(out.Generation), *print, out.Delivery,
			r.Body, encodePosition(pos, out.Delivery))
	} else {
		out.Delivery = note.Delivery
		_, err = tx.Exec(ctx, l.sql(sqlRenewKept), sum, note.Delivery, token)
	}
	if err != nil {
		return out, err
	}
	_, err = tx.Exec(ctx, l.sql(sqlAudit), auditArgs([]ledger.AuditRecord{note})...)
	return out, err
}

// change is one short transaction on the ledger's own connections. What the server refused was rolled back.
func (l *Ledger) change(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	return onConn(ctx, l.own, func(ctx context.Context, conn *pgxpool.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return usable(err)
		}
		if err = l.begun(ctx, tx, frozenLimit); err == nil {
			err = fn(ctx, tx)
		}
		if err != nil {
			// The connection of a rollback that fails is closed, and the server rolls back.
			_ = tx.Rollback(context.WithoutCancel(ctx))
			return usable(err)
		}
		return sent(tx.Commit(ctx))
	})
}

// count carries out one writing statement that answers a number.
func (l *Ledger) count(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = l.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, l.sql(sql), args...).Scan(&n)
	})
	return n, err
}

// Reopen implements [ledger.Operator]. It needs the rights of [Operator].
func (l *Ledger) Reopen(ctx context.Context, r ledger.ReopenRequest) (ledger.ReopenReport, error) {
	if err := checks.Reopen(&r); err != nil {
		return ledger.ReopenReport{}, err
	}
	f := r.Filter
	begin, err := l.listBegin(ctx, f.Scope)
	if err != nil {
		return ledger.ReopenReport{}, named("reopen", err)
	}
	began := time.UnixMicro(begin.at).UTC()
	f.State = ledger.Succeeded
	if f.To.IsZero() || f.To.After(began) {
		f.To = began
	}
	logs, err := l.finished(ctx, f.Scope, begin.scope)
	if err != nil {
		return ledger.ReopenReport{}, named("reopen", err)
	}
	ranged := ranges.Reopening{Request: r, Join: l.Join, Audit: l.Audit, Rows: l.Messages}
	if err := ranged.Check(logs); err != nil {
		return ledger.ReopenReport{}, err
	}
	more := int32(0)
	if r.FreshKeys {
		more = 1
	}
	report, err := acts.Reopen(ctx, r, began, l.Messages(ctx, f), func(ctx context.Context, batch []ledger.Listed) (int64, error) {
		sums, tokens, details := make(keyArray, len(batch)), make([]int64, len(batch)), make(byteArray, len(batch))
		for i := range batch {
			note := acts.MessageRecord(&batch[i], r.By, ledger.ActionReopen, acts.ReopenDetail(&r))
			sums[i], tokens[i], details[i] = uuid(batch[i].Key), int64(batch[i].Token), storage.EncodeAudit(&note)
		}
		return l.count(ctx, sqlReopen, sums, tokens, details, more, r.By.Actor)
	})
	if err == nil {
		err = ranged.Run(withReopening(ctx), logs, &report)
	}
	return report, named("reopen", err)
}

// finished is what lies finished in a scope's ranges.
func (l *Ledger) finished(ctx context.Context, scope string, number int32) (out []ranges.Finished, err error) {
	var log int64
	var name, prefix []byte
	info := ranges.Info{Scope: scope}
	var s ranges.Segment
	dest := []any{&log, &name, &info.Epoch, &prefix, &s.From, &s.To, &s.Messages}
	err = l.list(ctx, sqlFinished, []any{number}, into(dest, func() {
		info.Log, info.Name, info.Prefix = logOf(log), string(name), string(prefix)
		if n := len(out); n == 0 || out[n-1].Info.Log != info.Log {
			out = append(out, ranges.Finished{Info: info})
		}
		last := &out[len(out)-1]
		last.Segments = append(last.Segments, s)
	}))
	return out, err
}

// Purge implements [ledger.Operator]. It needs the rights of [Operator].
func (l *Ledger) Purge(ctx context.Context, r ledger.PurgeRequest) (ledger.PurgeReport, error) {
	if err := checks.Purge(&r); err != nil {
		return ledger.PurgeReport{}, err
	}
	report, err := acts.Purge(ctx, r, l.DeadLetters(ctx, r.Filter), func(ctx context.Context, batch []ledger.DeadLetter) (int64, error) {
		n := len(batch)
		sums, deliveries, details := make(keyArray, n), make(byteArray, n), make(byteArray, n)
		states, tokens := make([]int32, n), make([]int64, n)
		for i := range batch {
			d := &batch[i]
			note := acts.DeadLetterRecord(d, r.By, ledger.ActionPurge, "")
			sums[i], deliveries[i], details[i] = uuid(d.Key.Sum()), d.Delivery, storage.EncodeAudit(&note)
			states[i], tokens[i] = int32(d.Status.State), int64(d.Status.Token)
		}
		return l.count(ctx, sqlPurge, sums, deliveries, states, tokens, details, r.By.Actor)
	})
	return report, named("purge", err)
}

// Audit implements [ledger.Operator]. It needs the rights of [Operator].
func (l *Ledger) Audit(ctx context.Context, records []ledger.AuditRecord) error {
	if err := checks.AuditRecords(records); err != nil || len(records) == 0 {
		return err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	// One round trip: a replay waits for it before each batch that it sends.
	return named("audit", l.exec(ctx, sqlAudit, auditArgs(records)...))
}

// auditArgs lines up the parameters of sqlAudit.
func auditArgs(records []ledger.AuditRecord) []any {
	n := len(records)
	actors, actions, sums := make([]string, n), make([]string, n), make(keyArray, n)
	details := make(byteArray, n)
	for i := range records {
		r := &records[i]
		actors[i], actions[i], sums[i], details[i] = r.By.Actor, string(r.Action), uuid(r.Key.Sum()), storage.EncodeAudit(r)
	}
	return []any{actors, actions, sums, details}
}

// Audits implements [ledger.Operator]. It needs the rights of [Operator].
func (l *Ledger) Audits(ctx context.Context, f ledger.AuditFilter) iter.Seq2[ledger.AuditRecord, error] {
	return acts.List(ctx, f.Limit, listError("audit"), func() (acts.NextPage[ledger.AuditRecord], error) {
		if err := checks.AuditFilter(&f); err != nil {
			return nil, err
		}
		begin, err := l.listBegin(ctx, "")
		after, size := f.After, firstPage(f.Limit)
		return func() ([]ledger.AuditRecord, bool, error) {
			sql, args := sqlAudits, []any{after, begin.at, int64(size)}
			if f.Key != nil {
				sql, args = sqlAuditsKey, append(args, uuid(f.Key.Sum()), uuid(storage.FirstAudit(&f)))
			}
			page, err := l.auditPage(ctx, sql, args)
			if n := len(page); n > 0 {
				after = page[n-1].ID
			}
			more := len(page) == size
			size = listPage
			return page, more, err
		}, err
	}, func(r *ledger.AuditRecord) (bool, error) { return acts.AuditMatches(&f, r), nil })
}

func (l *Ledger) auditPage(ctx context.Context, sql string, args []any) (page []ledger.AuditRecord, err error) {
	err = l.list(ctx, sql, args, func(rows pgx.Rows) error {
		var r ledger.AuditRecord
		var at int64
		var action string
		var sum *[ledger.KeySize]byte
		var detail []byte
		if err := rows.Scan(&r.ID, &at, &r.By.Actor, &r.Role, &action, &sum, &detail); err != nil {
			return err
		}
		r.At, r.Action = time.UnixMicro(at), ledger.Action(action)
		if sum == nil {
			sum = new([ledger.KeySize]byte)
		}
		err := storage.DecodeAudit(&r, detail, *sum)
		page = append(page, r)
		return err
	})
	return page, err
}

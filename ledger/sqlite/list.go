package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.Operator = (*Ledger)(nil)

const (
	// listPage is how many dead letters are read at once, without their bodies.
	listPage = 500
	// listBytes is about how many bytes of bodies and headers are read at once; a larger one comes alone.
	listBytes = 8 << 20
	// listSpan is how many numbers of messages one statement looks at.
	listSpan = 20_000
)

// Scopes implements [ledger.Operator].
func (l *Ledger) Scopes(ctx context.Context) (names []string, err error) {
	err = query(ctx, l.read, "SELECT name FROM ackledger_scope ORDER BY name", nil, func(rows *sql.Rows) error {
		var name []byte
		err := rows.Scan(&name)
		names = append(names, string(name))
		return err
	})
	return names, operateError("scopes", err)
}

// Find implements [ledger.Operator].
func (l *Ledger) Find(ctx context.Context, scope string, id []byte) ([]ledger.Record, error) {
	if err := ledger.CheckID(id); err != nil {
		return nil, err
	}
	var archived []ledger.Key
	err := query(ctx, l.read, `SELECT DISTINCT s.name, a.key FROM ackledger_archive a INDEXED BY ackledger_archive_id
		JOIN ackledger_scope s ON s.id = a.scope WHERE a.id = ? LIMIT ?`, []any{id, listPage}, func(rows *sql.Rows) error {
		var name, sum []byte
		if err := rows.Scan(&name, &sum); err != nil {
			return err
		}
		archived = append(archived, ledger.KeyOfSum(string(name), id, [ledger.KeySize]byte(sum)))
		return nil
	})
	if err == nil {
		err = query(ctx, l.read, `SELECT s.name, g.log, g.prefix FROM ackledger_range_log g JOIN ackledger_scope s ON s.id = g.scope
			WHERE substr(?1, 1, length(g.prefix)) = g.prefix`, []any{id}, func(rows *sql.Rows) error {
			var name, log, prefix []byte
			if err := rows.Scan(&name, &log, &prefix); err != nil {
				return err
			}
			info := ranges.Info{Scope: string(name), Log: ranges.Log(log), Prefix: string(prefix)}
			if key, ok := info.KeyOf(id); ok {
				archived = append(archived, key)
			}
			return nil
		})
	}
	if err != nil {
		return nil, operateError("find", err)
	}
	return ledger.FindRecords(ctx, l, archived, scope, id)
}

// Status implements [ledger.Operator]. The owners are read after the messages that name them.
func (l *Ledger) Status(ctx context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	if err := ledger.CheckKeys("keys", len(keys)); err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	found := make([]statusRow, len(keys))
	err := l.readTx(ctx, func(tx *sql.Tx) error {
		stmt, err := tx.PrepareContext(ctx, "SELECT "+statusColumns+" FROM ackledger_message m WHERE m.key = ?")
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }()
		for i := range keys {
			sum := keys[i].Sum()
			found[i].sum = sum
			if err := stmt.QueryRowContext(ctx, sum[:]).Scan(found[i].dest()...); err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		return nil
	})
	out := make([]ledger.Status, len(keys))
	if err == nil {
		err = l.resolve(ctx, len(keys), func(i int) (*statusRow, *ledger.Status) { return &found[i], &out[i] })
	}
	if err != nil {
		return nil, operateError("status", err)
	}
	return out, nil
}

// statusColumns are those of statusRow, of m.
const statusColumns = "m.state, m.token, m.fingerprint, m.owner, m.generation, m.due, m.failed_delivery"

// statusRow is how a message is; without a row all is null.
type statusRow struct {
	state, token, owner, generation, due sql.NullInt64
	fingerprint, delivery                []byte
	sum                                  [ledger.KeySize]byte // the caller's, to be asked of ranges
}

func (r *statusRow) dest() []any {
	return []any{&r.state, &r.token, &r.fingerprint, &r.owner, &r.generation, &r.due, &r.delivery}
}

// resolve makes statuses of n rows, with the owners that they name.
func (l *Ledger) resolve(ctx context.Context, n int, at func(int) (*statusRow, *ledger.Status)) error {
	owners := map[int64]holder{}
	for i := range n {
		if r, _ := at(i); r.owner.Valid {
			owners[r.owner.Int64] = holder{fate: fateLeft} // one without a row is as one that left
		}
	}
	for id := range owners {
		var h holder
		err := l.owners.db.QueryRowContext(ctx, "SELECT fate, lease_end FROM ackledger_owner WHERE id = ?", id).Scan(&h.fate, &h.leaseEnd)
		if err == nil {
			owners[id] = h
		} else if !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("reading owner %d: %w", id, err)
		}
	}
	now := time.Now().UnixMicro()
	for i := range n {
		r, s := at(i)
		if !r.state.Valid {
			if err := l.rangedStatus(ctx, r.sum, s); err != nil {
				return err
			}
			continue
		}
		s.State, s.Token, s.Generation = ledger.State(r.state.Int64), uint64(r.token.Int64), int(r.generation.Int64)
		copy(s.Fingerprint[:], r.fingerprint)
		switch s.State {
		case ledger.Failed:
			s.Delivery = r.delivery
		case ledger.Pending:
			if r.due.Valid {
				s.DueIn = max(time.Duration(r.due.Int64-now)*time.Microsecond, 0)
			}
			if !r.owner.Valid {
				continue
			}
			switch h := owners[r.owner.Int64]; h.fate {
			case fateLive:
				s.Holder, s.HeldFor = ledger.Live, time.Duration(h.leaseEnd-now)*time.Microsecond
			case fateLeft:
				s.Holder = ledger.Left
			default:
				s.Holder = ledger.Dead
			}
		}
	}
	return nil
}

// rangedStatus is how a message without a row is.
func (l *Ledger) rangedStatus(ctx context.Context, sum [ledger.KeySize]byte, s *ledger.Status) error {
	log, offset := ranges.SplitSum(sum)
	var state int
	err := l.read.QueryRowContext(ctx, `SELECT coalesce(
		(SELECT 2 FROM (SELECT last, kind FROM ackledger_segment WHERE log = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1)
			WHERE last > ?2 AND kind = 1),
		(SELECT 1 FROM ackledger_claim_range WHERE log = ?1 AND first <= ?2 AND last > ?2 LIMIT 1), 0)`, log[:], offset).Scan(&state)
	if err != nil {
		return fmt.Errorf("the ranges of %x: %w", sum, err)
	}
	if s.State = ledger.State(state); s.State == ledger.Pending { // whoever asks for it next finds out whose it is
		s.Holder, s.HeldFor = ledger.Live, time.Second
	}
	return nil
}

// Messages implements [ledger.Operator]. A message keeps its number, so each that was there comes once.
func (l *Ledger) Messages(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.Listed, error] {
	return func(yield func(ledger.Listed, error) bool) {
		err := f.CheckMessages()
		var last int64
		if err == nil {
			err = l.read.QueryRowContext(ctx, "SELECT coalesce(max(num), 0) FROM ackledger_message").Scan(&last)
		}
		found, seen := 0, map[[ledger.KeySize]byte]bool{}
		give := func(page []ledger.Listed) (more bool) {
			for i := range page {
				if seen[page[i].Key] || !f.Match(&page[i]) {
					continue
				}
				if !yield(page[i], nil) {
					return false
				}
				if found++; found == f.Limit {
					return false
				}
			}
			return true
		}
		if err == nil && len(f.IDs) > 0 && f.Scope != "" {
			var page []ledger.Listed
			if page, err = l.byID(ctx, &f); err == nil {
				if !give(page) || len(page) == len(f.IDs) {
					return
				}
				for i := range page {
					seen[page[i].Key] = true
				}
			}
		}
		for after := int64(0); err == nil && after < last; after += listSpan {
			var page []ledger.Listed
			if page, err = l.listed(ctx, &f, "m.num > ? AND m.num <= ?", after, min(after+listSpan, last)); err == nil && !give(page) {
				return
			}
		}
		if err != nil {
			yield(ledger.Listed{}, operateError("messages", err))
		}
	}
}

// byID looks up what is kept by its id.
func (l *Ledger) byID(ctx context.Context, f *ledger.Filter) (all []ledger.Listed, err error) {
	for part := range slices.Chunk(f.IDs, listPage) {
		args := make([]any, len(part))
		for i, id := range part {
			sum := ledger.Key{Scope: f.Scope, ID: id}.Sum()
			args[i] = sum[:]
		}
		page, err := l.listed(ctx, &ledger.Filter{}, "m.key IN ("+marks(len(args))+")", args...)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// listed reads the messages that where selects, and of these what the filter may select.
func (l *Ledger) listed(ctx context.Context, f *ledger.Filter, where string, args ...any) (page []ledger.Listed, err error) {
	text := "SELECT " + messageColumns + ", m.key, " + statusColumns +
		" FROM ackledger_message m CROSS JOIN ackledger_scope s ON s.id = m.scope WHERE " + where
	if f.Scope != "" {
		text, args = text+" AND m.scope = (SELECT id FROM ackledger_scope WHERE name = ?)", append(args, []byte(f.Scope))
	}
	if f.State != 0 {
		text, args = text+" AND m.state = ?", append(args, int(f.State))
	}
	if f.Stuck {
		text += " AND m.state = 1"
	}
	var status []statusRow
	err = query(ctx, l.read, text, args, func(rows *sql.Rows) error {
		var m ledger.Listed
		var s statusRow
		var sum []byte
		r := messageRow{rec: &m.Record}
		if err := rows.Scan(append(append(r.dest(), &sum), s.dest()...)...); err != nil {
			return err
		}
		m.Key = [ledger.KeySize]byte(sum)
		err := r.fill()
		page, status = append(page, m), append(status, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, l.resolve(ctx, len(page), func(i int) (*statusRow, *ledger.Status) { return &status[i], &page[i].Status })
}

// readTx runs fn in one snapshot.
func (l *Ledger) readTx(ctx context.Context, fn func(*sql.Tx) error) error {
	return reading(ctx, func() error {
		tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // it only read
		return fn(tx)
	})
}

// query calls scan for each row.
func query(ctx context.Context, q interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, text string, args []any, scan func(*sql.Rows) error,
) error {
	return reading(ctx, func() error {
		rows, err := q.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		return scanAll(rows, scan)
	})
}

func scanAll(rows *sql.Rows, scan func(*sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// marks is so many parameters.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

func operateError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger/sqlite: %s: %w", what, err)
}

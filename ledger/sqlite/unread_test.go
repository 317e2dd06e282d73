package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// TestUnreadStep: a step that cannot read or write what it needs says so itself. A step that says nothing leaves it to the next
// one, which takes it for done.
func TestUnreadStep(t *testing.T) {
	t.Parallel()
	lost := ranges.JoinSum(ranges.Log{9}, 1)
	for name, c := range map[string]struct {
		gone string // the table
		step func(b *batch, g *rangeLog) error
	}{
		"the room of a log": {"segment", func(b *batch, g *rangeLog) error { return b.room(g, 0, &ranges.Facts{}) }},
		"segments below a log's start": {"segment", func(b *batch, g *rangeLog) error {
			return b.trim(g, &ranges.Query{First: 5, Info: ranges.Info{Name: "log"}})
		}},
		"a log's start": {"range_log", func(b *batch, g *rangeLog) error {
			return b.trim(g, &ranges.Query{First: 5, Info: ranges.Info{Name: "log"}})
		}},
		"a new log": {"range_log", func(b *batch, _ *rangeLog) error {
			_, err := b.newLog(ranges.Info{Log: ranges.Log{3}, Scope: "test", Name: "other", Prefix: "other-"})
			return err
		}},
		"the log of a message": {"range_log", func(b *batch, _ *rangeLog) error {
			_, err := b.rangeRow(ledger.NewTicket(lost, 1))
			return err
		}},
		"the audit": {"audit", func(b *batch, _ *rangeLog) error {
			_, _, _, err := (&pass{l: b.o.l}).audits(&sweepTx{ctx: b.ctx, tx: b.tx}, 0, 9, 9)
			return err
		}},
		"messages to sweep": {"message", func(b *batch, _ *rangeLog) error {
			_, _, _, err := (&pass{l: b.o.l}).messages(&sweepTx{ctx: b.ctx, tx: b.tx}, 0, 9, 9)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLedger(t, func(ctx context.Context, _ *Ledger, o *owner) error {
				undo := errors.New("undone")
				err := o.runLive(ctx, 1, func(b *batch) error {
					g, err := b.newLog(ranges.Info{Log: ranges.Log{1}, Scope: "test", Name: "log", Prefix: "log-"})
					if err != nil {
						return err
					}
					if _, err := b.tx.ExecContext(b.ctx, "ALTER TABLE main.ackledger_"+c.gone+" RENAME TO gone"); err != nil {
						return err
					}
					if err := c.step(b, g); err == nil || !strings.Contains(err.Error(), "ackledger_"+c.gone) {
						t.Errorf("%v, want that %s is not there", err, c.gone)
					}
					return undo
				})
				if !errors.Is(err, undo) {
					return err
				}
				return nil
			})
		})
	}
}

// TestFileWithoutTables: what opens a file asks before it believes. No answer is not the answer that the file is new.
func TestFileWithoutTables(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "empty.db"))
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{db: db, turn: make(turn, 1)}
	if have, err := nameOwners(t.Context(), w, "id", true); err == nil {
		t.Errorf("the owners' file is %q", have)
	}
	if n, err := metaNumber(t.Context(), db, "schema"); err == nil {
		t.Errorf("the schema is %d", n)
	}
	if err := (&statements{}).prepare(t.Context(), db); err == nil || !strings.Contains(err.Error(), "preparing") {
		t.Errorf("prepared: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := setWAL(ctx, db); err == nil {
		t.Error("a file that is closed has its journal mode")
	}
}

// TestUnreadOwners: a sweep that cannot read the owners says so; none of them is removed.
func TestUnreadOwners(t *testing.T) {
	t.Parallel()
	inLedger(t, func(ctx context.Context, l *Ledger, _ *owner) error {
		if _, err := l.owners.db.ExecContext(ctx, "ALTER TABLE ackledger_owner RENAME TO gone"); err != nil {
			return err
		}
		if err := (&pass{l: l}).owners(ctx); err == nil || !strings.Contains(err.Error(), "ackledger_owner") {
			t.Errorf("%v, want that the owners are not there", err)
		}
		_, err := l.owners.db.ExecContext(ctx, "ALTER TABLE gone RENAME TO ackledger_owner")
		return err
	})
}

// TestSucceededRowsGo: a row whose message is in a range stays for its state, if that is not what the range says: not once it has
// succeeded.
func TestSucceededRowsGo(t *testing.T) {
	t.Parallel()
	inLedger(t, func(ctx context.Context, l *Ledger, o *owner) error {
		undo := errors.New("undone")
		err := o.runLive(ctx, 1, func(b *batch) error {
			now := time.Now()
			for _, q := range []string{
				"INSERT OR REPLACE INTO ackledger_maintenance (one, holder) VALUES (1, 'me')",
				`INSERT INTO ackledger_claim_range (log, token, first, last, owner, messages, keep, at) VALUES (zeroblob(8), 1, 0, 9, 1, 9, 1, 1)`,
				`INSERT INTO ackledger_message (num, key, scope, id, fingerprint, state, token, attempts, crashes, generation, at, expiry, covered)
					VALUES (1, zeroblob(16), 1, x'61', zeroblob(16), 2, 1, 1, 0, 1, 1, 2, 3),
						(2, zeroblob(17), 1, x'62', zeroblob(16), 3, 1, 1, 0, 1, 1, 2, 4), (3, zeroblob(18), 1, x'63', zeroblob(16), 3, 1, 1, 0, 1, 1, 2, 12)`,
			} {
				if _, err := b.tx.ExecContext(b.ctx, q); err != nil {
					return err
				}
			}
			p := &pass{l: l, me: "me", began: now}
			if _, _, removed, err := p.messages(&sweepTx{p: p, ctx: b.ctx, tx: b.tx, now: now}, 0, 9, 9); err != nil || removed != 2 {
				t.Errorf("%d are removed, %v; want what succeeded, and what is in no range", removed, err)
			}
			var left string
			if err := b.tx.QueryRowContext(b.ctx, "SELECT group_concat(id) FROM ackledger_message").Scan(&left); err != nil || left != "b" {
				t.Errorf("%q is left, %v", left, err)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			return err
		}
		return nil
	})
}

// TestNoLoggerIsSilent: nothing is logged by default, and whatever logs need not ask.
func TestNoLoggerIsSilent(t *testing.T) {
	if c, err := (&Config{}).withDefaults(); err != nil || c.Logger == nil {
		t.Errorf("%+v, %v", c, err)
	}
}

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
	"github.com/ackledger/ackledger/ledger/driver"
)

// TestUnreadStep: a step that cannot read or write what it needs says so itself. A step that says nothing leaves it to the next
// one, which takes it for done.
func TestUnreadStep(t *testing.T) {
	t.Parallel()
	log, key := driver.LogID{1}, driver.Key{1}
	row := &driver.Message{Key: key, Scope: "test", ID: []byte("id")}
	for name, c := range map[string]struct {
		gone string // the table
		step func(*tx) error
	}{
		"the room of a log":            {"segment", func(t *tx) error { _, err := t.Next(log, 0, 9); return err }},
		"the segments of a log":        {"segment", func(t *tx) error { _, err := t.Segments(nil, log, driver.Span{To: 1}); return err }},
		"a segment":                    {"segment", func(t *tx) error { return t.PutSegment(log, &driver.Segment{}) }},
		"no segment":                   {"segment", func(t *tx) error { return t.DropSegment(log, 1) }},
		"segments below a log's start": {"segment", func(t *tx) error { return t.Trim("test", "log", 5, t.now) }},
		"a log":                        {"range_log", func(t *tx) error { _, err := t.Log(log); return err }},
		"logs":                         {"range_log", func(t *tx) error { _, err := t.Logs(log, 9); return err }},
		"a new log":                    {"range_log", func(t *tx) error { return t.PutLog(&driver.Log{Info: driver.Info{Log: log, Scope: "test"}}) }},
		"no log":                       {"range_log", func(t *tx) error { return t.DropLog(log) }},
		"ranges":                       {"claim_range", func(t *tx) error { _, err := t.Ranges(nil, log, driver.Span{}, nil); return err }},
		"a range":                      {"claim_range", func(t *tx) error { return t.PutRange(log, &driver.Range{}) }},
		"no range":                     {"claim_range", func(t *tx) error { return t.DropRange(log, 1) }},
		"the rows of a log":            {"message", func(t *tx) error { _, err := t.Rows(log, driver.Span{To: 9})(1); return err }},
		"how far a log's rows reach":   {"message", func(t *tx) error { _, _, err := t.Extent(log); return err }},
		"a row":                        {"message", func(t *tx) error { _, err := t.Message(key, nil); return err }},
		"a new row":                    {"message", func(t *tx) error { _, err := t.Insert(row); return err }},
		"a changed row":                {"message", func(t *tx) error { return t.Put(row) }},
		"a success":                    {"message", func(t *tx) error { _, err := t.Succeed(key, 1, 1, nil, t.now); return err }},
		"no row":                       {"message", func(t *tx) error { return t.Remove([]driver.Key{key}) }},
		"the last row":                 {"message", func(t *tx) error { _, err := t.LastMessage(); return err }},
		"messages":                     {"message", func(t *tx) error { _, _, err := t.Messages("", "9", &ledger.Filter{}); return err }},
		"messages to sweep":            {"message", func(t *tx) error { _, err := t.SweepMessages("", "9", 9); return err }},
		"an archive":                   {"archive", func(t *tx) error { _, err := t.Archive(key, true); return err }},
		"a delivery": {"archive", func(t *tx) error {
			return t.File(&ledger.ArchiveRecord{Archive: ledger.Archive{Key: ledger.Key{Scope: "test"}}})
		}},
		"a changed delivery":  {"archive", func(t *tx) error { _, err := t.Alter(key, nil, driver.ArchiveChange{}); return err }},
		"dead letters":        {"archive", func(t *tx) error { _, err := t.DeadLetters("", t.now, &ledger.Filter{}, 9); return err }},
		"bodies":              {"archive", func(t *tx) error { _, err := t.Bodies([]driver.DeadLetter{{}}); return err }},
		"archived keys":       {"archive", func(t *tx) error { _, err := t.ArchivedKeys(nil, 9); return err }},
		"archived bytes":      {"archive", func(t *tx) error { _, _, _, err := t.ArchivedBytes("test", ""); return err }},
		"deliveries to sweep": {"archive", func(t *tx) error { _, _, _, err := t.SweepArchive("", 9, t.now); return err }},
		"the audit":           {"audit", func(t *tx) error { _, err := t.Audits(0, 9, &ledger.AuditFilter{}, 9); return err }},
		"an audit row":        {"audit", func(t *tx) error { return t.Note([]ledger.AuditRecord{{Key: ledger.Key{Scope: "test"}}}) }},
		"the last audit row":  {"audit", func(t *tx) error { _, err := t.LastAudit(); return err }},
		"the audit to sweep":  {"audit", func(t *tx) error { _, err := t.SweepAudits(9, t.now); return err }},
		"the past":            {"past", func(t *tx) error { _, err := t.Past(key, true, 9); return err }},
		"the past's keys":     {"past", func(t *tx) error { _, err := t.PastKeys(nil, 9); return err }},
		"the past to sweep":   {"past", func(t *tx) error { _, err := t.SweepPast(9, t.now); return err }},
		"what is to be kept":  {"scope", func(t *tx) error { return t.KeepPast("test", time.Hour) }},
		"scopes":              {"scope", func(t *tx) error { _, err := t.Scopes(); return err }},
		"a scope":             {"scope", func(t *tx) error { _, err := t.scope("another"); return err }},
		"the turn":            {"maintenance", func(t *tx) error { _, err := t.Turn(); return err }},
		"whose turn it is":    {"maintenance", func(t *tx) error { return t.PutTurn(driver.Turn{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLedger(t, func(ctx context.Context, l *Ledger, _ ranges.Store) error {
				undo := errors.New("undone")
				err := l.store.Update(ctx, driver.Call{}, func(in driver.Tx) error {
					b := in.(*tx)
					if _, err := b.scope("test"); err != nil {
						return err
					}
					if _, err := b.sql.ExecContext(ctx, "ALTER TABLE main.ackledger_"+c.gone+" RENAME TO gone"); err != nil {
						return err
					}
					if err := c.step(b); err == nil || !strings.Contains(err.Error(), "ackledger_"+c.gone) {
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
	if err := (statements{}).prepare(t.Context(), db, callTexts); err == nil || !strings.Contains(err.Error(), "preparing") {
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
	inLedger(t, func(ctx context.Context, l *Ledger, _ ranges.Store) error {
		if _, err := l.store.owners.db.ExecContext(ctx, "ALTER TABLE ackledger_owner RENAME TO gone"); err != nil {
			return err
		}
		_, err := l.store.RemoveOwners(ctx, time.Now(), func(driver.OwnerID) bool { return false })
		if err == nil || !strings.Contains(err.Error(), "ackledger_owner") {
			t.Errorf("%v, want that the owners are not there", err)
		}
		_, err = l.store.owners.db.ExecContext(ctx, "ALTER TABLE gone RENAME TO ackledger_owner")
		return err
	})
}

// TestSucceededRowsGo: a row whose message is in a range stays for its state, if that is not what the range says: not once it has
// succeeded.
func TestSucceededRowsGo(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("00", ledger.KeySize-1)
	inLedger(t, func(ctx context.Context, l *Ledger, _ ranges.Store) error {
		err := l.store.main.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
			for _, q := range []string{
				"INSERT INTO ackledger_scope (id, name) VALUES (1, x'61')",
				`INSERT INTO ackledger_range_log (log, version, token, top, scope, epoch, name, prefix) VALUES (zeroblob(8), 1, 1, 99, 1, 0, x'', x'')`,
				`INSERT INTO ackledger_claim_range (log, token, first, last, owner, messages, keep, at) VALUES (zeroblob(8), 1, 0, 9, 1, 9, 1, unixepoch() * 1000000)`,
				`INSERT INTO ackledger_message (num, key, scope, id, fingerprint, state, token, attempts, crashes, generation, at, expiry, covered)
					VALUES (1, x'` + zeros + `03', 1, x'61', zeroblob(16), 2, 1, 1, 0, 1, 1, 2, 3),
						(2, x'` + zeros + `04', 1, x'62', zeroblob(16), 3, 1, 1, 0, 1, 1, 2, 4),
						(3, x'` + zeros + `0c', 1, x'63', zeroblob(16), 3, 1, 1, 0, 1, 1, 2, 12)`,
			} {
				if _, err := tx.ExecContext(ctx, q); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if report, err := l.Sweep(ctx, ledger.MaintainConfig{}); err != nil || report.Messages != 2 {
			t.Errorf("%d are removed, %v; want what succeeded, and what is in no range", report.Messages, err)
		}
		var left string
		if err := l.store.read.QueryRowContext(ctx, "SELECT group_concat(id) FROM ackledger_message").Scan(&left); err != nil || left != "b" {
			t.Errorf("%q is left, %v", left, err)
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

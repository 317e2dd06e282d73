package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// table is one of a file's, with the columns that it had when somebody looked.
type table struct{ name, columns string }

// tables are all that hold the ledger's data. The number of the schema changes; the rest of ackledger_meta is what pairs the files.
func tables(t *testing.T, db *sql.DB) (all []table) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT m.name, group_concat('quote(' || c.name || ')', ' || ''|'' || ')
		FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name GLOB 'ackledger_*' AND m.name NOT IN ('ackledger_migration', 'ackledger_meta') GROUP BY m.name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var one table
		if err := rows.Scan(&one.name, &one.columns); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// contents are all rows of tables.
func contents(t *testing.T, db *sql.DB, of []table) (all []string) {
	t.Helper()
	for _, one := range of {
		rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s FROM %s", one.columns, one.name))
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			all = append(all, one.name+": "+row)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

// six is a file with rows of each kind that a worker of version 6 has left in it, and that worker.
type six struct {
	*testing.T
	path   string
	app    *app
	worker ledger.Owner
	claims map[string]ledger.Claim
}

func leaveSix(t *testing.T) *six {
	t.Helper()
	s := &six{T: t, path: sqlite.Fresh(t), claims: map[string]ledger.Claim{}}
	var l *sqlite.Ledger
	l, s.app = openAt(t, s.path, nil)
	s.to(6)
	l.PlayNine()
	var err error
	if s.worker, err = l.Join(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"done", "failed", "retry", "held"} {
		s.claim(s.worker, message(id), ledger.Run)
	}
	failed := message("failed")
	s.settle(s.worker, "done", ledger.Settlement{Kind: ledger.Succeed, Result: []byte("receipt")})
	s.settle(s.worker, "failed", ledger.Settlement{Kind: ledger.Fail, Dead: &ledger.Archive{Key: failed.Key, Delivery: failed.Delivery, Body: []byte("body"), Keep: 24 * time.Hour}})
	s.settle(s.worker, "retry", ledger.Settlement{Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Attempt: 1, Error: "trouble"}})
	for _, r := range records(0, 5) {
		s.claim(s.worker, r, ledger.Run)
	}
	s.settle(s.worker, "topic-0-0", ledger.Settlement{Kind: ledger.Succeed})
	return s
}

// to takes the file to a version.
func (s *six) to(version int64) {
	s.Helper()
	if err := sqlite.MigrateTo(s.Context(), s.path, version); err != nil {
		s.Fatal(err)
	}
}

func (s *six) claim(o ledger.Owner, m ledger.Entry, want ledger.Answer) ledger.Claim {
	s.Helper()
	got, err := o.Claim(s.Context(), []ledger.Entry{m})
	if err != nil || got[0].Answer != want {
		s.Fatalf("claim of %s: %+v, %v, want %v", m.Key.ID, got, err, want)
	}
	if want == ledger.Run {
		s.claims[string(m.Key.ID)] = got[0]
	}
	return got[0]
}

func (s *six) settle(o ledger.Owner, id string, how ledger.Settlement) {
	s.Helper()
	how.Ticket = s.claims[id].Ticket
	if errs, err := o.Settle(s.Context(), []ledger.Settlement{how}); err != nil || errs[0] != nil {
		s.Fatalf("%v of %s: %v, %v", how.Kind, id, errs, err)
	}
}

// keeps checks that an upgrade leaves all rows of both files as they are.
func (s *six) keeps(what string, upgrade func()) {
	s.Helper()
	main, owners := tables(s.T, s.app.main), tables(s.T, s.app.owners)
	look := func() []string {
		return append(contents(s.T, s.app.main, main), contents(s.T, s.app.owners, owners)...)
	}
	before := look()
	upgrade()
	if after := look(); !slices.Equal(before, after) || len(before) < 8 {
		s.Errorf("%s: the rows are\n%s\nwere\n%s", what, strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// TestFromSix: a file that a worker of version 6 has left keeps all of its rows, and the worker goes on. Version 7 brings steps to
// messages of before, version 8 keeps what they ended with.
func TestFromSix(t *testing.T) {
	t.Parallel()
	s := leaveSix(t)

	// Version 7 judges the rows of version 6, whose worker claims one of them again, and records a step of it.
	s.keeps("6 to 7", func() { s.to(7) })
	if c := s.claim(s.worker, message("retry"), ledger.Run); c.Attempt != 2 || len(c.Errors) != 1 || c.Errors[0].Error != "trouble" {
		t.Errorf("what version 6 has released: %+v", c)
	}
	for _, id := range []string{"retry", "held"} {
		s.settle(s.worker, id, ledger.Settlement{Kind: ledger.RecordStep, Step: &ledger.Step{Name: "charge", Result: []byte("ch_" + id)}})
	}
	s.settle(s.worker, "retry", ledger.Settlement{Kind: ledger.Release})

	// Version 8, to which a program of now opens it, judges the same rows and steps. What is claimed of before is still that worker's.
	var l *sqlite.Ledger
	s.keeps("7 to 8", func() { l, _ = openAt(t, s.path, nil) })
	if _, err := s.worker.Beat(t.Context()); err != nil {
		t.Errorf("the worker of version 6: %v", err)
	}
	if err := l.KeepPast(t.Context(), "test", 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.claim(o, message("done"), ledger.Done); string(c.Outcome.Result) != "receipt" {
		t.Errorf("what version 6 has finished: %+v", c)
	}
	s.claim(o, message("failed"), ledger.Done)
	s.claim(o, record(0), ledger.Done)
	s.claim(o, record(4), ledger.Busy)
	if c := s.claim(o, message("held"), ledger.Busy); !c.Held {
		t.Errorf("what the worker of version 6 has: %+v", c)
	}
	s.settle(s.worker, "held", ledger.Settlement{Kind: ledger.Succeed, Result: []byte("parcel")})
	s.settle(s.worker, "topic-0-4", ledger.Settlement{Kind: ledger.Succeed})
	retry := s.claim(o, message("retry"), ledger.Run)
	if steps, err := ledger.ReadSteps(t.Context(), o, retry.Ticket); err != nil || len(steps) != 1 || string(steps[0].Result) != "ch_retry" {
		t.Errorf("the step of version 7: %+v, %v", steps, err)
	}
	s.outlive(l)
}

// outlive checks that what version 6 has begun is kept for longer than its rows.
func (s *six) outlive(l *sqlite.Ledger) {
	s.Helper()
	if err := s.app.age(s.Context(), 2*time.Hour); err != nil {
		s.Fatal(err)
	}
	if _, err := l.Sweep(s.Context(), ledger.MaintainConfig{}); err != nil {
		s.Fatal(err)
	}
	for id, result := range map[string]string{"done": "receipt", "held": "parcel"} {
		rec, err := l.Get(s.Context(), message(id).Key)
		if !errors.Is(err, ledger.ErrNotFound) || len(rec.Past) != 1 || string(rec.Past[0].Result) != result || rec.Past[0].State != ledger.Succeeded {
			s.Errorf("%s, whose row is gone: %+v, %v", id, rec, err)
		}
	}
	var steps int
	if err := s.app.main.QueryRowContext(s.Context(), "SELECT count(*) FROM ackledger_step WHERE result = ?", []byte("ch_held")).Scan(&steps); err != nil || steps != 0 {
		s.Errorf("%d steps are left of a row that is gone, %v", steps, err)
	}
	if dead, err := l.Get(s.Context(), message("failed").Key); !errors.Is(err, ledger.ErrNotFound) || len(dead.Archived) != 1 || string(dead.Archived[0].Body) != "body" {
		s.Errorf("what version 6 has archived: %+v, %v", dead, err)
	}
}

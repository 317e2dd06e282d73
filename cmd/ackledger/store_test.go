package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// store is a ledger of a test, and what the command calls it.
type store struct {
	*testing.T
	name string
	ledger.Ledger
	ledger.Operator
	owner ledger.Owner
}

// onStores runs a test on a SQLite file and on PostgreSQL.
func onStores(t *testing.T, test func(*testing.T, *store)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, openStore(t, filepath.Join(t.TempDir(), "ledger.db")))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := services.Postgres(t).URL
		done(t, "migrate", "--ledger", url)
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		l, err := postgres.New(t.Context(), pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		test(t, newStore(t, url, l))
	})
}

// openStore opens a SQLite file.
func openStore(t *testing.T, file string) *store {
	t.Helper()
	l, err := sqlite.Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return newStore(t, file, l)
}

func newStore(t *testing.T, name string, l ledger.Ledger) *store {
	t.Helper()
	op, ok := l.(ledger.Operator)
	if !ok {
		t.Fatalf("%T is no Operator", l)
	}
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return &store{T: t, name: name, Ledger: l, Operator: op, owner: o}
}

const (
	orders   = "sqs:arn:aws:sqs:eu-west-1:000000000000:orders/shipping"
	payments = "sqs:arn:aws:sqs:eu-west-1:000000000000:payments/shipping"
)

// secret must not be printed unless asked for.
const secret = "card 4111-1111"

// claim takes messages of a scope.
func (s *store) claim(scope string, ids ...string) []ledger.Claim {
	s.Helper()
	entries := make([]ledger.Entry, len(ids))
	for i, id := range ids {
		entries[i] = ledger.Entry{Key: ledger.Key{Scope: scope, ID: []byte(id)}, Delivery: []byte(id), Window: time.Hour,
			Fingerprint: ledger.BodyFingerprint([]byte(secret + id))}
	}
	claims, err := s.owner.Claim(s.Context(), entries)
	if err != nil {
		s.Fatal(err)
	}
	for i := range claims {
		if claims[i].Answer != ledger.Run {
			s.Fatalf("claim of %s: %+v", ids[i], claims[i])
		}
	}
	return claims
}

// settle asks again for a minute while the answer is unknown, as a worker does: 50 MB take a busy disk longer than a call.
func (s *store) settle(list []ledger.Settlement) {
	s.Helper()
	for end := time.Now().Add(time.Minute); ; {
		errs, err := s.owner.Settle(s.Context(), list)
		if err = errors.Join(append(errs, err)...); err == nil {
			return
		}
		if !ledger.Unknown(err) || time.Now().After(end) {
			s.Fatal(err)
		}
	}
}

// succeed makes messages that succeeded.
func (s *store) succeed(scope string, ids ...string) {
	s.Helper()
	var list []ledger.Settlement
	for _, c := range s.claim(scope, ids...) {
		list = append(list, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("shipped")})
	}
	s.settle(list)
}

// park has a message wait in the ledger.
func (s *store) park(scope, id string) {
	s.Helper()
	c := s.claim(scope, id)[0]
	s.settle([]ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Park, After: time.Millisecond, Dead: deadArchive(scope, id, "", "")}})
}

// wake has a message that is parked succeed.
func (s *store) wake(scope, id string) {
	s.Helper()
	for end := time.Now().Add(time.Minute); ; {
		claims, err := s.owner.Claim(s.Context(), []ledger.Entry{{Key: ledger.Key{Scope: scope, ID: []byte(id)}, Delivery: []byte(id), Window: time.Hour,
			Fingerprint: ledger.BodyFingerprint([]byte(secret + id)), Parked: true, Copy: true}})
		switch {
		case err == nil && claims[0].Answer == ledger.Run:
			s.settle([]ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}})
			return
		case err != nil || claims[0].Answer != ledger.Busy || time.Now().After(end): // it is not due yet
			s.Fatalf("%+v, %v", claims, err)
		}
	}
}

// fail makes dead letters.
func (s *store) fail(scope string, kind ledger.FailureKind, reason string, ids ...string) {
	s.Helper()
	var list []ledger.Settlement
	for i, c := range s.claim(scope, ids...) {
		list = append(list, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: deadArchive(scope, ids[i], kind, reason)})
	}
	s.settle(list)
}

func deadArchive(scope, id string, kind ledger.FailureKind, reason string) *ledger.Archive {
	body := []byte(secret + id)
	return &ledger.Archive{
		Key: ledger.Key{Scope: scope, ID: []byte(id)}, Fingerprint: ledger.BodyFingerprint(body), Delivery: []byte(id), Kind: kind,
		Errors: []ledger.AttemptError{
			{Attempt: 1, Kind: ledger.KindError, Error: "a first try", At: time.Now()},
			{Attempt: 2, Kind: ledger.KindPanic, Error: reason, At: time.Now()},
		},
		Body: body, Headers: []ledger.Header{{Name: "tenant", Value: []byte("acme"), Type: "String"}},
		Source: sourceOf(scope), Group: "g1", Attempts: 2, SentAt: time.Now(), Keep: 24 * time.Hour,
	}
}

// sourceOf is the ARN in a scope of SQS.
func sourceOf(scope string) string {
	arn, _, _ := strings.Cut(strings.TrimPrefix(scope, "sqs:"), "/")
	return arn
}

func (s *store) run(args ...string) string {
	s.Helper()
	return done(s.T, append(args, "--ledger", s.name)...)
}

// jsonLines reads lines of JSON.
func jsonLines[T any](t *testing.T, text string) (out []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		var one T
		decode(t, line, &one)
		out = append(out, one)
	}
	return out
}

func (s *store) listed(args ...string) []string {
	s.Helper()
	var ids []string
	for _, d := range jsonLines[struct {
		ID string `json:"id"`
	}](s.T, onlyIDs(s.T, s.run(append([]string{"list", "--json"}, args...)...))) {
		ids = append(ids, d.ID)
	}
	return ids
}

// onlyIDs keeps the id of each line.
func onlyIDs(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		var all map[string]any
		if err := json.Unmarshal([]byte(line), &all); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "{\"id\":%q}\n", all["id"])
	}
	return b.String()
}

// shop is a ledger with something of everything.
func shop(s *store) {
	s.Helper()
	s.fail(orders, ledger.KindExhausted, "no such SKU: 17", "o1", "o2")
	s.fail(orders, ledger.KindTerminal, "cannot parse\x1b[2J", "o3")
	s.fail(payments, ledger.KindExhausted, "declined", "p1")
	s.succeed(orders, "o4", "o5")
	s.claim(orders, "o6")
}

// newer makes the ledger one that only much newer programs may use.
func (s *store) newer() {
	s.Helper()
	if !strings.HasPrefix(s.name, "postgres") {
		db, err := sql.Open("sqlite", s.name)
		if err != nil {
			s.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.ExecContext(s.Context(), "UPDATE ackledger_meta SET value = '99' WHERE key IN ('schema', 'oldest_worker')"); err != nil {
			s.Fatal(err)
		}
		return
	}
	pool, err := pgxpool.New(context.Background(), s.name)
	if err != nil {
		s.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(s.Context(), "UPDATE ackledger.meta SET schema_version = 99, oldest_worker = 99"); err != nil {
		s.Fatal(err)
	}
}

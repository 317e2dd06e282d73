package main

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

func TestListOutbox(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		if out := s.run("list", "--outbox"); !strings.Contains(out, "nothing") {
			t.Errorf("an empty outbox: %q", out)
		}
		claims, err := s.owner.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Window: time.Hour,
			Fingerprint: ledger.BodyFingerprint([]byte("m")), Delivery: []byte("m")}})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatal(claims, err)
		}
		a := ledger.NewAttempt(s.owner, claims[0].Ticket)
		publish := func(ctx context.Context) error {
			return a.Publish(ctx, ledger.Outgoing{Target: "orders", Key: []byte("k1"), ID: "first", Body: []byte("12345")},
				ledger.Outgoing{Target: "orders", ID: "second"})
		}
		ctx := ledger.WithAttempt(t.Context(), a)
		if _, ok := s.Ledger.(*postgres.Ledger); ok {
			err = postgres.InTx(ctx, func(ctx context.Context, _ pgx.Tx) error { return publish(ctx) })
		} else {
			err = sqlite.InTx(ctx, func(ctx context.Context, _ *sql.Tx) error { return publish(ctx) })
		}
		if err != nil {
			t.Fatal(err)
		}
		for args, want := range map[string][]string{
			"":                 {"TARGET", "orders", "k1", "first", "second", "now"},
			"--count 1":        {"first", "there are more"},
			"--json":           {`"id":"first"`, `"bytes":5`, `"target":"orders"`},
			"--json --body":    {`"body":"MTIzNDU="`},
			"--json --count 1": {`"id":"first"`},
		} {
			out := s.run(append([]string{"list", "--outbox"}, strings.Fields(args)...)...)
			for _, text := range want {
				if !strings.Contains(out, text) {
					t.Errorf("list --outbox %s lacks %q:\n%s", args, text, out)
				}
			}
		}
	})
}

package postgres_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// A worker's part (join, claim, the attempt's context) is written out here; in a program, consumer does it.
func Example() {
	ctx := context.Background()
	err := pay(ctx, os.Getenv("DATABASE_URL"))
	fmt.Println(err)
}

func pay(ctx context.Context, url string) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, cfg.ConnConfig, ""); err != nil { // once, before the deploy
		return err
	}
	l, err := postgres.New(ctx, pool, nil) // one a process
	if err != nil {
		return err
	}
	defer l.Close()
	owner, err := l.Join(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	claims, err := owner.Claim(ctx, []ledger.Entry{{
		Key:         ledger.Key{Scope: "payments", ID: []byte("order-17")},
		Fingerprint: ledger.BodyFingerprint([]byte("42 EUR")),
		Delivery:    []byte("message-1"),
		Window:      24 * time.Hour,
	}})
	if err != nil || claims[0].Answer != ledger.Run {
		return err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE payment (amount bigint)"); err != nil {
		return err
	}
	charge := func(ctx context.Context) error { // in a handler
		return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO payment VALUES (42)")
			return err
		})
	}
	if err := charge(ledger.WithAttempt(ctx, ledger.NewAttempt(owner, claims[0].Ticket))); err != nil {
		return err
	}
	return owner.Leave(ctx)
}

// TestExample runs what Example shows, which has no output of its own for want of a database in the documentation.
func TestExample(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t).URL
	if err := pay(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b := openBench(t, url, variant{})
	r, err := b.Get(t.Context(), ledger.Key{Scope: "payments", ID: []byte("order-17")})
	if err != nil || r.State != ledger.Succeeded || b.number(t, "SELECT amount FROM payment") != 42 {
		t.Fatalf("%+v, %v", r, err)
	}
}

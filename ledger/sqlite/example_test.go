package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// A message is claimed, handled in a transaction that holds both its effect and its success, and recognised when it is
// delivered again. Workers do all of this but the body of charge.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")
	l, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	shop, err := sql.Open("sqlite", path) // the application's tables are in the same file
	if err != nil {
		log.Fatal(err)
	}
	defer shop.Close()
	if _, err := shop.Exec("CREATE TABLE charge (orderid TEXT, cents INTEGER)"); err != nil {
		log.Fatal(err)
	}

	charge := func(ctx context.Context) error {
		return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO charge VALUES ('order 7', 1999)")
			return err
		})
	}

	owner, err := l.Join(ctx, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	body := []byte(`{"order":7}`)
	entry := ledger.Entry{Key: ledger.Key{Scope: "payments orders", ID: []byte("7")},
		Fingerprint: ledger.BodyFingerprint(body), Delivery: []byte("message-id-1"), Window: 14 * 24 * time.Hour}
	for range 2 { // the second time is a redelivery
		claims, err := owner.Claim(ctx, []ledger.Entry{entry})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(claims[0].Answer)
		if claims[0].Answer == ledger.Run {
			handler := ledger.WithAttempt(ctx, ledger.NewAttempt(owner, claims[0].Ticket))
			if err := charge(handler); err != nil {
				log.Fatal(err)
			}
		}
	}
	var charges int
	if err := shop.QueryRow("SELECT count(*) FROM charge").Scan(&charges); err != nil {
		log.Fatal(err)
	}
	fmt.Println("charges:", charges)
	if err := owner.Leave(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// run
	// done
	// charges: 1
}

package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/ledger"

	_ "modernc.org/sqlite" // the driver of the charges table
)

// The application's own table, in the ledger's file. There is no unique constraint on purpose.
const (
	createCharges = "CREATE TABLE charges (broker TEXT NOT NULL, order_id TEXT NOT NULL, cents INTEGER NOT NULL)"
	insertCharge  = "INSERT INTO charges (broker, order_id, cents) VALUES (?, ?, ?)"
)

func openCharges(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, createCharges); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// countCharges returns how often each order of a broker was charged.
func countCharges(ctx context.Context, db *sql.DB, broker string) (map[string]int, error) {
	rows, err := db.QueryContext(ctx, "SELECT order_id, count(*) FROM charges WHERE broker = ? GROUP BY order_id", broker)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return nil, err
		}
		counts[id] = n
	}
	return counts, rows.Err()
}

// verdict is what the records say of one broker's orders.
type verdict struct {
	once, missing, twice, unknown int
}

func (v verdict) ok() bool { return v.missing == 0 && v.twice == 0 && v.unknown == 0 }

// audit compares what was sent with what was charged.
func audit(orders map[string]message, counts map[string]int) verdict {
	var v verdict
	for id := range orders {
		switch counts[id] {
		case 0:
			v.missing++
		case 1:
			v.once++
		default:
			v.twice++
		}
	}
	for id := range counts {
		if _, sent := orders[id]; !sent {
			v.unknown++
		}
	}
	return v
}

// getter is the part of a store that looks one message up.
type getter interface {
	Get(ctx context.Context, key ledger.Key) (ledger.Record, error)
}

// auditArchive counts the bad messages that are failed in the ledger, each with its whole body in the archive; the error
// says why one is not.
func auditArchive(ctx context.Context, l getter, scope string, bad map[string]message) (failed int, err error) {
	for id, m := range bad {
		got, getErr := l.Get(ctx, ledger.Key{Scope: scope, ID: []byte(id)})
		switch {
		case getErr != nil:
			err = fmt.Errorf("%s: %w", id, getErr)
		case got.State != ledger.Failed || len(got.Archived) != 1:
			err = fmt.Errorf("%s: %v, with %d archived deliveries", id, got.State, len(got.Archived))
		case !bytes.Equal(got.Archived[0].Body, m.body):
			err = fmt.Errorf("%s: the archive holds another body", id)
		default:
			failed++
		}
	}
	return failed, err
}

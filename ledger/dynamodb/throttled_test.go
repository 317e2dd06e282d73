package dynamodb_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// One of three messages was throttled until the call's time was over. The other two had been written, and had no answer: they were in
// doubt, and whoever had called with them waited for ten seconds.
func TestPitfall215_ThrottledAmongOthers(t *testing.T) {
	t.Parallel()
	var calm atomic.Bool
	c, way, err := connect(t.Context(), services.DynamoDB(t), dynamodbtest.Options{Choose: func(c dynamodbtest.Call) (f dynamodbtest.Fault) {
		if c.Operation == "BatchExecuteStatement" && !calm.Load() {
			f.Parts = []int{c.Parts / 2} // the second of three, then the one that is left
		}
		return f
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	calm.Store(true)
	table := fresh(t, c)
	o, err := dynamodb.New(c, table, nil).Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	warm := entriesOf(table, "warm", 1)
	settleAll(t, o, warm)

	calm.Store(false)
	entries := entriesOf(table, "message", 3)
	claims, err := o.Claim(t.Context(), entries)
	if err != nil || claims[0].Answer != ledger.Run || claims[1].Answer != ledger.Busy || claims[2].Answer != ledger.Run {
		t.Fatalf("claims: %+v, %v; want the second alone to be busy", claims, err)
	}
	calm.Store(true)
	again, err := o.Claim(t.Context(), entries[1:2])
	if err != nil || again[0].Answer != ledger.Run || again[0].Attempt != 1 {
		t.Fatalf("the throttled claim again: %+v, %v; want the first attempt", again, err)
	}
	claims[1] = again[0]

	calm.Store(false)
	done := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		done[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	}
	errs, err := o.Settle(t.Context(), done)
	if err != nil || errs[0] != nil || !errors.Is(errs[1], dynamodb.ErrThrottled) || ledger.Unknown(errs[1]) || errs[2] != nil {
		t.Fatalf("settlements: %v, %v; want the second alone to be throttled", errs, err)
	}
	calm.Store(true)
	if errs, err := o.Settle(t.Context(), done); err != nil || errors.Join(errs...) != nil {
		t.Errorf("settlements again: %v, %v", errs, err)
	}
}

package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
	"github.com/ackledger/ackledger/ledger/ledgertest"
)

const (
	stormLease    = 2 * time.Second
	stormMessages = 300
	stormWorkers  = 6
)

// storm is workers on one table, each with its own process' ledger and its own way to the server, on which one request of ten is
// throttled, and others are lost, answered by nobody, late past the lease, or delivered twice.
type storm struct {
	broken   func(format string, args ...any) // tells of a promise that was
	table    string
	endpoint string
	entries  []ledger.Entry
	running  [stormMessages]atomic.Int64 // the highest token that began
	finished [stormMessages]atomic.Bool
	left     atomic.Int64
}

var stormShares = dynamodbtest.Shares{Throttled: 0.1, Parts: 0.05, Conflicts: 0.02, RequestLost: 0.02, AnswerLost: 0.03, Late: 0.01, Twice: 0.02,
	LateBy: 2 * stormLease, TwiceBy: stormLease}

// TestStorm holds the promises where the way to the table is bad and workers freeze: nothing is lost, an effect that commits
// with its message is there once, and tokens only grow.
func TestStorm(t *testing.T) {
	t.Parallel()
	c := client(t)
	s := newStorm(fresh(t, c), services.DynamoDB(t), t.Errorf)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for n := range stormWorkers {
		all.Go(func() { s.work(ctx, uint64(n)) })
	}
	all.Wait()
	if ctx.Err() != nil {
		t.Fatalf("%d of %d messages are left", s.left.Load(), stormMessages)
	}
	s.check(t, storeOf(c, s.table, s.endpoint))
}

func newStorm(table, endpoint string, broken func(string, ...any)) *storm {
	s := &storm{broken: broken, table: table, endpoint: endpoint}
	s.left.Store(stormMessages)
	for i := range stormMessages {
		id := fmt.Appendf(nil, "message %d", i)
		s.entries = append(s.entries, ledger.Entry{Key: ledger.Key{Scope: s.table, ID: id}, Delivery: id, Window: time.Hour,
			Fingerprint: ledger.Fingerprint(fmt.Appendf(nil, "fingerprint %04d", i))})
	}
	return s
}

// check looks at what is there in the end.
func (s *storm) check(t *testing.T, clean ledgertest.Store) {
	t.Helper()
	done, err := clean.Effects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.entries {
		r, err := clean.Get(t.Context(), s.entries[i].Key)
		if err != nil || r.State != ledger.Succeeded {
			t.Errorf("message %d: %v, %v", i, r.State, err)
		}
		if n := done[string(s.entries[i].Key.ID)]; n != 1 {
			t.Errorf("message %d: its effect is there %d times", i, n)
		}
		if top := s.running[i].Load(); r.Token < uint64(top) {
			t.Errorf("message %d: token %d, and %d ran", i, r.Token, top)
		}
	}
}

// work is one worker: sessions, until nothing is left.
func (s *storm) work(ctx context.Context, seed uint64) {
	c, way, err := connect(ctx, s.endpoint, dynamodbtest.Options{Seed: seed, Shares: stormShares})
	if err != nil {
		s.broken("%v", err)
		return
	}
	defer way.Close()
	l, random := dynamodb.New(c, s.table, nil), rand.New(rand.NewPCG(seed, 7))
	for s.left.Load() > 0 && ctx.Err() == nil {
		o, err := l.Join(ctx, stormLease)
		if err != nil {
			continue
		}
		s.session(ctx, o, random)
	}
}

// session is one life of an owner. It ends by leaving, by a freeze that is longer than its lease, or by its loss.
func (s *storm) session(ctx context.Context, o ledger.Owner, random *rand.Rand) {
	live, end := context.WithCancel(ctx)
	defer end()
	var beats sync.WaitGroup
	frozen := atomic.Bool{}
	beats.Go(func() {
		tick := time.NewTicker(stormLease / 6)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-live.Done():
				return
			}
			if frozen.Load() {
				continue
			}
			if _, err := o.Beat(live); ledger.IsLost(err) {
				end()
			}
		}
	})
	for turn := range 20 {
		if live.Err() != nil || s.left.Load() == 0 {
			break
		}
		s.turn(live, o, random)
		if turn == 10 && random.IntN(4) == 0 { // its machine stalls, and goes on where it was
			frozen.Store(true)
			select {
			case <-time.After(stormLease + stormLease/2):
			case <-ctx.Done():
			}
			frozen.Store(false)
		}
	}
	end()
	beats.Wait()
	if random.IntN(2) == 0 {
		_ = o.Leave(ctx) // an owner that does not is declared dead
	}
}

// turn claims some messages and settles what is to run.
func (s *storm) turn(ctx context.Context, o ledger.Owner, random *rand.Rand) {
	var picked []int
	var entries []ledger.Entry
	for _, i := range random.Perm(stormMessages)[:12] {
		if !s.finished[i].Load() {
			e := s.entries[i]
			e.Solo = true // what crashed is claimed as it comes
			picked, entries = append(picked, i), append(entries, e)
		}
	}
	if len(entries) == 0 {
		return
	}
	claims, err := o.Claim(ctx, entries)
	if err != nil {
		return
	}
	for n, c := range claims {
		i := picked[n]
		switch c.Answer {
		case ledger.Done:
			s.finish(i)
		case ledger.Run, ledger.Spent:
			s.run(ctx, o, i, c, random)
		}
	}
}

func (s *storm) finish(i int) {
	if s.finished[i].CompareAndSwap(false, true) {
		s.left.Add(-1)
	}
}

// run is one attempt: its effect commits with the message, or it fails and is released.
func (s *storm) run(ctx context.Context, o ledger.Owner, i int, c ledger.Claim, random *rand.Rand) {
	token := int64(c.Ticket.Token())
	for top := s.running[i].Load(); ; top = s.running[i].Load() {
		if top == token {
			s.broken("message %d runs twice with token %d", i, token)
		}
		if top >= token || s.running[i].CompareAndSwap(top, token) {
			break
		}
	}
	if random.IntN(5) == 0 {
		_, _ = o.Settle(ctx, []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Release}}) // whatever comes of it
		return
	}
	done := s.table + effects
	err := dynamodb.InTx(ledger.WithAttempt(ctx, ledger.NewAttempt(o, c.Ticket)), func(_ context.Context, tx *dynamodb.Tx) error {
		tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &done, Item: map[string]types.AttributeValue{
			"id": &types.AttributeValueMemberS{Value: string(s.entries[i].Key.ID)}, "n": &types.AttributeValueMemberS{Value: fmt.Sprint(random.Uint64())}}}})
		return nil
	})
	if err == nil {
		s.finish(i)
	} else if condition := (*dynamodb.ConditionError)(nil); errors.As(err, &condition) {
		s.broken("message %d: %v", i, err)
	}
}

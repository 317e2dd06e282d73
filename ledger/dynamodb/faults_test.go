package dynamodb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
	"github.com/ackledger/ackledger/ledger/ledgertest"
)

// badWay is one message that is claimed, and whose transactions go as fault says.
type badWay struct {
	t      *testing.T
	way    *dynamodbtest.Transport
	faulty *dynamodb.Ledger
	clean  ledgertest.Store
	entry  ledger.Entry
	owner  ledger.Owner
	table  string
	claim  ledger.Claim
}

func onABadWay(t *testing.T, fault func(n int) dynamodbtest.Fault) *badWay {
	t.Helper()
	return onTheWay(t, dynamodbtest.Options{Choose: func(c dynamodbtest.Call) dynamodbtest.Fault {
		if c.Operation != "TransactWriteItems" {
			return dynamodbtest.Fault{}
		}
		return fault(c.N)
	}})
}

func onTheWay(t *testing.T, options dynamodbtest.Options) *badWay {
	t.Helper()
	c := client(t)
	b := &badWay{t: t, table: fresh(t, c)}
	b.clean = storeOf(c, b.table, services.DynamoDB(t))
	faulty, way, err := connect(t.Context(), services.DynamoDB(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	b.way = way
	b.faulty = dynamodb.New(faulty, b.table, nil)
	if b.owner, err = b.faulty.Join(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	b.entry = entriesOf(b.table, "message", 1)[0]
	claims, err := b.owner.Claim(t.Context(), []ledger.Entry{b.entry})
	if err != nil || claims[0].Answer != ledger.Run {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	b.claim = claims[0]
	return b
}

// inTx commits an effect with the message, and what else there is.
func (b *badWay) inTx(more ...types.TransactWriteItem) (ledger.AttemptState, error) {
	done := b.table + effects
	a := ledger.NewAttempt(b.owner, b.claim.Ticket)
	err := dynamodb.InTx(ledger.WithAttempt(b.t.Context(), a), func(_ context.Context, tx *dynamodb.Tx) error {
		tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &done, Item: map[string]types.AttributeValue{
			"id": &types.AttributeValueMemberS{Value: "effect"}, "n": &types.AttributeValueMemberS{Value: "1"}}}})
		tx.Add(more...)
		return nil
	})
	state, _ := a.State()
	return state, err
}

// want looks at the message and its effect, once what is late has arrived.
func (b *badWay) want(state ledger.State, times int) {
	b.t.Helper()
	b.way.Wait()
	r, err := b.clean.Get(b.t.Context(), b.entry.Key)
	if err != nil {
		b.t.Fatal(err)
	}
	done, err := b.clean.Effects(b.t.Context())
	if err != nil || r.State != state || done["effect"] != times {
		b.t.Errorf("%v with %d effects, %v; want %v with %d", r.State, done["effect"], err, state, times)
	}
}

// A transaction whose answer was lost is sent again as it was, and is known to have committed.
func TestAnswerOfACommitLost(t *testing.T) {
	t.Parallel()
	b := onABadWay(t, func(n int) dynamodbtest.Fault {
		if n == 0 {
			return dynamodbtest.Fault{Kind: dynamodbtest.AnswerLost}
		}
		return dynamodbtest.Fault{}
	})
	if state, err := b.inTx(); err != nil || state != ledger.AttemptSucceeded {
		t.Errorf("InTx: %v, %v", state, err)
	}
	b.want(ledger.Succeeded, 1)
}

// A transaction whose answer was lost, and which cannot be sent again, is not said to be rolled back: it is looked for.
func TestAnswerOfACommitLostAndThrottled(t *testing.T) {
	t.Parallel()
	b := onABadWay(t, func(n int) dynamodbtest.Fault {
		if n == 0 {
			return dynamodbtest.Fault{Kind: dynamodbtest.AnswerLost}
		}
		return dynamodbtest.Fault{Kind: dynamodbtest.Refused}
	})
	if state, err := b.inTx(); err != nil || state != ledger.AttemptSucceeded {
		t.Errorf("InTx: %v, %v", state, err)
	}
	b.want(ledger.Succeeded, 1)
}

// A transaction that is said to be rolled back changes nothing when it arrives after all.
func TestCommitArrivesLate(t *testing.T) {
	t.Parallel()
	b := onABadWay(t, func(n int) dynamodbtest.Fault {
		if n == 0 {
			return dynamodbtest.Fault{Kind: dynamodbtest.Late, Wait: 14 * time.Second}
		}
		return dynamodbtest.Fault{Kind: dynamodbtest.RequestLost}
	})
	if state, err := b.inTx(); err == nil || ledger.Unknown(err) || state != ledger.AttemptOpen {
		t.Errorf("InTx: %v, %v; want it rolled back", state, err)
	}
	b.want(ledger.Pending, 0)
}

// cutOff carries requests, and cuts the first transaction off on its way: it arrives when it is told to.
type cutOff struct {
	http.RoundTripper
	once sync.Once
	late *http.Request
}

func (c *cutOff) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	cut := false
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "TransactWriteItems") {
		c.once.Do(func() { cut = true })
	}
	if !cut {
		return c.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.late = r.Clone(context.WithoutCancel(r.Context()))
	c.late.Body = io.NopCloser(bytes.NewReader(body))
	return nil, io.ErrUnexpectedEOF
}

// A commit broke off, and was sent again. A condition of the handler's was not met then, so nothing was written, said InTx. Then the first
// request arrived: by now the condition was met, and it was carried out.
func TestPitfall207_ConditionBesideALateCommit(t *testing.T) {
	t.Parallel()
	cut := &cutOff{RoundTripper: http.DefaultTransport}
	b := onTheWay(t, dynamodbtest.Options{Base: cut})
	done, exists := b.table+effects, "attribute_exists(id)"
	open := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "open"}, "n": &types.AttributeValueMemberS{Value: "1"}}
	state, err := b.inTx(types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &done, Key: open, ConditionExpression: &exists}})
	if refused, is := errors.AsType[*dynamodb.ConditionError](err); !is || refused.Index != 1 || state != ledger.AttemptOpen {
		t.Fatalf("InTx: %v, %v; want the condition not met", state, err)
	}
	if _, err := client(t).PutItem(t.Context(), &sdk.PutItemInput{TableName: &done, Item: open}); err != nil {
		t.Fatal(err)
	}
	answer, err := cut.RoundTrip(cut.late)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	b.want(ledger.Pending, 0)
}

// An owner whose lease is over by its own clock claims nothing, before anybody has declared it dead.
func TestClaimAfterTheOwnLease(t *testing.T) {
	t.Parallel()
	c := client(t)
	table := fresh(t, c)
	const lease = 50 * time.Millisecond
	o, err := dynamodb.New(c, table, nil).Join(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	over := time.NewTimer(2 * lease)
	defer over.Stop()
	<-over.C
	if claims, err := o.Claim(t.Context(), entriesOf(table, "message", 1)); !ledger.IsLost(err) {
		t.Errorf("claim: %+v, %v; want ErrLost", claims, err)
	}
}

// What the service refuses for good is told from what it does not answer, in each call of a worker; where it says that it did
// nothing, nothing was done.
func TestWhatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[dynamodbtest.Fault]
	now.Store(&dynamodbtest.Fault{})
	b := onTheWay(t, dynamodbtest.Options{Choose: func(dynamodbtest.Call) dynamodbtest.Fault { return *now.Load() }})
	claims := 0
	calls := map[string]func(context.Context) error{
		"join": func(ctx context.Context) error { _, err := b.faulty.Join(ctx, time.Minute); return err },
		"beat": func(ctx context.Context) error { _, err := b.owner.Beat(ctx); return err },
		"claim": func(ctx context.Context) error {
			claims++ // one that is not answered would keep the next one of the same message waiting
			_, err := b.owner.Claim(ctx, entriesOf(b.table, fmt.Sprint("another", claims), 1))
			return err
		},
		"settle": func(ctx context.Context) error {
			_, err := b.owner.Settle(ctx, []ledger.Settlement{{Ticket: b.claim.Ticket, Kind: ledger.Succeed}})
			return err
		},
		"leave": func(ctx context.Context) error { return b.owner.Leave(ctx) },
	}
	for name, c := range map[string]struct {
		fault             dynamodbtest.Fault
		refused, unusable bool
	}{
		"not a request of its own": {dynamodbtest.Fault{Kind: dynamodbtest.Refused, Code: "ValidationException"}, true, false},
		"no rights":                {dynamodbtest.Fault{Kind: dynamodbtest.Refused, Code: "AccessDeniedException"}, true, true},
		"no table":                 {dynamodbtest.Fault{Kind: dynamodbtest.Refused, Code: "ResourceNotFoundException"}, true, true},
		"no answer":                {dynamodbtest.Fault{Kind: dynamodbtest.RequestLost}, false, false},
		"trouble of its own":       {dynamodbtest.Fault{Kind: dynamodbtest.Refused, Code: "InternalServerError"}, false, false},
	} {
		now.Store(&c.fault)
		for call, do := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := do(ctx)
			cancel()
			if err == nil || ledger.Refused(err) != c.refused || ledger.Unusable(err) != c.unusable || c.refused && ledger.Unknown(err) {
				t.Errorf("%s: %s: refused %t, unusable %t, unknown %t: %v", name, call, ledger.Refused(err), ledger.Unusable(err), ledger.Unknown(err), err)
			}
		}
	}
	now.Store(&dynamodbtest.Fault{})
	b.want(ledger.Pending, 0)
}

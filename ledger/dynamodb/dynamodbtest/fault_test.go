package dynamodbtest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

func TestRefusedRequestsDoNotReachTheServer(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"", "ThrottlingException"},
		{dynamodbtest.CodeThrottled, "ThrottlingException"},
		{dynamodbtest.CodeProvisioned, "ProvisionedThroughputExceededException"},
		{dynamodbtest.CodeConflict, "TransactionConflictException"},
		{"InternalServerError", "InternalServerError"},
	} {
		u := &upstream{}
		client, faulty := through(t, dynamodbtest.Options{Base: u, Choose: always(dynamodbtest.Fault{Kind: dynamodbtest.Refused, Code: c.code})})
		if got := code(get(t.Context(), client)); got != c.want {
			t.Errorf("%q: got %s, want %s", c.code, got, c.want)
		}
		usage := faulty.Usage()
		if u.count() != 0 || usage.Calls["GetItem"] != 1 || usage.Delivered["GetItem"] != 0 || usage.Faults[dynamodbtest.Refused] != 1 {
			t.Errorf("%q: the server saw %d, usage %+v", c.code, u.count(), usage)
		}
	}
}

// The SDK has types for what a throttled or contested request is answered with.
func TestRefusalsAreWhatTheSDKKnows(t *testing.T) {
	client, _ := through(t, dynamodbtest.Options{Base: &upstream{}, Choose: func(c dynamodbtest.Call) dynamodbtest.Fault {
		return dynamodbtest.Fault{Kind: dynamodbtest.Refused, Code: []string{dynamodbtest.CodeProvisioned, dynamodbtest.CodeConflict}[c.N]}
	}})
	if _, ok := errors.AsType[*types.ProvisionedThroughputExceededException](get(t.Context(), client)); !ok {
		t.Error("no *ProvisionedThroughputExceededException")
	}
	if _, ok := errors.AsType[*types.TransactionConflictException](get(t.Context(), client)); !ok {
		t.Error("no *TransactionConflictException")
	}
	key := attributes{"id": text("1")}
	input := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Delete: &types.Delete{TableName: aws.String("t"), Key: key}}, {Delete: &types.Delete{TableName: aws.String("u"), Key: key}},
	}}
	for _, want := range []string{"ProvisionedThroughputExceeded None", "TransactionConflict None"} {
		_, err := client.TransactWriteItems(t.Context(), input)
		canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
		if !ok {
			t.Fatalf("no *TransactionCanceledException: %v", err)
		}
		var reasons []string
		for _, r := range canceled.CancellationReasons {
			reasons = append(reasons, aws.ToString(r.Code))
		}
		if got := strings.Join(reasons, " "); got != want {
			t.Errorf("the reasons are %s, want %s", got, want)
		}
	}
}

func TestLostRequestsAndAnswers(t *testing.T) {
	for kind, carriedOut := range map[dynamodbtest.Kind]int{dynamodbtest.RequestLost: 0, dynamodbtest.AnswerLost: 1} {
		u := &upstream{}
		client, faulty := through(t, dynamodbtest.Options{Base: u, Choose: always(dynamodbtest.Fault{Kind: kind})})
		if err := get(t.Context(), client); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v: want a cut connection, got %v", kind, err)
		}
		if u.count() != carriedOut || faulty.Usage().Delivered["GetItem"] != carriedOut {
			t.Errorf("%v: carried out %d times, want %d", kind, u.count(), carriedOut)
		}
	}
}

// An answer is lost for sure only if the request is carried out for sure, whatever its client does meanwhile.
func TestALostAnswersRequestOutlivesItsClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	u := &upstream{}
	client, _ := through(t, dynamodbtest.Options{Base: u, Choose: func(dynamodbtest.Call) dynamodbtest.Fault {
		cancel()
		return dynamodbtest.Fault{Kind: dynamodbtest.AnswerLost}
	}})
	if err := get(ctx, client); err == nil {
		t.Error("answered")
	}
	if u.count() != 1 || u.requests[0].Context().Err() != nil {
		t.Error("the request was given up")
	}
}

func TestLateRequestsAreDeliveredAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		client, faulty := through(t, dynamodbtest.Options{Base: u, Choose: always(dynamodbtest.Fault{Kind: dynamodbtest.Late, Wait: time.Minute})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := get(ctx, client); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the client's deadline, got %v", err)
		}
		if u.count() != 0 {
			t.Error("delivered before its time")
		}
		begin := time.Now()
		faulty.Wait()
		if u.count() != 1 || time.Since(begin) != 59*time.Second {
			t.Errorf("delivered %d times after %v", u.count(), time.Since(begin))
		}
		begin = time.Now()
		if err := get(t.Context(), client); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("who waits is answered: %v after %v", err, time.Since(begin))
		}
	})
}

func TestRequestsThatComeTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		client, faulty := through(t, dynamodbtest.Options{Base: u, Choose: always(dynamodbtest.Fault{Kind: dynamodbtest.Twice, Wait: time.Minute})})
		if err := get(t.Context(), client); err != nil || u.count() != 1 {
			t.Errorf("the first time: %v, carried out %d times", err, u.count())
		}
		faulty.Wait()
		if u.count() != 2 || u.got[0] != u.got[1] || faulty.Usage().Delivered["GetItem"] != 2 || faulty.Usage().Calls["GetItem"] != 1 {
			t.Errorf("carried out: %q", u.got)
		}
	})
}

func TestCloseThrowsAwayWhatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		client, faulty := through(t, dynamodbtest.Options{Base: u, Choose: always(dynamodbtest.Fault{Kind: dynamodbtest.Late, Wait: time.Hour})})
		came := make(chan error)
		go func() { came <- get(t.Context(), client) }()
		synctest.Wait()
		faulty.Close()
		faulty.Close()
		if err := <-came; !errors.Is(err, syscall.ECONNRESET) || u.count() != 0 {
			t.Errorf("got %v, carried out %d times", err, u.count())
		}
	})
}

// The nth request of an operation meets the same fault with the same seed, whatever comes between; as often as the share says.
func TestSharesAreDrawnFromTheSeed(t *testing.T) {
	shares := dynamodbtest.Shares{Throttled: 0.1, RequestLost: 0.05, AnswerLost: 0.05}
	const n = 2000
	play := func(seed uint64, between bool) (got []string) {
		_, faulty := through(t, dynamodbtest.Options{Base: &upstream{}, Seed: seed, Shares: shares})
		ask := func(operation string) string {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
			before := faulty.Usage().Delivered[operation]
			a, err := faulty.RoundTrip(r)
			if err != nil {
				return fmt.Sprint("lost ", faulty.Usage().Delivered[operation]-before)
			}
			return fmt.Sprint(a.StatusCode, a.Body.Close())
		}
		for range n {
			if between {
				ask("ListTables")
			}
			got = append(got, ask("GetItem"))
		}
		usage := faulty.Usage()
		for kind, share := range map[dynamodbtest.Kind]float64{dynamodbtest.Refused: 0.1, dynamodbtest.RequestLost: 0.05, dynamodbtest.AnswerLost: 0.05} {
			if off := math.Abs(float64(usage.Faults[kind])/n - share); off > 0.03 {
				t.Errorf("%v: %d of %d, want %g", kind, usage.Faults[kind], n, share)
			}
		}
		if between && usage.Delivered["ListTables"] != n {
			t.Errorf("a fault hit a request about tables: %d of %d came", usage.Delivered["ListTables"], n)
		}
		return got
	}
	first := play(1, false)
	if !slices.Equal(first, play(1, true)) {
		t.Error("the same seed makes other faults")
	}
	if slices.Equal(first, play(2, false)) {
		t.Error("another seed makes the same faults")
	}
}

func TestSharesOutOfBounds(t *testing.T) {
	for _, c := range []struct {
		shares dynamodbtest.Shares
		want   string
	}{
		{dynamodbtest.Shares{Throttled: -0.1}, "Shares.Throttled must be at least 0, got -0.1"},
		{dynamodbtest.Shares{Late: 0.6, Twice: 0.5}, "together must be at most 1, got 1.1"},
		{dynamodbtest.Shares{Parts: 2}, "Shares.Parts must be from 0 to 1, got 2"},
	} {
		if _, err := dynamodbtest.New(dynamodbtest.Options{Shares: c.shares}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
	_, faulty := through(t, dynamodbtest.Options{Base: &upstream{}})
	if err := faulty.Set(dynamodbtest.Shares{Parts: -1}); err == nil {
		t.Error("Set takes a share below 0")
	}
}

func TestSetChangesTheShares(t *testing.T) {
	client, faulty := through(t, dynamodbtest.Options{Base: &upstream{}, Shares: dynamodbtest.Shares{Throttled: 1}})
	if err := get(t.Context(), client); err == nil {
		t.Error("not throttled")
	}
	if err := faulty.Set(dynamodbtest.Shares{}); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), client); err != nil {
		t.Error(err)
	}
}

func TestAnswersStandIn(t *testing.T) {
	u := &upstream{}
	client, faulty := through(t, dynamodbtest.Options{Base: u, Answers: map[string]func([]byte) string{
		"DescribeContinuousBackups": func(body []byte) string {
			if string(body) != `{"TableName":"t"}` {
				t.Errorf("asked %s", body)
			}
			return `{"ContinuousBackupsDescription":{"ContinuousBackupsStatus":"ENABLED"}}`
		},
	}})
	out, err := client.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: aws.String("t")})
	if err != nil || out.ContinuousBackupsDescription.ContinuousBackupsStatus != types.ContinuousBackupsStatusEnabled {
		t.Errorf("got %v, %v", out, err)
	}
	if u.count() != 0 || faulty.Usage().Calls["DescribeContinuousBackups"] != 1 {
		t.Error("it went to the server, or was not counted")
	}
}

package dynamodb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// flushes are as many as an owner has under way.
const flushes = 8

// desk stands for a server that finds each condition met, and holds back requests of a kind until it is told to answer them.
type desk struct {
	mu   sync.Mutex
	hold string // what the statements of requests begin with that are held back; empty: none
	held []request
}

// request is one that is held back.
type request struct {
	statements int
	answer     chan struct{}
}

// Do implements the SDK's HTTPClient.
func (d *desk) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	text := "{}"
	switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation {
	case "UpdateItem": // the next owner's number
		text = `{"Attributes":{"t":{"N":"1"}}}`
	case "BatchExecuteStatement":
		var in struct{ Statements []struct{ Statement string } }
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		if err := d.wait(r.Context(), in.Statements[0].Statement, len(in.Statements)); err != nil {
			return nil, err
		}
		text = `{"Responses":[` + strings.Repeat("{},", len(in.Statements)-1) + `{}]}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Amz-Crc32": {fmt.Sprint(crc32.ChecksumIEEE([]byte(text)))}},
		Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func (d *desk) wait(ctx context.Context, statement string, n int) error {
	d.mu.Lock()
	if d.hold == "" || !strings.HasPrefix(statement, d.hold) {
		d.mu.Unlock()
		return nil
	}
	one := request{n, make(chan struct{})}
	d.held = append(d.held, one)
	d.mu.Unlock()
	select {
	case <-one.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// holds holds requests back from now on.
func (d *desk) holds(statement string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = statement
}

// answer answers the first requests that are held back, and says how many statements each has that is held back then.
func (d *desk) answer(n int) (statements []int) {
	d.mu.Lock()
	for _, one := range d.held[:n] {
		close(one.answer)
	}
	d.held = d.held[n:]
	d.mu.Unlock()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.held {
		statements = append(statements, one.statements)
	}
	return statements
}

// atDesk is an owner whose scope is known.
func atDesk(t *testing.T) (*desk, ledger.Owner) {
	t.Helper()
	d := &desk{}
	c, err := dynamodbtest.Connect(t.Context(), "http://desk", func(o *sdk.Options) { o.HTTPClient = d })
	if err != nil {
		t.Fatal(err)
	}
	o, err := dynamodb.New(c, "desk", nil).Join(t.Context(), time.Hour)
	if err == nil {
		_, err = o.Claim(t.Context(), entriesOf("scope", "first", 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, o
}

// callers claim a message each, all at once. What they are told is there once they have returned.
func callers(ctx context.Context, o ledger.Owner, name string, n int) (claims []ledger.Claim, errs []error) {
	claims, errs = make([]ledger.Claim, n), make([]error, n)
	for i, e := range entriesOf("scope", name, n) {
		go func() {
			got, err := o.Claim(ctx, []ledger.Entry{e})
			if errs[i] = err; err == nil {
				claims[i] = got[0]
			}
		}()
	}
	synctest.Wait()
	return claims, errs
}

// Callers at once share requests of 25. The first ones wait for nobody, and nobody waits for a clock.
func TestCallersShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, o := atDesk(t)
		began := time.Now()
		d.holds("INSERT")
		claims, errs := callers(t.Context(), o, "message", flushes+40)
		if got := d.answer(0); !slices.Equal(got, slices.Repeat([]int{1}, flushes)) {
			t.Fatalf("claims under way: %v; want %d alone", got, flushes)
		}
		got := d.answer(1)
		if slices.Sort(got); !slices.Equal(got, append(slices.Repeat([]int{1}, flushes-1), 15, 25)) {
			t.Fatalf("claims under way behind the first answer: %v; want the other %d, and 25 and 15", got, flushes-1)
		}
		d.answer(len(got))
		for i, c := range claims {
			if errs[i] != nil || c.Answer != ledger.Run {
				t.Fatalf("claim %d: %+v, %v", i, c, errs[i])
			}
		}
		d.holds("UPDATE")
		for i, c := range claims {
			go func() {
				answers, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Succeed}})
				errs[i] = errors.Join(append(answers, err)...)
			}()
		}
		synctest.Wait()
		d.answer(1)
		got = d.answer(0)
		if slices.Sort(got); !slices.Equal(got, append(slices.Repeat([]int{1}, flushes-1), 15, 25)) {
			t.Fatalf("settlements under way: %v; want %d alone, and 25 and 15", got, flushes-1)
		}
		d.answer(len(got))
		if err := errors.Join(errs...); err != nil || time.Since(began) != 0 {
			t.Errorf("settled after %v: %v", time.Since(began), err)
		}
	})
}

// A caller's time is its own: one whose time is over before its turn has changed nothing, one whose message is under way does not
// know, and the others are answered.
func TestCallersDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, o := atDesk(t)
		d.holds("INSERT")
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, sent := callers(brief, o, "sent", 1)
		others, otherErrs := callers(t.Context(), o, "other", flushes)
		_, waiting := callers(brief, o, "waiting", 1)
		<-brief.Done()
		synctest.Wait()
		if err := sent[0]; !errors.Is(err, context.DeadlineExceeded) || !ledger.Unknown(err) {
			t.Errorf("a claim under way: %v; want it unknown", err)
		}
		if err := waiting[0]; !errors.Is(err, context.DeadlineExceeded) || ledger.Unknown(err) {
			t.Errorf("a claim that was not sent: %v; want it known", err)
		}
		if got := d.answer(flushes); !slices.Equal(got, []int{1}) {
			t.Errorf("claims that went last: %v; want one without whom nobody waits for", got)
		}
		d.answer(1)
		for i, c := range others {
			if otherErrs[i] != nil || c.Answer != ledger.Run {
				t.Errorf("claim %d of the others: %+v, %v", i, c, otherErrs[i])
			}
		}
	})
}

// An owner that leaves claims nothing that waits, and holds nobody.
func TestLeaveWhileCallersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, o := atDesk(t)
		d.holds("INSERT")
		_, errs := callers(t.Context(), o, "message", flushes+3)
		if err := o.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.answer(flushes); len(got) != 0 {
			t.Errorf("requests with %v statements went out after the end", got)
		}
		for i, err := range errs {
			if !ledger.IsLost(err) {
				t.Errorf("claim %d: %v; want ErrLost", i, err)
			}
		}
	})
}

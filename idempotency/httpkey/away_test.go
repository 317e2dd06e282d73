package httpkey_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// away is a ledger that does not answer: claims and beats fail, but not before after is closed.
type away struct {
	ledger.Ledger
	after <-chan struct{} // nil: at once
}

type awayOwner struct {
	ledger.Owner
	away
}

func (a away) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := a.Ledger.Join(ctx, lease)
	return awayOwner{o, a}, err
}

func (a away) fail() error {
	if a.after != nil {
		<-a.after
	}
	return ledger.MarkUnavailable(errors.New("it does not answer"))
}

func (o awayOwner) Claim(context.Context, []ledger.Entry) ([]ledger.Claim, error) {
	return nil, o.fail()
}

func (o awayOwner) Beat(context.Context) (time.Duration, error) { return 0, o.fail() }

// learns asks once, and waits until the runner knows that its ledger is away. The first request may be answered before.
func (e *env) learns() {
	e.Helper()
	e.ask(asked{key: "first"})
	until(e.T, func() bool { return !e.runner.Health().Ready })
}

// Where the ledger does not answer nothing is done, or everything, by name only.
func TestTheLedgerIsAway(t *testing.T) {
	for _, pass := range []bool{false, true} {
		t.Run(strconv.FormatBool(pass), func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				h, runs := counted(http.StatusCreated)
				e := serveOn(t, away{Ledger: memory.New()}, idempotency.Options{Wait: time.Millisecond}, httpkey.Options{WithoutLedger: pass, RetryAfter: 3 * time.Second}, h, http2)
				e.learns()
				before := runs.Load() // the first one, if it was told in time that the ledger is away
				a := e.ask(asked{key: "k", body: "b"})
				if pass && (a.status != http.StatusCreated || a.body != fmt.Sprintf("run %d of %q", before+1, "b") || a.replayed()) ||
					!pass && (a.status != http.StatusServiceUnavailable || a.problem() != httpkey.Unavailable || a.header.Get("Retry-After") != "3" || runs.Load() != 0) {
					t.Errorf("%+v after %d runs", a, runs.Load())
				}
			})
		})
	}
}

// A request whose turn does not come in time is to be asked for again, and does not run unprotected: the ledger may be there.
func TestItsTurnDoesNotCome(t *testing.T) {
	for _, pass := range []bool{false, true} {
		t.Run(strconv.FormatBool(pass), func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				h, runs := counted(http.StatusCreated)
				after := make(chan struct{})
				defer close(after)
				e := serveOn(t, away{memory.New(), after}, idempotency.Options{Wait: time.Millisecond}, httpkey.Options{WithoutLedger: pass, RetryAfter: 3 * time.Second}, h, http2)
				a := e.ask(asked{key: "k", body: "b"})
				if a.status != http.StatusServiceUnavailable || a.problem() != httpkey.Unavailable || a.header.Get("Retry-After") != "3" || runs.Load() != 0 {
					t.Errorf("%+v after %d runs", a, runs.Load())
				}
			})
		})
	}
}

package cases

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
)

// Names of the values of requests.
const (
	requestRate = "requests/s"
	replayRate  = "replays/s" // of the same requests once more
)

const (
	clients       = 64
	requestGroup  = "requests, 64 clients"
	promptGroup   = "requests at 500/s"
	promptSecond  = 500
	answerStatus  = 201
	answerType    = "application/json"
	oursRequests  = "package idempotency on the PostgreSQL ledger, default settings; the body of 200 B is compared"
	readFirstNote = "the same with Options.Filter: idempotency.ReadFirst"
)

var (
	answerBody  = []byte(`{"payment":"8e03978e-40d5-43e8-bc93-6894a57f9324","state":"done"}`)
	requestBody = bytes.Repeat([]byte("0123456789"), 20)
)

func wantAnswer(status int, body []byte) error {
	if status != answerStatus || !bytes.Equal(body, answerBody) {
		return fmt.Errorf("the answer is %d with %d bytes, want %d with %d", status, len(body), answerStatus, len(answerBody))
	}
	return nil
}

func requestCases() []suite.Case {
	n, steady := suite.Size{Full: 40_000, Quick: 6000}, suite.Size{Full: 10_000, Quick: 1000, Smoke: 100}
	readFirst := opensRunner(idempotency.Options{Filter: idempotency.ReadFirst})
	return []suite.Case{
		{Group: requestGroup, Name: "by hand", Main: requestRate, N: n, Note: "a function that does nothing; " + byHandNote, Run: firstAndAgain(openByHand)},
		{Group: requestGroup, Name: "ours", Main: requestRate, N: n, Note: oursRequests, Run: firstAndAgain(openRunner)},
		{Group: requestGroup, Name: "ours, ReadFirst", Main: requestRate, N: n, Note: readFirstNote, Run: firstAndAgain(readFirst)},
		{Group: promptGroup, Name: "by hand", Main: suite.P50, N: steady, Note: "two commits, timed from when the request was due; " + byHandNote, Run: promptly(openByHand)},
		{Group: promptGroup, Name: "ours", Main: suite.P50, N: steady, Note: oursRequests, Run: promptly(openRunner)},
		{Group: promptGroup, Name: "ours, ReadFirst", Main: suite.P50, N: steady, Note: readFirstNote, Run: promptly(readFirst)},
	}
}

// opens makes a shop of a run.
type opens func(context.Context, *suite.Run) (*shop, error)

// openRunner is ours with default settings.
func openRunner(ctx context.Context, r *suite.Run) (*shop, error) {
	return opensRunner(idempotency.Options{})(ctx, r)
}

func opensRunner(o idempotency.Options) opens {
	return func(ctx context.Context, r *suite.Run) (*shop, error) {
		runner, schema, end, err := freshRunner(ctx, r, o)
		if err != nil {
			return nil, err
		}
		return &shop{once: onceBy(runner), step: stepOf, schema: schema, end: end}, nil
	}
}

// freshRunner is a runner that has begun, on a ledger of its own. The function ends both; the run's end does, too.
func freshRunner(ctx context.Context, r *suite.Run, o idempotency.Options) (runner *idempotency.Runner, schema string, end func() error, err error) {
	l, err := freshRows(ctx, r, 1)
	if err != nil {
		return nil, "", nil, err
	}
	if runner, err = idempotency.New(l, o); err != nil {
		return nil, "", nil, err
	}
	stop := running(ctx, runner)
	end = sync.OnceValue(func() error {
		err := stop()
		l.Close()
		l.pool.Close()
		return err
	})
	r.Cleanup(end)
	return runner, l.schema, end, until(ctx, func() (bool, error) { return runner.Health().Ready, nil })
}

// running runs a worker until the function that it returns is called.
func running(ctx context.Context, w consumer.Worker) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// until asks every few milliseconds.
func until(ctx context.Context, ask func() (bool, error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// onceBy is what a runner does.
func onceBy(runner *idempotency.Runner) once {
	return func(ctx context.Context, key string, f func(context.Context) error) (bool, error) {
		q := idempotency.Request{Scope: "payments", Key: key, Body: requestBody}
		out, err := runner.Do(ctx, q, func(ctx context.Context) (idempotency.Result, error) {
			return idempotency.Result{Status: answerStatus, MediaType: answerType, Body: answerBody}, f(ctx)
		})
		if err != nil {
			return false, err
		}
		return out.Replayed, wantAnswer(out.Result.Status, out.Result.Body)
	}
}

// stepOf is a step of ours.
func stepOf(ctx context.Context, key, name string) error {
	_, err := consumer.Step(ctx, name, func(context.Context, string) (string, error) { return key + ":" + name, nil })
	return err
}

func nothing(context.Context) error { return nil }

// firstAndAgain measures new requests, and then each of them once more.
func firstAndAgain(open opens) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		s, err := open(ctx, r)
		if err != nil {
			return nil, err
		}
		return askTwice(ctx, r.N, func(ctx context.Context, key string) (bool, error) { return s.once(ctx, key, nothing) })
	}
}

// askTwice has clients ask n new keys, and then the same ones; ask says whether the answer was a stored one.
func askTwice(ctx context.Context, n int, ask func(ctx context.Context, key string) (bool, error)) (suite.Result, error) {
	res := suite.Result{}
	for _, pass := range []struct {
		name  string
		again bool
	}{{requestRate, false}, {replayRate, true}} {
		took, err := byClients(ctx, n, func(ctx context.Context, i int) error {
			stored, err := ask(ctx, requestKey(i))
			if err == nil && stored != pass.again {
				err = fmt.Errorf("the answer is a stored one: %t, want %t", stored, pass.again)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		res[pass.name] = float64(n) / took.Seconds()
	}
	return res, nil
}

// byClients calls do for 0 to n-1 from 64 goroutines, each of which waits for an answer before it asks again.
func byClients(ctx context.Context, n int, do func(ctx context.Context, i int) error) (time.Duration, error) {
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for c := range clients {
		g.Go(func() error {
			for i := c; i < n; i += clients {
				if err := do(ctx, i); err != nil {
					return fmt.Errorf("request %d: %w", i, err)
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return time.Since(begin), err
}

// promptly measures how long new requests take that come at a steady rate.
func promptly(open opens) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		s, err := open(ctx, r)
		if err != nil {
			return nil, err
		}
		return atRate(ctx, r.N, promptSecond, func(i int) error {
			_, err := s.once(ctx, requestKey(i), nothing)
			return err
		})
	}
}

// requestKey is a key as clients choose it: 36 characters.
func requestKey(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

var errBoom = errors.New("boom")

// begin runs a runner until the test ends.
func begin(t *testing.T, l ledger.Ledger, o idempotency.Options) *idempotency.Runner {
	t.Helper()
	r, err := idempotency.New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	until(t, func() bool { return r.Health().Ready })
	return r
}

// until waits for a condition.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited for a minute")
		}
	}
}

// runs counts how often a function that answers so has run.
func answers(text string, err error) (f idempotency.Func, runs *atomic.Int32) {
	runs = &atomic.Int32{}
	return func(context.Context) (idempotency.Result, error) {
		runs.Add(1)
		return idempotency.Result{Status: 201, MediaType: "text/plain", Body: []byte(text)}, err
	}, runs
}

func request(key string) idempotency.Request {
	return idempotency.Request{Scope: "payments", Caller: "shop 7", Key: key, Body: []byte("body")}
}

func TestOnceAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{})
		f, runs := answers("paid", nil)
		first, err := r.Do(t.Context(), request("k"), f)
		if err != nil || first.Replayed || first.Attempt != 1 || string(first.Result.Body) != "paid" {
			t.Fatalf("%+v, %v", first, err)
		}
		again, err := r.Do(t.Context(), request("k"), f)
		if err != nil || !again.Replayed || fmt.Sprint(again.Result) != fmt.Sprint(first.Result) || runs.Load() != 1 {
			t.Errorf("%+v, %v after %d runs", again, err, runs.Load())
		}
		other := request("k")
		other.Body = []byte("another")
		if out, err := r.Do(t.Context(), other, f); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("%+v, %v", out, err)
		}
		for _, q := range []idempotency.Request{{Scope: "refunds", Caller: "shop 7", Key: "k"}, {Scope: "payments", Caller: "shop 8", Key: "k"}, {Scope: "payments", Key: "k"}} {
			if out, err := r.Do(t.Context(), q, f); err != nil || out.Replayed {
				t.Errorf("%+v is the same as the first: %+v, %v", q, out, err)
			}
		}
	})
}

// What fails is run again by the next request, until it fails for good; then it is answered with its error.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{Attempts: 2})
		f, runs := answers("", errBoom)
		do := func(key string, f idempotency.Func) (idempotency.Outcome, error) {
			time.Sleep(time.Second)
			return r.Do(t.Context(), request(key), f)
		}
		if _, err := do("k", f); !errors.Is(err, errBoom) || as[*idempotency.FailedError](err) != nil {
			t.Errorf("the first run: %v", err)
		}
		if out, err := do("k", f); as[*idempotency.FailedError](err) == nil || !errors.Is(err, errBoom) || out.Attempt != 2 {
			t.Errorf("the last run: %+v, %v", out, err)
		}
		if out, err := do("k", f); as[*idempotency.FailedError](err) == nil || err.Error() != "boom" || errors.Is(err, errBoom) || !out.Replayed {
			t.Errorf("again: %+v, %v", out, err)
		}
		if runs.Load() != 2 {
			t.Errorf("%d runs", runs.Load())
		}
		declined, runs := answers("", consumer.Terminal(errors.New("card declined")))
		for range 2 {
			if _, err := do("t", declined); as[*idempotency.FailedError](err) == nil || err.Error() != "card declined" {
				t.Errorf("terminal: %v", err)
			}
		}
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

func as[T error](err error) (none T) {
	e, _ := errors.AsType[T](err)
	return e
}

// What is released is free at once, and its next run is the next claim: nobody asked for it in between.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{Attempts: 1})
		for token := range uint64(5) {
			out, err := r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
				if got := consumer.Token(ctx); got != token+1 {
					t.Errorf("claim %d, want %d", got, token+1)
				}
				return idempotency.Result{}, idempotency.Release(errBoom)
			})
			if !errors.Is(err, errBoom) || err.Error() != "boom" || out.Attempt != 1 {
				t.Errorf("%+v, %v", out, err)
			}
		}
	})
}

// A thousand requests of one key at once: one runs, all get its answer.
func TestOneOfAThousandRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{})
		var runs atomic.Int32
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				out, err := r.Do(t.Context(), request("k"), func(context.Context) (idempotency.Result, error) {
					runs.Add(1)
					time.Sleep(time.Second)
					return idempotency.Result{Body: []byte("once")}, nil
				})
				if err != nil || string(out.Result.Body) != "once" {
					t.Errorf("%+v, %v", out, err)
				}
			})
		}
		all.Wait()
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// A panic is the caller's, and the request is run again.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{})
		func() {
			defer func() {
				if p := recover(); p != "ouch" {
					t.Errorf("panicked with %v", p)
				}
			}()
			_, err := r.Do(t.Context(), request("k"), func(context.Context) (idempotency.Result, error) { panic("ouch") })
			t.Errorf("returned %v", err)
		}()
		time.Sleep(time.Second)
		f, _ := answers("well", nil)
		if out, err := r.Do(t.Context(), request("k"), f); err != nil || out.Attempt != 2 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// Who does not wait for long enough gets an error, and its function does not run later.
func TestWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{Wait: time.Second})
		go func() {
			_, _ = r.Do(t.Context(), request("k"), func(context.Context) (idempotency.Result, error) {
				time.Sleep(5 * time.Second)
				return idempotency.Result{}, errBoom
			})
		}()
		synctest.Wait()
		f, runs := answers("", nil)
		began := time.Now()
		if _, err := r.Do(t.Context(), request("k"), f); !errors.Is(err, idempotency.ErrWaited) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errBoom)
		defer cancel()
		if _, err := r.Do(ctx, request("k"), f); !errors.Is(err, errBoom) {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
		if runs.Load() != 0 {
			t.Errorf("%d runs of who did not wait", runs.Load())
		}
		if out, err := r.Do(t.Context(), request("k"), f); err != nil || out.Attempt != 2 {
			t.Errorf("afterwards: %+v, %v", out, err)
		}
	})
}

// Where nobody waits, a duplicate of what is in progress is refused at once, here and in another process.
func TestRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		here, there := begin(t, l, idempotency.Options{Refuse: true}), begin(t, l, idempotency.Options{Refuse: true, Lease: 10 * time.Second})
		go func() {
			_, _ = here.Do(t.Context(), request("k"), func(context.Context) (idempotency.Result, error) {
				time.Sleep(5 * time.Second)
				return idempotency.Result{}, nil
			})
		}()
		synctest.Wait()
		f, runs := answers("", nil)
		for _, r := range []*idempotency.Runner{here, there} {
			began := time.Now()
			_, err := r.Do(t.Context(), request("k"), f)
			if e := as[*idempotency.InProgressError](err); e == nil || e.Rest <= 0 || e.Rest > 30*time.Second || time.Since(began) > 0 {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		}
		time.Sleep(time.Minute)
		for _, r := range []*idempotency.Runner{here, there} {
			if out, err := r.Do(t.Context(), request("k"), f); err != nil || !out.Replayed {
				t.Errorf("%+v, %v", out, err)
			}
		}
		if runs.Load() != 0 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// Who waits for another process asks often: 50 ms at first, every half second in the end.
func TestWaitsForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		here, there := begin(t, l, idempotency.Options{}), begin(t, l, idempotency.Options{})
		for _, took := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 5 * time.Second} {
			key := took.String()
			go func() {
				_, _ = here.Do(t.Context(), request(key), func(context.Context) (idempotency.Result, error) {
					time.Sleep(took)
					return idempotency.Result{Body: []byte("here")}, nil
				})
			}()
			synctest.Wait()
			began := time.Now()
			f, _ := answers("there", nil)
			out, err := there.Do(t.Context(), request(key), f)
			if err != nil || string(out.Result.Body) != "here" || time.Since(began) > min(2*took+50*time.Millisecond, took+600*time.Millisecond) {
				t.Errorf("%+v, %v after %s", out, err, time.Since(began))
			}
		}
	})
}

// What the ledger refuses by itself is told at once.
func TestTheLedgerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{CheckKey: func(string) error { return nil }})
		f, runs := answers("", nil)
		q := request("k")
		q.Window = 290 * 365 * 24 * time.Hour
		if _, err := r.Do(t.Context(), q, f); as[*ledger.InvalidError](err) == nil || runs.Load() != 0 {
			t.Errorf("%v, %d runs", err, runs.Load())
		}
		full := memory.New().Limits()
		big := func(context.Context) (idempotency.Result, error) {
			runs.Add(1)
			return idempotency.Result{Body: make([]byte, full.Result)}, nil
		}
		for range 2 {
			if _, err := r.Do(t.Context(), request("big"), big); as[*idempotency.FailedError](err) == nil || runs.Load() != 1 {
				t.Errorf("too large: %v, %d runs", err, runs.Load())
			}
		}
	})
}

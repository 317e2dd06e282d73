package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// filterFunc is a filter.
type filterFunc func(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error)

func (f filterFunc) Seen(ctx context.Context, key [ledger.KeySize]byte, window time.Duration) (bool, error) {
	return f(ctx, key, window)
}

// always is a filter that says the same of each request.
func always(seen bool, err error) filterFunc {
	return func(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error) { return seen, err }
}

// remembers is a filter that is right.
func remembers() filterFunc {
	var all sync.Map
	return func(_ context.Context, key [ledger.KeySize]byte, _ time.Duration) (bool, error) {
		_, seen := all.LoadOrStore(key, nil)
		return seen, nil
	}
}

// counting is a ledger that counts how many messages it is asked for.
type counting struct {
	*memory.Ledger
	claims atomic.Int64
}

func (c *counting) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := c.Ledger.Join(ctx, lease)
	return &countingOwner{o, c}, err
}

type countingOwner struct {
	ledger.Owner
	of *counting
}

func (o *countingOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	o.of.claims.Add(int64(len(entries)))
	return o.Owner.Claim(ctx, entries)
}

// A repetition that the filter knows costs no claim; what it says wrongly costs nothing else.
func TestAKnownSuccessIsReadInsteadOfClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			filter idempotency.Filter
			claims int64
		}{
			{"right", remembers(), 1}, {"reads first", idempotency.ReadFirst, 1},
			{"says new", always(false, nil), 3}, {"fails", always(true, errBoom), 3}, {"none", nil, 3},
		} {
			l := &counting{Ledger: memory.New()}
			r := begin(t, l, idempotency.Options{Filter: c.filter})
			f, runs := answers("paid", nil)
			for again := range 3 {
				out, err := r.Do(t.Context(), request("k"), f)
				if err != nil || out.Replayed != (again > 0) || string(out.Result.Body) != "paid" || out.Result.Status != 201 {
					t.Errorf("%s: %+v, %v", c.name, out, err)
				}
			}
			if runs.Load() != 1 || l.claims.Load() != c.claims {
				t.Errorf("%s: %d runs, %d claims, want %d", c.name, runs.Load(), l.claims.Load(), c.claims)
			}
		}
	})
}

// A runner without a filter reads first while most of its requests are repetitions of successes: new ones among few are claimed alone.
func TestRepetitionsAreReadFirstWhileTheyAreMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &countingReads{counting: counting{Ledger: memory.New()}}
		r := begin(t, l, idempotency.Options{})
		f, _ := answers("paid", nil)
		do := func(what string, n int, key func(int) string) (claims, reads int64) {
			t.Helper()
			claims, reads = l.claims.Load(), l.reads.Load()
			for i := range n {
				if out, err := r.Do(t.Context(), request(key(i)), f); err != nil || string(out.Result.Body) != "paid" {
					t.Fatalf("%s: %+v, %v", what, out, err)
				}
			}
			return l.claims.Load() - claims, l.reads.Load() - reads
		}
		one := func(int) string { return "k" }
		fresh := func(of string) func(int) string { return func(i int) string { return of + strconv.Itoa(i) } }
		if claims, reads := do("new", 50, fresh("a")); claims != 50 || reads != 0 {
			t.Errorf("new requests: %d claims, %d reads", claims, reads)
		}
		if claims, reads := do("repetitions", 100, one); claims < 2 || claims > 30 || reads != 100-claims {
			t.Errorf("a new one and 99 repetitions: %d claims, %d reads; want few claims, and reads in their stead", claims, reads)
		}
		if claims, reads := do("new again", 100, fresh("b")); claims != 100 || reads < 1 || reads > 30 {
			t.Errorf("new requests again: %d claims, %d reads; want few reads", claims, reads)
		}
	})
}

// countingReads counts the reads of successes, too.
type countingReads struct {
	counting
	reads atomic.Int64
}

func (r *countingReads) Successes(ctx context.Context, keys []ledger.Key) ([]ledger.Success, error) {
	r.reads.Add(int64(len(keys)))
	return r.Ledger.Successes(ctx, keys)
}

// Whatever a filter says, and however long it takes: one effect each, the right answers, and no request takes longer than by the limit.
func TestNoFilterIsBelieved(t *testing.T) {
	for name, seen := range map[string]filterFunc{
		"seen": always(true, nil), "new": always(false, nil), "down": always(true, errBoom), "right": remembers(),
		"random": func(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error) {
			time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
			return rand.IntN(2) == 0, nil
		},
		"panics": func(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error) { panic("filter") },
		"ends its goroutine": func(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error) {
			runtime.Goexit()
			return true, nil
		},
		"deaf": func(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error) {
			time.Sleep(time.Minute)
			return true, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { attack(t, seen) })
		})
	}
}

// attack makes requests of all kinds through a filter.
func attack(t *testing.T, seen filterFunc) {
	l := memory.New()
	r := begin(t, l, idempotency.Options{Filter: seen, Attempts: 1, Window: time.Minute})
	do := func(key, body string, f idempotency.Func) (idempotency.Outcome, error) {
		began := time.Now()
		q := request(key)
		q.Body = []byte(body)
		out, err := r.Do(t.Context(), q, f)
		if took := time.Since(began); took > 5*time.Millisecond {
			t.Errorf("%s took %s", key, took)
		}
		return out, err
	}
	var all sync.WaitGroup
	var effects [20]atomic.Int32
	for n := range 400 {
		all.Go(func() {
			key := n % len(effects)
			out, err := do(fmt.Sprint(key), "body", func(context.Context) (idempotency.Result, error) {
				effects[key].Add(1)
				return idempotency.Result{Body: fmt.Append(nil, key)}, nil
			})
			if err != nil || string(out.Result.Body) != fmt.Sprint(key) {
				t.Errorf("%d: %+v, %v", key, out, err)
			}
		})
	}
	all.Wait()
	for key := range effects {
		if n := effects[key].Load(); n != 1 {
			t.Errorf("%d: %d effects", key, n)
		}
	}
	for range 3 {
		if out, err := do("1", "another body", nil); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("another body: %+v, %v", out, err)
		}
	}
	declined, runs := answers("", consumer.Terminal(errBoom))
	for range 3 {
		if out, err := do("declined", "body", declined); as[*idempotency.FailedError](err) == nil || err.Error() != "boom" || runs.Load() != 1 {
			t.Errorf("a failure: %+v, %v", out, err)
		}
	}
	again, runs := answers("again", nil)
	report, err := l.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "payments", IDs: [][]byte{[]byte("shop%207/1")}}, By: ledger.By{Actor: "tester"}})
	if err != nil || report.Reopened != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	for range 2 {
		if out, err := do("1", "body", again); err != nil || string(out.Result.Body) != "again" || runs.Load() != 1 {
			t.Errorf("reopened: %+v, %v, %d runs", out, err, runs.Load())
		}
	}
	time.Sleep(5 * time.Minute) // the window is over, what is deaf has ended, and the ledger is swept
	if out, err := do("2", "another body", again); err != nil || string(out.Result.Body) != "again" || runs.Load() != 2 {
		t.Errorf("after the window: %+v, %v, %d runs", out, err, runs.Load())
	}
	time.Sleep(5 * time.Minute) // what is deaf ends
}

// Calls that are left behind are bounded, and requests beyond them are not held up.
func TestFewCallsOfAFilterAreLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left atomic.Int64
		r := begin(t, memory.New(), idempotency.Options{Filter: filterFunc(func(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error) {
			left.Add(1)
			time.Sleep(time.Minute)
			return true, nil
		})})
		var all sync.WaitGroup
		for n := range 1000 {
			f, _ := answers("", nil)
			all.Go(func() {
				began := time.Now()
				if _, err := r.Do(t.Context(), request(fmt.Sprint(n)), f); err != nil || time.Since(began) > 5*time.Millisecond {
					t.Errorf("%v after %s", err, time.Since(began))
				}
			})
		}
		all.Wait()
		if left.Load() != 256 {
			t.Errorf("%d calls are left behind", left.Load())
		}
		time.Sleep(5 * time.Minute)
	})
}

// A filter that does not answer is left behind, and asked again after a rest; so few requests wait for it.
func TestAFilterThatFailsRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		var deaf atomic.Bool
		reader := sdkmetric.NewManualReader()
		core, logs := observer.New(zap.InfoLevel)
		r := begin(t, memory.New(), idempotency.Options{
			MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), FilterLimit: 20 * time.Millisecond, Logger: zap.New(core),
			Filter: filterFunc(func(ctx context.Context, _ [ledger.KeySize]byte, window time.Duration) (bool, error) {
				asked++
				if window != 24*time.Hour {
					t.Errorf("the window is %s", window)
				}
				if deaf.Load() {
					<-ctx.Done()
					return false, ctx.Err()
				}
				return asked > 1, nil
			}),
		})
		f, _ := answers("paid", nil)
		did := func(key string, want time.Duration) {
			began := time.Now()
			if _, err := r.Do(t.Context(), request(key), f); err != nil || time.Since(began) != want {
				t.Errorf("%s: %v after %s, want %s", key, err, time.Since(began), want)
			}
		}
		did("a", 0)
		did("a", 0)
		did("b", 0)
		deaf.Store(true)
		did("c", 20*time.Millisecond)
		for range 10 {
			did("c", 0)
		}
		time.Sleep(time.Second)
		did("c", 20*time.Millisecond)
		deaf.Store(false)
		did("c", 0)
		time.Sleep(time.Second)
		did("c", 0)
		want := map[string]int64{"new": 1, "hit": 2, "wrong": 1, "failed": 2, "rested": 11}
		if got := filtered(t, reader); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		for _, said := range []string{"the filter does not answer", "the filter answers again"} { // once each, however many ask
			if n := logs.FilterMessageSnippet(said).Len(); n != 1 {
				t.Errorf("%s is told %d times", said, n)
			}
		}
	})
}

func filtered(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == "ackledger.idempotency.filter" {
				for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
					result, _ := p.Attributes.Value("result")
					got[result.AsString()] += p.Value
				}
			}
		}
	}
	return got
}

// plain is a ledger that cannot be read.
type plain struct{ ledger.Ledger }

func TestFilterOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]idempotency.Options{
		"FilterLimit: must be 1ms to 1s, is 2s":             {FilterLimit: 2 * time.Second},
		"FilterLimit: must be 1ms to 1s, is 1ns":            {FilterLimit: 1},
		"Filter: the ledger must be a ledger.SuccessReader": {Filter: always(true, nil)},
	} {
		if _, err := idempotency.New(plain{memory.New()}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, is %v", want, err)
		}
	}
}

package redisfilter_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/redisfilter"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// stores open an empty ledger each.
var stores = map[string]func(testing.TB) ledger.Ledger{
	"PostgreSQL": func(tb testing.TB) ledger.Ledger {
		cfg, err := pgxpool.ParseConfig(services.Postgres(tb).URL)
		if err != nil {
			tb.Fatal(err)
		}
		if err := postgres.Migrate(tb.Context(), cfg.ConnConfig, ""); err != nil {
			tb.Fatal(err)
		}
		pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(pool.Close)
		l, err := postgres.New(tb.Context(), pool, nil)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(l.Close)
		return l
	},
	"SQLite": func(tb testing.TB) ledger.Ledger {
		l, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "ledger.db"), nil)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = l.Close() })
		return l
	},
}

// inRedis is a filter on the shared Redis.
func inRedis(tb testing.TB) *redisfilter.Filter {
	f, err := redisfilter.New(dial(tb, services.Redis(tb)), redisfilter.Options{Prefix: services.Name(tb), Keep: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// What is read is what a claim would have answered: a success with its bytes, a mismatch, what was reopened, a failure.
func TestOnLedgers(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			w := &watched{Filter: inRedis(t), hits: new(atomic.Int64)}
			r := begin(t, l, idempotency.Options{Filter: w, Attempts: 1, FilterLimit: time.Second})
			runs := 0
			do := func(key, body string, failure error) (idempotency.Outcome, error) {
				return r.Do(t.Context(), idempotency.Request{Scope: "payments", Key: key, Body: []byte(body)}, func(context.Context) (idempotency.Result, error) {
					runs++
					return idempotency.Result{Status: 201, Body: fmt.Append(nil, "run ", runs)}, failure
				})
			}
			check := func(wantRuns int, want string) {
				t.Helper()
				if out, err := do("a", "body", nil); err != nil || runs != wantRuns || string(out.Result.Body) != want {
					t.Errorf("%q, %v, %d runs", out.Result.Body, err, runs)
				}
			}
			check(1, "run 1")
			check(1, "run 1")
			if out, err := do("a", "another", nil); !errors.Is(err, idempotency.ErrMismatch) {
				t.Errorf("%+v, %v", out, err)
			}
			report, err := l.(ledger.Operator).Reopen(t.Context(), ledger.ReopenRequest{
				Filter: ledger.Filter{Scope: "payments", IDs: [][]byte{[]byte("/a")}}, By: ledger.By{Actor: "tester"},
			})
			if err != nil || report.Reopened != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			check(2, "run 2")
			check(2, "run 2")
			for range 2 {
				if out, err := do("b", "body", errors.New("boom")); err == nil || err.Error() != "boom" || runs != 3 {
					t.Errorf("%+v, %v, %d runs", out, err, runs)
				}
			}
			if w.hits.Load() == 0 {
				t.Error("Redis knew nothing")
			}
		})
	}
}

const clients = 64

// Requests of 64 clients, in requests a second: run it on a machine that does nothing else, and compare within one run.
func BenchmarkRequests(b *testing.B) {
	for _, name := range []string{"PostgreSQL", "SQLite"} {
		for _, filter := range []string{"none", "Redis", "ReadFirst"} {
			var f idempotency.Filter
			switch filter {
			case "Redis":
				client := redis.NewClient(&redis.Options{Addr: services.Redis(b), ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: clients})
				b.Cleanup(func() { _ = client.Close() })
				var err error
				if f, err = redisfilter.New(client, redisfilter.Options{Prefix: services.Name(b)}); err != nil {
					b.Fatal(err)
				}
			case "ReadFirst":
				f = idempotency.ReadFirst
			}
			r := begin(b, stores[name](b), idempotency.Options{Filter: f})
			for _, again := range []bool{false, true} {
				kind := "new"
				if again {
					kind = "repeated"
				}
				b.Run(name+"/"+filter+"/"+kind, func(b *testing.B) {
					requests(b, r, again)
				})
			}
		}
	}
}

var unique atomic.Int64

func requests(b *testing.B, r *idempotency.Runner, again bool) {
	body := make([]byte, 300)
	do := func(key string) {
		_, err := r.Do(b.Context(), idempotency.Request{Scope: "s", Key: key}, func(context.Context) (idempotency.Result, error) {
			return idempotency.Result{Status: 200, Body: body}, nil
		})
		if err != nil {
			b.Error(err)
		}
	}
	if again {
		for n := range 1000 {
			do(fmt.Sprint("again-", n))
		}
		b.ResetTimer()
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				if again {
					do(fmt.Sprint("again-", n%1000))
				} else {
					do(fmt.Sprint("new-", unique.Add(1)))
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

package idempotency_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// reading is a ledger whose reads are the test's.
type reading struct {
	*memory.Ledger
	read func(ctx context.Context, keys []ledger.Key) ([]ledger.Success, error)
}

func (r *reading) Successes(ctx context.Context, keys []ledger.Key) ([]ledger.Success, error) {
	return r.read(ctx, keys)
}

// While one read is under way, the next one's keys come together; each request gets its own answer.
func TestReadsComeInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 251
		l := &reading{Ledger: memory.New()}
		l.read = l.Ledger.Successes
		r := begin(t, l, idempotency.Options{Filter: idempotency.ReadFirst})
		for n := range requests {
			f, _ := answers(fmt.Sprint(n), nil)
			if _, err := r.Do(t.Context(), request(fmt.Sprint(n)), f); err != nil {
				t.Fatal(err)
			}
		}
		var sizes []int
		l.read = func(ctx context.Context, keys []ledger.Key) ([]ledger.Success, error) {
			sizes = append(sizes, len(keys))
			time.Sleep(time.Millisecond) // of the bubble's clock: the others wait by then
			return l.Ledger.Successes(ctx, keys)
		}
		var all sync.WaitGroup
		for n := range requests {
			all.Go(func() {
				out, err := r.Do(t.Context(), request(fmt.Sprint(n)), never(t))
				if err != nil || string(out.Result.Body) != fmt.Sprint(n) {
					t.Errorf("%d: %q, %v", n, out.Result.Body, err)
				}
			})
		}
		all.Wait()
		sum := 0
		for _, size := range sizes {
			if sum += size; size > ledger.MaxSuccesses {
				t.Errorf("%d keys at once", size)
			}
		}
		if len(sizes) > 4 || sum != requests {
			t.Errorf("reads of %v", sizes)
		}
	})
}

// A ledger that cannot be read, or only slowly, is claimed in, as without a filter: no request waits for a read for longer than a second.
func TestReadsThatFail(t *testing.T) {
	for name, read := range map[string]func(ctx context.Context, keys []ledger.Key) ([]ledger.Success, error){
		"fails": func(context.Context, []ledger.Key) ([]ledger.Success, error) { return nil, errBoom },
		"hangs": func(ctx context.Context, _ []ledger.Key) ([]ledger.Success, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := sdkmetric.NewManualReader()
				r := begin(t, &reading{memory.New(), read}, idempotency.Options{
					Filter: idempotency.ReadFirst, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
					Concurrency: 1200, Waiting: 1200,
				})
				var all sync.WaitGroup
				var runs, quick atomic.Int32
				for n := range 1200 {
					all.Go(func() {
						began := time.Now()
						_, err := r.Do(t.Context(), request(fmt.Sprint(n%1110)), func(context.Context) (idempotency.Result, error) {
							runs.Add(1)
							return idempotency.Result{}, nil
						})
						if took := time.Since(began); err != nil || took > time.Second {
							t.Errorf("%v after %s", err, took)
						} else if took == 0 {
							quick.Add(1)
						}
					})
				}
				all.Wait()
				got := filtered(t, reader)
				time.Sleep(2 * time.Second)                                                         // the last read ends
				if runs.Load() != 1110 || got["failed"] == 0 || len(got) > 2 || quick.Load() == 0 { // a thousand may wait for a read
					t.Errorf("%d runs, %d at once, %v", runs.Load(), quick.Load(), got)
				}
			})
		})
	}
}

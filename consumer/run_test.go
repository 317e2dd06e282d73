package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// fake is a worker that runs until its context ends, drains for a time, and then returns err; with fails it returns at
// once.
type fake struct {
	drain   time.Duration
	err     error
	fails   bool
	drained atomic.Bool
}

func (f *fake) Run(ctx context.Context) error {
	if !f.fails {
		<-ctx.Done()
		time.Sleep(f.drain)
		f.drained.Store(true)
	}
	return f.err
}
func (f *fake) Health() consumer.Health { return consumer.Health{} }
func (f *fake) Pause()                  {}
func (f *fake) Resume()                 {}

func TestRunDrainsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, b := &fake{drain: time.Second}, &fake{drain: 3 * time.Second}
		began := time.Now()
		if err := consumer.Run(ctx, a, b); err != nil {
			t.Errorf("a clean drain: %v", err)
		}
		if !a.drained.Load() || !b.drained.Load() || time.Since(began) != time.Minute+3*time.Second {
			t.Errorf("ended after %s", time.Since(began))
		}
	})
}

func TestRunDrainsAllWhenOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom, late := errors.New("boom"), errors.New("drain cut short")
		a, b, c := &fake{fails: true, err: boom}, &fake{drain: time.Second}, &fake{drain: time.Second, err: late}
		err := consumer.Run(t.Context(), a, b, c)
		if !errors.Is(err, boom) || !errors.Is(err, late) || !b.drained.Load() || !c.drained.Load() {
			t.Errorf("%v, drained %v and %v", err, b.drained.Load(), c.drained.Load())
		}
		b = &fake{}
		if err := consumer.Run(t.Context(), &fake{fails: true}, b); err != nil || !b.drained.Load() {
			t.Errorf("one that ends by itself stops the others: %v, drained %v", err, b.drained.Load())
		}
	})
}

func TestRunRefusesNothingAndNil(t *testing.T) {
	var none *fake // what a constructor returns beside an error that nobody looked at
	for want, workers := range map[string][]consumer.Worker{
		"must be given at least 1 worker, is given 0": {},
		"worker 2 of 2 is nil":                        {&fake{}, nil},
		"worker 1 of 2 is nil":                        {none, &fake{}},
	} {
		if err := consumer.Run(t.Context(), workers...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := consumer.NewLimiter(2)
		for range 2 {
			if err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third of two: %v", err)
		}
		time.AfterFunc(time.Second, l.Release)
		if err := l.Acquire(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := (consumer.Options{Limiter: consumer.NewLimiter(-5)}).WithDefaults(); err == nil {
			t.Error("a limiter for -5 handlers is accepted")
		}
		var none *consumer.Limiter
		for range 100 {
			if err := none.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		none.Release()
		if err := none.Acquire(ctx); err == nil {
			t.Error("a nil limiter starts what must not start any more")
		}
	})
}

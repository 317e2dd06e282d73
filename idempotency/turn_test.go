package idempotency_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// sluggish is a ledger whose claims wait until opened is closed, and then come to what err says.
type sluggish struct {
	ledger.Ledger
	opened chan struct{}
	err    error // of claims and beats; nil: those of the ledger
}

type sluggishOwner struct {
	ledger.Owner
	*sluggish
}

func (s *sluggish) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := s.Ledger.Join(ctx, lease)
	return sluggishOwner{o, s}, err
}

func (o sluggishOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	<-o.opened
	if o.err != nil {
		return nil, o.err
	}
	return o.Owner.Claim(ctx, entries)
}

func (o sluggishOwner) Beat(ctx context.Context) (time.Duration, error) {
	if o.err != nil {
		return 0, o.err
	}
	return o.Owner.Beat(ctx)
}

// ask calls Do with a body, in another goroutine.
func ask(t *testing.T, r *idempotency.Runner, key, body string, f idempotency.Func) <-chan error {
	t.Helper()
	q, ended := request(key), make(chan error, 1)
	q.Body = []byte(body)
	go func() {
		_, err := r.Do(t.Context(), q, f)
		ended <- err
	}()
	synctest.Wait()
	return ended
}

// silent fails if a request has been answered.
func silent(t *testing.T, ended <-chan error) {
	t.Helper()
	if len(ended) > 0 {
		t.Error("a request is answered")
	}
}

// eachWay plays a case where duplicates wait, and where they are refused.
func eachWay(t *testing.T, play func(*testing.T, idempotency.Options)) {
	t.Helper()
	for name, o := range map[string]idempotency.Options{"waits": {}, "refuses": {Refuse: true}} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { play(t, o) }) })
	}
}

// blocks is a function that runs until release is closed.
func blocks(release <-chan struct{}) idempotency.Func {
	return func(context.Context) (idempotency.Result, error) {
		<-release
		return idempotency.Result{Body: []byte("paid")}, nil
	}
}

// Another body is a mismatch, and no request in progress, as soon as the key is claimed: its function need not have begun.
func TestAnotherBodyBeforeTheFunctionBegins(t *testing.T) {
	eachWay(t, func(t *testing.T, o idempotency.Options) {
		o.Concurrency = 1
		r := begin(t, memory.New(), o)
		release, began := make(chan struct{}), time.Now()
		place := ask(t, r, "place", "a", blocks(release))
		f, runs := answers("paid", nil)
		first := ask(t, r, "k", "a", f)
		if err := <-ask(t, r, "k", "b", never(t)); !errors.Is(err, idempotency.ErrMismatch) || runs.Load() != 0 || time.Since(began) != 0 {
			t.Errorf("%v after %s and %d runs", err, time.Since(began), runs.Load())
		}
		close(release)
		if err := errors.Join(<-place, <-first); err != nil {
			t.Error(err)
		}
	})
}

// While the ledger has not said whose key it is nobody is refused: another body is a mismatch if the first one gets the key ...
func TestAnotherBodyBeforeTheLedgerAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, o idempotency.Options) {
		l := &sluggish{Ledger: memory.New(), opened: make(chan struct{})}
		r := begin(t, l, o)
		release := make(chan struct{})
		first, other := ask(t, r, "k", "a", blocks(release)), ask(t, r, "k", "b", never(t))
		silent(t, other)
		began := time.Now()
		close(l.opened)
		if err := <-other; !errors.Is(err, idempotency.ErrMismatch) || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// ... and has its answer if it is the first one that is a mismatch.
func TestTheBodyThatIsKnownComesSecond(t *testing.T) {
	eachWay(t, func(t *testing.T, o idempotency.Options) {
		l := &sluggish{Ledger: memory.New(), opened: make(chan struct{})}
		f, _ := answers("paid", nil)
		if err := <-ask(t, begin(t, l.Ledger, o), "k", "b", f); err != nil {
			t.Fatal(err)
		}
		r := begin(t, l, o)
		first, other := ask(t, r, "k", "a", never(t)), ask(t, r, "k", "b", never(t))
		silent(t, other)
		close(l.opened)
		if err := <-first; !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("the first: %v", err)
		}
		if err := <-other; err != nil {
			t.Errorf("the one that is known: %v", err)
		}
	})
}

// An equal request is not refused beside one of which nothing is known yet: it may be a success.
func TestAnEqualOneBeforeTheLedgerAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, o idempotency.Options) {
		l := &sluggish{Ledger: memory.New(), opened: make(chan struct{})}
		f, _ := answers("paid", nil)
		if err := <-ask(t, begin(t, l.Ledger, o), "k", "a", f); err != nil {
			t.Fatal(err)
		}
		r := begin(t, l, o)
		first, equal := ask(t, r, "k", "a", never(t)), ask(t, r, "k", "a", never(t))
		silent(t, equal)
		close(l.opened)
		if err := errors.Join(<-first, <-equal); err != nil {
			t.Error(err)
		}
	})
}

// What runs in another process is asked of the ledger, also beside an equal request that is asked for here, or waits for it.
func TestAnotherBodyElsewhere(t *testing.T) {
	eachWay(t, func(t *testing.T, o idempotency.Options) {
		l := &sluggish{Ledger: memory.New(), opened: make(chan struct{})}
		here, there := begin(t, l, o), begin(t, l.Ledger, o)
		release, began := make(chan struct{}), time.Now()
		first := ask(t, there, "k", "a", blocks(release))
		equal, other := ask(t, here, "k", "a", never(t)), ask(t, here, "k", "b", never(t))
		close(l.opened)
		for _, ended := range []<-chan error{other, ask(t, here, "k", "b", never(t))} {
			if err := <-ended; !errors.Is(err, idempotency.ErrMismatch) || time.Since(began) != 0 {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		}
		close(release)
		err := <-equal
		if busy := as[*idempotency.InProgressError](err) != nil; busy != o.Refuse || !busy && err != nil {
			t.Errorf("the equal one: %v", err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// Who has waited for long enough, and nobody has said that the request runs elsewhere, was not in time: that is neither a request in
// progress nor a ledger that is away. Its function does not run later.
func TestNoTurn(t *testing.T) {
	const wait = time.Second
	noTurn := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, idempotency.ErrNoTurn) || errors.Is(err, idempotency.ErrWaited) || errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
	t.Run("the ledger has not answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := &sluggish{Ledger: memory.New(), opened: make(chan struct{})}
			r := begin(t, l, idempotency.Options{Wait: wait})
			began := time.Now()
			first, equal, other := ask(t, r, "k", "a", never(t)), ask(t, r, "k", "a", never(t)), ask(t, r, "k", "b", never(t))
			for _, ended := range []<-chan error{first, equal, other} {
				noTurn(t, <-ended)
			}
			if took := time.Since(began); took != wait {
				t.Errorf("after %s", took)
			}
			close(l.opened)
			time.Sleep(time.Minute)
		})
	})
	t.Run("as many run as may", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			r := begin(t, memory.New(), idempotency.Options{Wait: wait, Concurrency: 1, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
			release := make(chan struct{})
			place := ask(t, r, "place", "a", blocks(release))
			noTurn(t, <-ask(t, r, "k", "a", never(t)))
			close(release)
			if err := <-place; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			if got, want := counted(t, reader), map[string]int64{"miss": 1, "full": 1}; !maps.Equal(got, want) {
				t.Errorf("counted %v, want %v", got, want)
			}
		})
	})
	t.Run("the ledger is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := &sluggish{Ledger: memory.New(), opened: make(chan struct{}), err: ledger.MarkUnavailable(errors.New("it does not answer"))}
			r := begin(t, l, idempotency.Options{Wait: wait})
			ended := ask(t, r, "k", "a", never(t))
			close(l.opened)
			if err := <-ended; !errors.Is(err, idempotency.ErrUnavailable) || errors.Is(err, idempotency.ErrNoTurn) {
				t.Errorf("got %v", err)
			}
		})
	})
}

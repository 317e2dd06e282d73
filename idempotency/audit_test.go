package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// An answer can be looked up when its request is recognised no more, sealed and spilled as it was; the request runs anew, and is
// answered nothing from there. It goes at its own time.
func TestAudit(t *testing.T) {
	for name, o := range map[string]idempotency.Options{
		"plain": {}, "sealed": {Cipher: flip{}}, "spilled": {Spill: newShelf()}, "sealed and spilled": {Spill: newShelf(), Cipher: flip{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o.Audit = 3 * time.Hour
				r := begin(t, memory.New(), o)
				f, _ := answers("paid", nil)
				body := "paid"
				if o.Spill != nil {
					f, body = large("word")
				}
				q := request("k")
				q.Window = time.Hour
				began := time.Now()
				if _, err := r.Do(t.Context(), q, f); err != nil {
					t.Fatal(err)
				}
				audit := func() []idempotency.Audited {
					t.Helper()
					list, err := r.Audit(t.Context(), idempotency.Request{Scope: q.Scope, Caller: q.Caller, Key: q.Key})
					if err != nil {
						t.Fatal(err)
					}
					return list
				}
				isFirst := func(a idempotency.Audited, until time.Time) {
					t.Helper()
					if a.Err != nil || a.State != ledger.Succeeded || a.Result.Status != 201 || a.Result.MediaType != "text/plain" ||
						string(a.Result.Body) != body || !a.At.Equal(began) || !a.Expiry.Equal(began.Add(time.Hour)) || !a.Until.Equal(until) {
						t.Errorf("the first run: %d %s, %d bytes, %v, from %s to %s, kept until %s", a.Result.Status, a.Result.MediaType,
							len(a.Result.Body), a.Err, a.At, a.Expiry, a.Until)
					}
				}
				if list := audit(); len(list) != 1 {
					t.Fatalf("within the window: %+v", list)
				} else {
					isFirst(list[0], time.Time{})
				}
				time.Sleep(2 * time.Hour) // the runner sweeps
				if list := audit(); len(list) != 1 {
					t.Fatalf("beyond the window: %+v", list)
				} else {
					isFirst(list[0], began.Add(4*time.Hour))
				}
				if s, ok := o.Spill.(*shelf); ok && s.keep < 4*time.Hour {
					t.Errorf("what is spilled is kept for %s, less than window and audit", s.keep)
				}

				anew, runs := answers("no", idempotency.Release(errBoom))
				if out, err := r.Do(t.Context(), q, anew); !errors.Is(err, errBoom) || out.Replayed || runs.Load() != 1 {
					t.Errorf("beyond the window a request is answered with %+v, %v", out, err)
				}
				again, runs := answers("again", nil)
				if out, err := r.Do(t.Context(), q, again); err != nil || out.Replayed || runs.Load() != 1 {
					t.Fatalf("%+v, %v", out, err)
				}
				if list := audit(); len(list) != 2 || string(list[0].Result.Body) != "again" || !list[0].Until.IsZero() {
					t.Errorf("two runs: %+v", list)
				} else {
					isFirst(list[1], began.Add(4*time.Hour))
				}
				time.Sleep(2*time.Hour + 2*time.Minute)
				if list := audit(); len(list) != 1 || string(list[0].Result.Body) != "again" || list[0].Until.IsZero() {
					t.Errorf("beyond the audit of the first: %+v", list)
				}
			})
		})
	}
}

// What failed for good is kept with its error for seven days, unless nothing is to be; one request's answer is not another's.
func TestAuditOfFailures(t *testing.T) {
	for _, none := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, memory.New(), idempotency.Options{Attempts: 1, NoAudit: none, Window: time.Hour})
			f, _ := answers("", errBoom)
			if _, err := r.Do(t.Context(), request("k"), f); !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			list, err := r.Audit(t.Context(), request("k"))
			switch {
			case err != nil || (len(list) == 0) != none:
				t.Fatalf("none kept is %t: %+v, %v", none, list, err)
			case !none && (list[0].State != ledger.Failed || list[0].Failed != "boom" || list[0].Err != nil || list[0].Until.Sub(list[0].Expiry) != 7*24*time.Hour):
				t.Errorf("%+v", list[0])
			}
			if list, err := r.Audit(t.Context(), request("other")); len(list) != 0 || err != nil {
				t.Errorf("another request: %+v, %v", list, err)
			}
		})
	}
}

// What cannot be read says so, beside what can.
func TestAuditWithoutItsCipher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		r := begin(t, l, idempotency.Options{Cipher: flip{}})
		f, _ := answers("paid", nil)
		if _, err := r.Do(t.Context(), request("k"), f); err != nil {
			t.Fatal(err)
		}
		other, err := idempotency.New(l, idempotency.Options{}) // it need not run
		if err != nil {
			t.Fatal(err)
		}
		list, err := other.Audit(t.Context(), request("k"))
		if err != nil || len(list) != 1 || list[0].Err == nil || list[0].Result.Body != nil {
			t.Errorf("%+v, %v", list, err)
		}
		var bad *idempotency.KeyError
		if _, err := other.Audit(t.Context(), request("")); !errors.As(err, &bad) {
			t.Errorf("a bad key: %v", err)
		}
	})
}

// forgetful is a ledger that cannot be told what to keep for a while.
type forgetful struct {
	*memory.Ledger
	mu    sync.Mutex
	fails int
	told  []time.Duration
}

func (f *forgetful) KeepPast(ctx context.Context, scope string, keep time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails--; f.fails >= 0 {
		return errBoom
	}
	f.told = append(f.told, keep)
	return f.Ledger.KeepPast(ctx, scope, keep)
}

// The ledger is told once for each scope, tried until it answers, and no request waits for it.
func TestAuditIsToldUntilItIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		l := &forgetful{Ledger: memory.New(), fails: 8}
		r := begin(t, l, idempotency.Options{Audit: time.Hour, Logger: zap.New(core)})
		f, _ := answers("paid", nil)
		for _, scope := range []string{"a", "b", "a"} {
			q, before := request("k"), time.Now()
			q.Scope = scope
			if _, err := r.Do(t.Context(), q, f); err != nil || time.Since(before) > time.Second {
				t.Fatalf("%v after %s", err, time.Since(before))
			}
		}
		time.Sleep(10 * time.Minute)
		if l.mu.Lock(); len(l.told) != 2 || l.told[0] != time.Hour || l.told[1] != time.Hour || logs.Len() != 1 {
			t.Errorf("told %v, logged %v", l.told, logs.All())
		}
		l.mu.Unlock()
	})
}

// slow is a ledger that takes its time to hear what it is to keep.
type slow struct {
	*memory.Ledger
	takes time.Duration
	heard atomic.Int64
}

func (s *slow) KeepPast(ctx context.Context, scope string, keep time.Duration) error {
	select {
	case <-time.After(s.takes):
		s.heard.Add(1)
		return s.Ledger.KeepPast(ctx, scope, keep)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A process that ends right after its one request, as a cron job does, has told the ledger before; it does not wait for one that is away.
func TestAuditIsToldByWhoEndsAtOnce(t *testing.T) {
	t.Parallel()
	for takes, heard := range map[time.Duration]int64{500 * time.Millisecond: 2, time.Hour: 0} {
		synctest.Test(t, func(t *testing.T) {
			l := &slow{Ledger: memory.New(), takes: takes}
			r, err := idempotency.New(l, idempotency.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			synctest.Wait() // it has joined
			f, _ := answers("paid", nil)
			for _, scope := range []string{"a", "b"} {
				q := request("k")
				q.Scope = scope
				if _, err := r.Do(t.Context(), q, f); err != nil {
					t.Error(err)
				}
			}
			cancel()
			began := time.Now()
			if err := <-ended; err != nil || l.heard.Load() != heard || time.Since(began) > 3*time.Second {
				t.Errorf("a ledger that takes %s: %v after %s, it heard %d scopes, want %d", takes, err, time.Since(began), l.heard.Load(), heard)
			}
		})
	}
}

type bare struct{ ledger.Ledger }

func TestAuditSettings(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]idempotency.Options{
		"must be 1s to": {Audit: time.Second - 1}, "must be 1s": {Audit: ledger.MaxWindow + 1}, "nothing is kept": {Audit: time.Hour, NoAudit: true},
	} {
		if _, err := idempotency.New(memory.New(), o); err == nil || !strings.Contains(err.Error(), "Options.Audit") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	l := bare{memory.New()}
	if _, err := idempotency.New(l, idempotency.Options{Audit: time.Hour}); err == nil || !strings.Contains(err.Error(), "PastKeeper") {
		t.Errorf("a ledger that keeps nothing: %v", err)
	}
	r := begin(t, l, idempotency.Options{})
	f, _ := answers("paid", nil)
	if _, err := r.Do(t.Context(), request("k"), f); err != nil {
		t.Error(err)
	}
	if _, err := r.Audit(t.Context(), request("k")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an audit by it: %v", err)
	}
}

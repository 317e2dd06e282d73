package httpkey_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// While a request runs: another body is 422 before anything is 409, and Retry-After is at most the rest of the lease (draft 2.7).
func TestWhileItRuns(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		began, release := make(chan struct{}), make(chan struct{})
		e := serve(t, idempotency.Options{Refuse: true, Lease: 20 * time.Second}, httpkey.Options{RetryAfter: time.Hour}, func(w http.ResponseWriter, _ *http.Request) {
			close(began)
			<-release
			w.WriteHeader(http.StatusCreated)
		}, http2)
		var first sync.WaitGroup
		first.Go(func() {
			if a := e.ask(asked{key: "k", body: "a"}); a.status != http.StatusCreated {
				t.Errorf("first: %+v", a)
			}
		})
		<-began
		if a := e.ask(asked{key: "k", body: "b"}); a.status != http.StatusUnprocessableEntity || a.problem() != httpkey.KeyReused {
			t.Errorf("another body: %+v", a)
		}
		a := e.ask(asked{key: "k", body: "a"})
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != http.StatusConflict || a.problem() != httpkey.InProgress || err != nil || after < 1 || after > 20 {
			t.Errorf("the same: %+v", a)
		}
		close(release)
		first.Wait()
		if a := e.ask(asked{key: "k", body: "a"}); !a.replayed() {
			t.Errorf("again: %+v", a)
		}
	})
}

// Another body does not wait for what runs: it is told at once (draft 2.7).
func TestAnotherBodyDoesNotWait(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	e := serve(t, idempotency.Options{Wait: time.Hour}, httpkey.Options{}, func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	}, false)
	var first sync.WaitGroup
	first.Go(func() { e.ask(asked{key: "k", body: "a"}) })
	<-began
	if a := e.ask(asked{key: "k", body: "b"}); a.status != http.StatusUnprocessableEntity || a.problem() != httpkey.KeyReused {
		t.Errorf("%+v", a)
	}
	close(release)
	first.Wait()
}

// Who has waited in vain is told to ask again later.
func TestWaitedInVain(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	e := serve(t, idempotency.Options{Wait: time.Second}, httpkey.Options{RetryAfter: 7 * time.Second}, func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	}, false)
	var first sync.WaitGroup
	first.Go(func() {
		for e.ask(asked{key: "k"}).problem() == httpkey.Unavailable {
		} // its turn did not come in time
	})
	<-began
	if a := e.ask(asked{key: "k"}); a.status != http.StatusConflict || a.problem() != httpkey.InProgress || a.header.Get("Retry-After") != "7" {
		t.Errorf("%+v", a)
	}
	close(release)
	first.Wait()
}

// Requests that wait for one that is then released do not share its answer: one of them runs, and the others get what that one got.
func TestWhoWaitsForAReleasedOne(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		var runs atomic.Int32
		began, release := make(chan struct{}), make(chan struct{})
		e := serve(t, idempotency.Options{Wait: time.Hour}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			if runs.Add(1) == 1 {
				close(began)
				<-release
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}, http2)
		var all sync.WaitGroup
		all.Go(func() {
			if a := e.ask(asked{key: "k"}); a.status != http.StatusServiceUnavailable {
				t.Errorf("first: %+v", a)
			}
		})
		<-began
		var fresh atomic.Int32
		for range 20 {
			all.Go(func() {
				a := e.ask(asked{key: "k"})
				if a.status != http.StatusCreated {
					t.Errorf("waited: %+v", a)
				}
				if !a.replayed() {
					fresh.Add(1)
				}
			})
		}
		close(release)
		all.Wait()
		if runs.Load() != 2 || fresh.Load() != 1 {
			t.Errorf("%d runs, %d answers that are not repetitions", runs.Load(), fresh.Load())
		}
	})
}

// The client goes while its request runs: the handler goes on, and its answer is kept; or its context ends, if one wants that.
func TestTheClientIsGone(t *testing.T) {
	for _, end := range []bool{false, true} {
		t.Run(strconv.FormatBool(end), func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				began, gone, release := make(chan struct{}), make(chan error, 1), make(chan struct{})
				var runs atomic.Int32
				e := serve(t, idempotency.Options{}, httpkey.Options{EndWithClient: end}, func(w http.ResponseWriter, r *http.Request) {
					if runs.Add(1) > 1 {
						w.WriteHeader(http.StatusOK)
						return
					}
					close(began)
					if end {
						<-r.Context().Done()
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					<-release
					gone <- r.Context().Err()
					w.WriteHeader(http.StatusCreated)
				}, http2)
				ctx, leave := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.server.URL+"/pay/7", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Idempotency-Key", "k")
				left := make(chan error, 1)
				go func() {
					resp, err := e.server.Client().Do(r)
					if err == nil {
						_ = resp.Body.Close()
					}
					left <- err
				}()
				<-began
				leave()
				if err := <-left; !errors.Is(err, context.Canceled) {
					t.Errorf("who left: %v", err)
				}
				close(release)
				if !end {
					if err := <-gone; err != nil {
						t.Errorf("the handler's context: %v", err)
					}
				}
				a := e.ask(asked{key: "k"})
				if !end && (a.status != http.StatusCreated || !a.replayed() || runs.Load() != 1) || end && (a.status != http.StatusOK || a.replayed() || runs.Load() != 2) {
					t.Errorf("again: %+v after %d runs", a, runs.Load())
				}
			})
		})
	}
}

// What a client has seen a part of is not said otherwise afterwards, and not run again.
func TestAClientHasSeenAPart(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		var runs atomic.Int32
		sent, release := make(chan struct{}), make(chan struct{})
		e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			runs.Add(1)
			_, _ = io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			close(sent)
			<-release
			_, _ = io.WriteString(w, "rest")
		}, http2)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.server.URL+"/pay/7", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		resp, err := e.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		<-sent
		part := make([]byte, 4)
		if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != "part" {
			t.Errorf("%q, %v", part, err)
		}
		leave()
		_ = resp.Body.Close()
		close(release)
		if a := e.ask(asked{key: "k"}); a.problem() != httpkey.NotReplayed || runs.Load() != 1 {
			t.Errorf("again: %+v after %d runs", a, runs.Load())
		}
	})
}

// A connection that was taken over has no answer to be given again.
func TestHijacked(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		runs.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, err = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Error(err)
		}
	}, false)
	if a := e.ask(asked{key: "k"}); a.status != http.StatusAccepted || a.body != "ok" {
		t.Errorf("first: %+v", a)
	}
	if a := e.ask(asked{key: "k"}); a.problem() != httpkey.NotReplayed || runs.Load() != 1 {
		t.Errorf("again: %+v after %d runs", a, runs.Load())
	}
}

// Effect and answer are one commit. What a handler says of a transaction that failed is sent and not kept. An answer that is written after it is not known to a repetition, which is told so.
func TestInTx(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		l := openFile(t)
		e := serveOn(t, l, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) {
			late := r.URL.Query().Has("late")
			answer := func() {
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, "charged")
			}
			err := sqlite.InTx(r.Context(), func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS effect (n INTEGER)"); err != nil {
					return err
				}
				if r.URL.Query().Has("fails") {
					return errors.New("no money")
				}
				if !late {
					answer()
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (1)")
				return err
			})
			switch {
			case err != nil && r.URL.Query().Has("hides"):
				w.Header().Set("Link", "</hint>")
				w.WriteHeader(http.StatusEarlyHints)
				answer()
			case err != nil:
				http.Error(w, "no money", http.StatusBadRequest)
			case late:
				answer()
			}
		}, http2)
		for n := range 2 {
			if a := e.ask(asked{key: "k"}); a.status != http.StatusCreated || a.body != "charged" || a.replayed() != (n == 1) {
				t.Errorf("%d: %+v", n, a)
			}
		}
		if a := e.ask(asked{key: "late", path: "/pay/7?late"}); a.status != http.StatusCreated || a.body != "charged" {
			t.Errorf("late: %+v", a)
		}
		if a := e.ask(asked{key: "late", path: "/pay/7?late"}); a.problem() != httpkey.NotReplayed {
			t.Errorf("late, again: %+v", a)
		}
		for n := range 2 {
			if a := e.ask(asked{key: "fails", path: "/pay/7?fails"}); a.status != http.StatusBadRequest || a.body != "no money\n" || a.replayed() {
				t.Errorf("rolled back, %d: %+v", n, a)
			}
		}
		if a := e.ask(asked{key: "hides", path: "/pay/7?fails&hides"}); a.status < 500 || a.problem() == "" || a.header.Get("Link") != "" {
			t.Errorf("a success that was rolled back: %+v", a)
		}
	})
}

// A cipher works on after the handler's time is up, since the effect is there: what is stored is sealed, and opened for the repetition.
func TestSealedAfterItsTime(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	e := serve(t, idempotency.Options{Cipher: xor{}, Timeout: time.Millisecond}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		<-r.Context().Done()
		_, _ = io.WriteString(w, "done")
	}, false)
	for n := range 2 {
		if a := e.ask(asked{key: "k"}); a.status != http.StatusOK || a.body != "done" || a.replayed() != (n == 1) || runs.Load() != 1 {
			t.Errorf("%d: %+v after %d runs", n, a, runs.Load())
		}
	}
}

// xor is a cipher that asks its context.
type xor struct{}

func (xor) Seal(ctx context.Context, plain []byte) ([]byte, error) {
	sealed := make([]byte, len(plain))
	for n, b := range plain {
		sealed[n] = b ^ 0x55
	}
	return sealed, ctx.Err()
}

func (x xor) Open(ctx context.Context, sealed []byte) ([]byte, error) { return x.Seal(ctx, sealed) }

// A result that a handler has set itself needs no status.
func TestResultWithoutStatus(t *testing.T) {
	t.Parallel()
	l := openFile(t)
	e := serveOn(t, l, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if err := sqlite.InTx(r.Context(), func(ctx context.Context, _ *sql.Tx) error {
			return idempotency.SetResult(ctx, idempotency.Result{Body: []byte("paid")})
		}); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "paid")
	}, false)
	for n := range 2 {
		if a := e.ask(asked{key: "k"}); a.status != http.StatusOK || a.body != "paid" || a.replayed() != (n == 1) {
			t.Errorf("%d: %+v", n, a)
		}
	}
}

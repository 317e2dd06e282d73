package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
)

// handler is all routes.
type handler struct {
	orders *plan.Orders
	store  *store
	stops  sync.Once
}

// work is how long a handler takes before its effect, and again between that and its end, so that there is something to kill.
const work = 25 * time.Millisecond

// answer is never the same in two runs.
func (h *handler) answer(r *http.Request) string {
	return fmt.Sprintf("%s: %s, paid by %s", r.PathValue("id"), rand.Text(), h.orders.Name)
}

// send answers with all that is kept of an answer, which names the effect.
func send(w http.ResponseWriter, id, answer string) error {
	w.Header().Set("Location", plan.Receipt(id))
	w.Header().Set("Content-Type", "text/x-receipt")
	w.WriteHeader(http.StatusCreated)
	_, err := io.WriteString(w, answer)
	return err
}

// pay has its effect and its answer in one commit. It does not ask whether its context has ended: a process that was stopped goes on as if
// nothing had happened, and only the fence keeps it from paying twice.
func (h *handler) pay(w http.ResponseWriter, r *http.Request) {
	time.Sleep(work)
	h.stop()
	ctx := context.WithoutCancel(r.Context())
	err := h.store.inTx(ctx, func(put func(*effect) error) error {
		killpoint.At(plan.InTransaction)
		e := &effect{id: rand.Text(), path: r.URL.Path, answer: h.answer(r), process: h.orders.Name, token: int64(consumer.Token(ctx))}
		if err := put(e); err != nil {
			return err
		}
		killpoint.At(plan.Effected)
		time.Sleep(work)
		if err := send(w, e.id, e.answer); err != nil {
			return err
		}
		killpoint.At(plan.Answered)
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "pay:", err)
		http.Error(w, "not paid", http.StatusServiceUnavailable) // where the answer was not written yet; else the middleware says it
		return
	}
	killpoint.At(plan.Committed)
}

// outside has its effect elsewhere, under a key that is the same in each run.
func (h *handler) outside(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	e := &effect{id: rand.Text(), path: r.URL.Path, answer: h.answer(r)}
	if err := h.store.outside(ctx, consumer.ChildKey(ctx, "charge"), e); err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		http.Error(w, "not charged", http.StatusServiceUnavailable)
		return
	}
	killpoint.At(plan.Effected)
	time.Sleep(work)
	if err := send(w, e.id, e.answer); err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
	}
}

// calls makes outside calls, each of which is a step. Its answer is made of their ids, and names the first one.
func (h *handler) calls(w http.ResponseWriter, r *http.Request) {
	var ids []string
	for _, step := range plan.OutsideCalls {
		id, err := h.call(r, step)
		if err != nil {
			fmt.Fprintln(os.Stderr, "calls:", err)
			http.Error(w, "not called", http.StatusServiceUnavailable)
			return
		}
		ids = append(ids, id)
	}
	killpoint.At(plan.Effected)
	if err := send(w, ids[0], strings.Join(ids, " ")); err != nil {
		fmt.Fprintln(os.Stderr, "calls:", err)
	}
}

// call makes one outside call, unless an earlier attempt's is recorded, and returns its id. Like pay it does not ask whether its context has
// ended: only the ledger keeps a process that was stopped from recording.
func (h *handler) call(r *http.Request, step string) (id string, err error) {
	ctx := context.WithoutCancel(r.Context())
	row := call{path: r.URL.Path, step: step, child: consumer.ChildKey(ctx, step), token: int64(consumer.Token(ctx))}
	row.id, err = consumer.Step(ctx, step, func(ctx context.Context, key string) (string, error) {
		time.Sleep(work)
		made := row
		made.child, made.id = key, rand.Text()
		if err := h.store.note(ctx, plan.CallMade, &made); err != nil {
			return "", err
		}
		killpoint.At(plan.Called)
		h.stop()
		return made.id, nil
	})
	if err != nil {
		return "", err
	}
	killpoint.At(plan.Recorded)
	return row.id, h.store.note(ctx, plan.CallReturned, &row)
}

// stop stops the process, once, if that is ordered, and returns when it was woken.
func (h *handler) stop() {
	if !h.orders.Stop {
		return
	}
	h.stops.Do(func() {
		woken := make(chan os.Signal, 1)
		signal.Notify(woken, syscall.SIGCONT)
		defer signal.Stop(woken)
		fmt.Println(plan.Stopping)
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			panic(err)
		}
		<-woken
	})
}

// around has the process die where a request comes, and while its answer goes.
func (h *handler) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		killpoint.At(killpoint.Received)
		next.ServeHTTP(&halves{ResponseWriter: w}, r)
	})
}

// halves sends what was created in two parts, and dies in between.
type halves struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (h *halves) WriteHeader(status int) {
	h.status = status
	h.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the rest.
func (h *halves) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Write implements http.ResponseWriter.
func (h *halves) Write(p []byte) (n int, err error) {
	if h.status != http.StatusCreated { // a problem, such as that of a lease that was lost on a slow machine
		return h.ResponseWriter.Write(p)
	}
	killpoint.At(plan.Sending)
	half := len(p) / 2
	if n, err = h.ResponseWriter.Write(p[:half]); err != nil {
		return n, err
	}
	if err = http.NewResponseController(h.ResponseWriter).Flush(); err != nil {
		return n, err
	}
	killpoint.At(plan.HalfSent)
	rest, err := h.ResponseWriter.Write(p[half:])
	return n + rest, err
}

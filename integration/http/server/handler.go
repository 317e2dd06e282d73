package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
)

// handler is both routes.
type handler struct {
	orders *plan.Orders
	store  *store
	stops  sync.Once
}

// work is how long a handler takes before its effect, and again between that and its commit, so that there is something to kill.
const work = 25 * time.Millisecond

// answer is never the same in two runs.
func (h *handler) answer(r *http.Request) string {
	return fmt.Sprintf("%s: %s, paid by %s", r.PathValue("id"), rand.Text(), h.orders.Name)
}

// send answers with all that is kept of an answer.
func send(w http.ResponseWriter, answer string) error {
	w.Header().Set("Location", "/receipts/"+fmt.Sprintf("%x", answer))
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
		answer := h.answer(r)
		if err := put(&effect{r.PathValue("id"), answer, h.orders.Name, int64(consumer.Token(ctx))}); err != nil {
			return err
		}
		killpoint.At(plan.Effected)
		time.Sleep(work)
		if err := send(w, answer); err != nil {
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
	answer, err := h.store.outside(ctx, consumer.ChildKey(ctx, "charge"), r.PathValue("id"), h.answer(r))
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		http.Error(w, "not charged", http.StatusServiceUnavailable)
		return
	}
	killpoint.At(plan.Effected)
	if err := send(w, answer); err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
	}
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

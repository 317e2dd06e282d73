package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// handler does what its message's body, the seed and the attempt say.
type handler struct {
	orders  *plan.Orders
	page    *plan.Page
	store   *store
	journal *os.File
}

func newHandler(o *plan.Orders, page *plan.Page, s *store) (*handler, error) {
	f, err := os.OpenFile(o.Journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &handler{orders: o, page: page, store: s, journal: f}, nil
}

var errDrawn = errors.New("drawn from the seed")

// Handle implements consumer.Handler.
func (h *handler) Handle(ctx context.Context, m *consumer.Message) error {
	h.page.Add(plan.Running, 1)
	defer h.page.Add(plan.Running, -1) // also after a panic and a Goexit
	h.page.Add(plan.Begun, 1)
	if err := h.note(ctx, m); err != nil {
		return err
	}
	switch plan.Parse(m.Body) {
	case plan.Bad:
		return consumer.Terminal(errDrawn)
	case plan.Failing:
		return errDrawn
	case plan.Poison:
		h.page.Add(plan.Poisons, 1)
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {} // the signal is on its way
	}
	return h.work(ctx, m)
}

// note enters in the journal that the handler of a message begins. It is one write to a file opened for appending: lines of
// several processes do not mix, and a killed one's stay.
func (h *handler) note(ctx context.Context, m *consumer.Message) error {
	_, err := fmt.Fprintf(h.journal, "%d %s %d %d %s %s\n", time.Now().UnixNano(), h.orders.Name,
		consumer.Token(consumer.For(ctx, m)), m.Attempt, m.ID, m.Body)
	return err
}

// work is the effect of a message that is to succeed, and what is drawn beside it.
func (h *handler) work(ctx context.Context, m *consumer.Message) error {
	fault, lasts := plan.Draw(h.orders.Seed, m.Body, m.Attempt)
	if !h.orders.Faults {
		fault = plan.NoFault
	}
	if err := h.calls(ctx, m); err != nil {
		return err
	}
	if deaf := plan.Deafness(h.orders.Seed, m.Body, m.Attempt, h.orders.Deaf, h.orders.DeafFor); deaf > 0 {
		return h.deaf(ctx, m, deaf)
	}
	if err := pause(ctx, lasts); err != nil {
		return err
	}
	switch fault {
	case plan.Error:
		h.page.Add(plan.Errors, 1)
		if h.orders.Parks {
			return consumer.RetryAfter(errDrawn, 1200*time.Millisecond)
		}
		return errDrawn
	case plan.Panic:
		h.page.Add(plan.Panics, 1)
		panic(errDrawn)
	case plan.Goexit:
		h.page.Add(plan.Goexits, 1)
		runtime.Goexit()
	case plan.Hang:
		h.page.Add(plan.Hangs, 1)
		<-ctx.Done()
		return context.Cause(ctx)
	case plan.Slow:
		h.page.Add(plan.Slows, 1)
	}
	if err := h.effect(ctx, m); err != nil {
		return err
	}
	h.page.Add(plan.Succeeded, 1)
	if fault == plan.AfterEffect {
		h.page.Add(plan.AfterEffects, 1)
		return errDrawn
	}
	return nil
}

// effect is that of a message's class.
func (h *handler) effect(ctx context.Context, m *consumer.Message) error {
	if plan.Parse(m.Body) == plan.Plain {
		return h.store.plain(ctx, m)
	}
	return h.store.effect(ctx, m)
}

// deaf goes on for so long after its context has ended, with its message's time limit or its worker's lease, and then has
// its effect all the same, if the fence lets it (a plain one has none).
func (h *handler) deaf(ctx context.Context, m *consumer.Message, lasts time.Duration) error {
	<-ctx.Done()
	h.page.Add(plan.Deafs, 1)
	time.Sleep(lasts)
	if err := h.effect(context.WithoutCancel(ctx), m); err != nil {
		return err
	}
	h.page.Add(plan.Succeeded, 1)
	return nil
}

// pause is work that takes time.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flaky is a dead-letter target that refuses some.
type flaky struct {
	consumer.DeadLetterer
	orders *plan.Orders
	page   *plan.Page
	n      *atomic.Int64
}

func (f flaky) Publish(ctx context.Context, d *consumer.DeadLetter) error {
	if plan.Refuses(f.orders.Seed, f.orders.Name, int(f.n.Add(1)), f.orders.Refuse) {
		f.page.Add(plan.Refused, 1)
		return errDrawn
	}
	err := f.DeadLetterer.Publish(ctx, d)
	if err != nil {
		f.page.Add(plan.Unsent, 1)
	}
	return err
}

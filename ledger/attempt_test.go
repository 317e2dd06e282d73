package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func TestAttemptHasOneTransaction(t *testing.T) {
	failure := errors.New("rolled back")
	for name, c := range map[string]struct {
		state ledger.AttemptState
		err   error
	}{
		"committed":   {ledger.AttemptSucceeded, nil},
		"rolled back": {ledger.AttemptOpen, failure},
		"lost":        {ledger.AttemptLost, ledger.ErrLost},
		"unknown":     {ledger.AttemptUnknown, failure},
	} {
		a := ledger.NewAttempt(nil, ledger.Ticket{})
		if err := a.Begin(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := a.Begin(); !errors.Is(err, ledger.ErrSettled) {
			t.Errorf("%s: a second transaction inside the first one: %v", name, err)
		}
		a.End(c.state, c.err)
		if err := a.Begin(); !errors.Is(err, ledger.ErrSettled) {
			t.Errorf("%s: a second transaction: %v", name, err)
		}
		if state, err := a.State(); state != c.state || !errors.Is(err, c.err) {
			t.Errorf("%s: state %d, %v", name, state, err)
		}
	}
}

// Once the settlement is on its way, no transaction begins and no result is set; a transaction that runs goes on.
func TestAttemptConclude(t *testing.T) {
	a := ledger.NewAttempt(nil, ledger.Ticket{})
	if state, err := a.Conclude(); state != ledger.AttemptOpen || err != nil {
		t.Errorf("state %d, %v", state, err)
	}
	if err := a.Begin(); !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("a transaction that begins afterwards: %v", err)
	}
	if err := a.SetResult([]byte("late")); !errors.Is(err, ledger.ErrSettled) || a.Result() != nil {
		t.Errorf("a result that is set afterwards: %v, %q", err, a.Result())
	}
	if state, _ := a.State(); state != ledger.AttemptOpen {
		t.Errorf("state %d", state)
	}
	a = ledger.NewAttempt(nil, ledger.Ticket{})
	if err := a.Begin(); err != nil {
		t.Fatal(err)
	}
	if state, _ := a.Conclude(); state != ledger.AttemptRunning {
		t.Errorf("state %d of one that runs", state)
	}
	a.End(ledger.AttemptSucceeded, nil)
	if state, _ := a.State(); state != ledger.AttemptSucceeded {
		t.Errorf("state %d of one that has ended since", state)
	}
}

func TestAttemptResult(t *testing.T) {
	a := ledger.NewAttempt(nil, ledger.NewTicket([ledger.KeySize]byte{1}, 3))
	ctx := ledger.WithAttempt(t.Context(), a)
	if got, ok := ledger.AttemptFrom(ctx); !ok || got != a || got.Ticket().Token() != 3 || got.Owner() != nil {
		t.Fatalf("the context carries %v, %t", got, ok)
	}
	if _, ok := ledger.AttemptFrom(context.Background()); ok {
		t.Error("an empty context carries an attempt")
	}
	given := []byte("result")
	if err := a.SetResult(given); err != nil {
		t.Fatal(err)
	}
	given[0] = 'X'
	if string(a.Result()) != "result" {
		t.Errorf("result %q: not copied", a.Result())
	}
	if err := a.SetResult([]byte{}); err != nil || a.Result() == nil {
		t.Errorf("empty became nil, %v", err)
	}
	if err := a.SetResult(nil); err != nil || a.Result() != nil {
		t.Errorf("nil became empty, %v", err)
	}
	a.End(ledger.AttemptSucceeded, nil)
	if err := a.SetResult(given); !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("a result after the commit: %v", err)
	}
}

func TestBatchAttempt(t *testing.T) {
	ticket := func(n byte) ledger.Ticket { return ledger.NewTicket([ledger.KeySize]byte{n}, uint64(n)) }
	var a ledger.Attempt // part of a larger value
	a.InitBatch(nil, []ledger.Ticket{ticket(1), ticket(2), ticket(3)})
	if a.Ticket() != ticket(1) || len(a.Tickets()) != 3 || a.Tickets()[2] != ticket(3) {
		t.Fatalf("tickets %v, the first %v", a.Tickets(), a.Ticket())
	}
	if err := a.Begin(); err != nil {
		t.Fatal(err)
	}
	for i, result := range [][]byte{nil, {}, []byte("third")} {
		if err := a.SetResultAt(i, result); err != nil || string(a.ResultAt(i)) != string(result) || (a.ResultAt(i) == nil) != (result == nil) {
			t.Errorf("result %d is %q (%v), want %q", i, a.ResultAt(i), err, result)
		}
	}
	var invalid *ledger.InvalidError
	for _, i := range []int{-1, 3} {
		if err := a.SetResultAt(i, nil); !errors.As(err, &invalid) || a.ResultAt(i) != nil {
			t.Errorf("index %d: %v", i, err)
		}
	}
	if err := a.SetResult([]byte("whose?")); !errors.As(err, &invalid) || a.Result() != nil {
		t.Errorf("a result of the whole batch: %v", err)
	}
	a.End(ledger.AttemptSucceeded, nil)
	if err := a.SetResultAt(1, nil); !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("a result after the commit: %v", err)
	}
	for name, tickets := range map[string][]ledger.Ticket{"nil": nil, "none": {}, "one twice": {ticket(1), ticket(2), ticket(1)}} {
		if err := ledger.NewBatchAttempt(nil, tickets).Begin(); !errors.As(err, &invalid) {
			t.Errorf("%s: Begin says %v", name, err)
		}
	}
}

// TestAttemptAllocations: an attempt that is part of a larger value costs no allocation of its own.
func TestAttemptAllocations(t *testing.T) {
	type run struct{ attempt ledger.Attempt }
	r := new(run)
	var sum int
	if n := testing.AllocsPerRun(100, func() {
		*r = run{}
		r.attempt.Init(nil, ledger.NewTicket([ledger.KeySize]byte{1}, 3))
		sum += len(r.attempt.Tickets()) + len(r.attempt.ResultAt(0))
		if a, ok := ledger.AttemptFrom(carrier{t.Context(), &r.attempt}.asContext()); !ok || a != &r.attempt {
			t.Fatal("the context does not carry the attempt")
		}
	}); n > 1 { // the carrier itself
		t.Errorf("%v allocations, want 1", n)
	}
}

// carrier is a context type that carries an attempt itself.
type carrier struct {
	context.Context
	attempt *ledger.Attempt
}

func (c carrier) asContext() context.Context { return c }

func (c carrier) Value(key any) any {
	if v, ok := ledger.AttemptValue(key, c.attempt); ok {
		return v
	}
	return c.Context.Value(key)
}

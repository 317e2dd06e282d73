package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

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

func TestPulse(t *testing.T) {
	const lease = 30 * time.Second
	start := time.Unix(1700000000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	p := ledger.NewPulse(lease, start)
	for s := 10; s < 30; s += 10 {
		p.Confirmed(at(s), at(s))
		if p.MaySeal(at(s)) {
			t.Fatalf("seals after %d s", s)
		}
	}
	p.Confirmed(at(30), at(30))
	if !p.MaySeal(at(30)) {
		t.Fatal("does not seal after a whole lease")
	}
	if p.MaySeal(at(61)) {
		t.Fatal("seals although its own lease is over")
	}
	p.Missed(at(40)) // an outage: everyone has a lease's time to return first
	p.Confirmed(at(50), at(50))
	if p.MaySeal(at(69)) {
		t.Fatal("seals 29 s after a missed beat")
	}
	p.Confirmed(at(69), at(69))
	if !p.MaySeal(at(70)) {
		t.Fatal("does not seal a lease after a missed beat")
	}
	p.Confirmed(at(90), at(100)) // answered after the lease before it (99 s) was over
	p.Confirmed(at(110), at(110))
	if p.MaySeal(at(129)) {
		t.Fatal("seals 29 s after a late answer")
	}
	p.Confirmed(at(129), at(129))
	if !p.MaySeal(at(130)) {
		t.Fatal("does not seal a lease after a late answer")
	}
}

func TestDBClock(t *testing.T) {
	var c ledger.DBClock
	now := time.Now()
	if !c.At(now).IsZero() {
		t.Error("an unknown clock has a time")
	}
	db := now.Add(-time.Hour) // a worker's clock is an hour ahead
	c.Note(db, now)
	if got := c.At(now.Add(10 * time.Second)); !got.Equal(db.Add(10 * time.Second)) {
		t.Errorf("the database's clock in 10 s: %s, want %s", got, db.Add(10*time.Second))
	}
}

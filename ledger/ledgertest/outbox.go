package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// RunOutbox is the suite of stores with an outbox. The store has the fields InTx, Effect and Effects, and its ledger is a [ledger.Outbox].
func RunOutbox(t *testing.T, open Open) {
	for _, c := range []testCase{
		{"Outbox_InTheCommit", outboxCommit},
		{"Outbox_RolledBack", outboxRolledBack},
		{"Outbox_FencedAfterTakeOver", outboxFenced},
		{"Outbox_OutsideOfInTx", outboxOutside},
		{"Outbox_Invalid", outboxInvalid},
		{"Outbox_OfABatch", outboxBatch},
		{"Outbox_RoundTrip", outboxRoundTrip},
		{"Outbox_Order", outboxOrder},
		{"Outbox_Bounds", outboxBounds},
		{"Outbox_Refused", outboxRefused},
		{"Outbox_Leases", outboxLeases},
		{"Outbox_Stats", outboxStats},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(beginOutbox(t, open))
		})
	}
}

func beginOutbox(t *testing.T, open Open) *env {
	t.Helper()
	e := begin(t, open)
	if _, ok := e.Ledger.(ledger.Outbox); !ok || e.InTx == nil || e.Effect == nil || e.Effects == nil {
		t.Fatal("ledgertest.Store: InTx, Effect, Effects and a ledger.Outbox are needed")
	}
	return e
}

func (e *env) box() ledger.Outbox { return e.Ledger.(ledger.Outbox) }

// target is one that nobody else uses.
func (e *env) target() string {
	at := strings.LastIndexByte(e.scope, ' ') + 1
	return "t-" + e.scope[at:]
}

// publishes runs an InTx of a message of its own that publishes, and has an effect.
func (e *env) publishes(id string, messages ...ledger.Outgoing) {
	e.Helper()
	o, m := e.owner(), e.entry(id)
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	err := e.InTx(ctx, func(ctx context.Context) error {
		if err := e.Effect(ctx, m.Key.String()); err != nil {
			return err
		}
		return a.Publish(ctx, messages...)
	})
	if err != nil {
		e.Fatalf("InTx: %v", err)
	}
	e.wantState(a, ledger.AttemptSucceeded)
	e.wantEffects(m, 1)
}

// lists returns what waits for a target.
func (e *env) lists(target string) []ledger.Queued {
	e.Helper()
	list, err := e.box().ListOutbox(e.ctx, target, 0, 10_000, true)
	if err != nil {
		e.Fatalf("ListOutbox: %v", err)
	}
	return list
}

func (e *env) wantBodies(what string, list []ledger.Queued, want ...string) {
	e.Helper()
	var got []string
	for i := range list {
		got = append(got, string(list[i].Body))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Fatalf("%s: %q, want %q", what, got, want)
	}
}

// lane takes the lane of a target in which something lies.
func (e *env) lane(target string, lease time.Duration) ledger.Lane {
	e.Helper()
	l, ok, err := e.box().TakeLane(e.ctx, []string{target}, lease)
	if err != nil || !ok || l.Target != target {
		e.Fatalf("TakeLane: %+v, %v, %v; want one of %q", l, ok, err, target)
	}
	return l
}

func (e *env) next(l ledger.Lane, report ledger.LaneReport) []ledger.Queued {
	e.Helper()
	list, err := e.box().NextOutgoing(e.ctx, l, longLease, report, 100, 1<<20)
	if err != nil {
		e.Fatalf("NextOutgoing: %v", err)
	}
	return list
}

// keyed is a message of the one key of a case, so that all lie in one lane.
func (e *env) keyed(body string) ledger.Outgoing {
	return ledger.Outgoing{Target: e.target(), Key: []byte("k"), Body: []byte(body)}
}

func outboxCommit(e *env) {
	e.publishes("a", e.keyed("1"), e.keyed("2"))
	e.publishes("b")
	e.publishes("c", e.keyed("3"))
	list := e.lists(e.target())
	e.wantBodies("what waits", list, "1", "2", "3")
	if list[0].Num >= list[1].Num || list[1].Num >= list[2].Num || list[0].ID == "" || list[0].ID == list[1].ID {
		e.Fatalf("numbers or ids: %+v", list)
	}
	if age := time.Since(list[0].At); age < -time.Minute || age > time.Hour {
		e.Fatalf("written %s ago", age)
	}
}

func outboxRolledBack(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	before := e.record(m)
	ctx, a := e.attempt(o, c)
	err := e.InTx(ctx, func(ctx context.Context) error { return errors.Join(a.Publish(ctx, e.keyed("1")), errHandler) })
	if !errors.Is(err, errHandler) {
		e.Fatalf("InTx: %v, want the handler's error", err)
	}
	stillOurs(e, o, m, c, a, before)
	e.wantBodies("after a rollback", e.lists(e.target()))
}

func outboxFenced(e *env) {
	o, b, m := e.owner(), e.owner(), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	e.declare(o)
	taken := e.want(b, m, ledger.Run)
	err := e.InTx(ctx, func(ctx context.Context) error { return a.Publish(ctx, e.keyed("1")) })
	if !ledger.IsLost(err) {
		e.Fatalf("InTx: %v, want ErrLost", err)
	}
	e.wantBodies("of a message that was lost", e.lists(e.target()))
	e.holds(b, succeed(taken))
}

func outboxOutside(e *env) {
	o, m := e.owner(), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	if err := a.Publish(ctx, e.keyed("1")); !errors.Is(err, ledger.ErrNotInTx) {
		e.Fatalf("Publish before InTx: %v, want ErrNotInTx", err)
	}
	if err := e.InTx(ctx, e.effect(m)); err != nil {
		e.Fatal(err)
	}
	if err := a.Publish(ctx, e.keyed("1")); !errors.Is(err, ledger.ErrNotInTx) {
		e.Fatalf("Publish after InTx: %v, want ErrNotInTx", err)
	}
	e.wantBodies("outside of InTx", e.lists(e.target()))
}

func outboxInvalid(e *env) {
	o, m := e.owner(), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	bad := []ledger.Outgoing{
		{}, {Target: strings.Repeat("t", ledger.MaxTarget+1)}, {Target: "a\nb"}, {Target: "\xff"},
		{Target: "t", Key: make([]byte, ledger.MaxOutgoingKey+1)}, {Target: "t", ID: strings.Repeat("i", ledger.MaxID+1)},
		{Target: "t", Body: make([]byte, ledger.MaxOutgoingBytes)},
	}
	err := e.InTx(ctx, func(ctx context.Context) error {
		for i, m := range bad {
			var invalid *ledger.InvalidError
			if err := a.Publish(ctx, e.keyed("no"), m); !errors.As(err, &invalid) {
				e.Errorf("message %d: %v, want an InvalidError", i, err)
			}
		}
		var invalid *ledger.InvalidError
		if err := a.Publish(ctx, make([]ledger.Outgoing, 0)...); err != nil {
			e.Errorf("nothing: %v", err)
		}
		many := make([]ledger.Outgoing, ledger.MaxOutgoing+1)
		for i := range many {
			many[i] = e.keyed("no")
		}
		if err := a.Publish(ctx, many...); !errors.As(err, &invalid) {
			e.Errorf("%d messages: %v, want an InvalidError", len(many), err)
		}
		return a.Publish(ctx, e.keyed("yes"))
	})
	if err != nil {
		e.Fatal(err)
	}
	e.wantBodies("beside what was refused", e.lists(e.target()), "yes")
}

func outboxBatch(e *env) {
	o := e.owner()
	var tickets []ledger.Ticket
	for i := range 3 {
		tickets = append(tickets, e.want(o, e.entry(number(i)), ledger.Run).Ticket)
	}
	a := ledger.NewBatchAttempt(o, tickets)
	ctx := ledger.WithAttempt(e.ctx, a)
	err := e.InTx(ctx, func(ctx context.Context) error {
		return errors.Join(e.Effect(ctx, "batch "+e.target()), a.Publish(ctx, e.keyed("1")), a.Publish(ctx, e.keyed("2"), e.keyed("3")))
	})
	if err != nil {
		e.Fatal(err)
	}
	e.wantBodies("of a batch", e.lists(e.target()), "1", "2", "3")
}

// outboxRoundTrip: all that a message has comes back to the byte.
func outboxRoundTrip(e *env) {
	m := ledger.Outgoing{Target: e.target(), Key: []byte{0, 0xff}, Body: []byte("\x00\xffbody"), ID: "id \x01\xfe",
		Headers: []ledger.Header{{Name: "a", Value: []byte{0}}, {Name: "a", Value: nil, Type: "String"}}}
	none := ledger.Outgoing{Target: e.target(), ID: "bare"}
	e.publishes("a", m, none)
	got := map[string]ledger.Queued{}
	for range 2 {
		l := e.lane(e.target(), longLease)
		for _, q := range e.next(l, ledger.LaneReport{}) {
			got[q.ID] = q
		}
	}
	q := got[m.ID]
	if string(q.Key) != string(m.Key) || string(q.Body) != string(m.Body) || len(q.Headers) != 2 || q.Headers[0].Name != "a" ||
		string(q.Headers[0].Value) != "\x00" || q.Headers[1].Type != "String" || q.Tries != 0 || q.Target != m.Target {
		e.Fatalf("got %+v, want %+v", q, m)
	}
	if b, ok := got["bare"]; !ok || len(b.Key) != 0 || len(b.Body) != 0 || len(b.Headers) != 0 {
		e.Fatalf("got %+v, want nothing but an id", b)
	}
}

func outboxOrder(e *env) {
	for i := range 5 {
		e.publishes(number(i), e.keyed(fmt.Sprint(2*i)), e.keyed(fmt.Sprint(2*i+1)))
	}
	l := e.lane(e.target(), longLease)
	first, err := e.box().NextOutgoing(e.ctx, l, longLease, ledger.LaneReport{}, 3, 1<<20)
	if err != nil {
		e.Fatal(err)
	}
	e.wantBodies("the first", first, "0", "1", "2")
	e.wantBodies("the rest", e.next(l, ledger.LaneReport{Done: nums(first)}), "3", "4", "5", "6", "7", "8", "9")
	if _, ok, err := e.box().TakeLane(e.ctx, []string{e.target(), "another"}, longLease); ok || err != nil {
		e.Fatalf("a lane that somebody has: %v, %v", ok, err)
	}
}

func nums(list []ledger.Queued) (all []int64) {
	for i := range list {
		all = append(all, list[i].Num)
	}
	return all
}

// outboxBounds: a page ends once it has its bytes, and has one message at least.
func outboxBounds(e *env) {
	e.publishes("a", e.keyed("aaaa"), e.keyed("bbbb"), e.keyed("cccc"))
	l := e.lane(e.target(), longLease)
	for size, want := range map[int]int{1: 1, 4: 1, 5: 2, 8: 2, 9: 3} {
		list, err := e.box().NextOutgoing(e.ctx, l, longLease, ledger.LaneReport{}, 100, size)
		if err != nil || len(list) != want {
			e.Fatalf("%d bytes: %d messages (%v), want %d", size, len(list), err, want)
		}
	}
	list, err := e.box().ListOutbox(e.ctx, e.target(), 0, 2, false)
	if err != nil || len(list) != 2 || list[0].Body != nil || list[0].Size != 4 {
		e.Fatalf("ListOutbox: %+v, %v", list, err)
	}
	rest, err := e.box().ListOutbox(e.ctx, e.target(), list[1].Num, 2, true)
	if err != nil {
		e.Fatal(err)
	}
	e.wantBodies("the next page", rest, "cccc")
}

// outboxRefused: what is not due holds up its key, and no other of its lane.
func outboxRefused(e *env) {
	e.publishes("a", e.keyed("1"), ledger.Outgoing{Target: e.target(), Key: sameLane(e), Body: []byte("other")}, e.keyed("2"))
	l := e.lane(e.target(), longLease)
	list := e.next(l, ledger.LaneReport{})
	e.wantBodies("before", list, "1", "other", "2")
	refuse := func(after time.Duration) ledger.LaneReport {
		return ledger.LaneReport{Failed: []ledger.SendFailure{{Num: list[0].Num, After: after, Error: "no\x00\xff " + strings.Repeat("x", 9000)}}}
	}
	e.wantBodies("while it is not due", e.next(l, refuse(time.Hour)), "other")
	again := e.next(l, refuse(0))
	e.wantBodies("once it is due", again, "1", "other", "2")
	if q := again[0]; q.Tries != 2 || !strings.HasPrefix(q.Error, "no") || len(q.Error) > 4096 {
		e.Fatalf("tries %d, error %.40q of %d bytes", q.Tries, q.Error, len(q.Error))
	}
	e.wantBodies("once it is gone", e.next(l, ledger.LaneReport{Done: []int64{list[0].Num}}), "other", "2")
}

// sameLane is another key of the lane of [env.keyed].
func sameLane(e *env) []byte {
	e.Helper()
	want := laneOf("k")
	for i := range 10_000 {
		if key := fmt.Sprint("k", i); laneOf(key) == want {
			return []byte(key)
		}
	}
	e.Fatal("no other key has the lane")
	return nil
}

func laneOf(key string) int {
	shard, _ := storage.LaneOf(&ledger.Outgoing{Key: []byte(key)})
	return shard
}

func outboxLeases(e *env) {
	e.publishes("a", e.keyed("1"))
	old := e.lane(e.target(), time.Millisecond)
	var l ledger.Lane
	for end := time.Now().Add(patience); ; {
		var ok bool
		var err error
		if l, ok, err = e.box().TakeLane(e.ctx, []string{e.target()}, longLease); err != nil {
			e.Fatal(err)
		} else if ok {
			break
		}
		if time.Now().After(end) {
			e.Fatal("a lease that ended is not taken over")
		}
	}
	if l.Token <= old.Token {
		e.Fatalf("token %d, want above %d", l.Token, old.Token)
	}
	list := e.next(l, ledger.LaneReport{})
	e.wantBodies("of who took over", list, "1")
	if err := e.box().LeaveLane(e.ctx, old, ledger.LaneReport{}, 0); !ledger.IsLost(err) {
		e.Fatalf("LeaveLane by who lost it: %v, want ErrLost", err)
	}
	if err := e.box().LeaveLane(e.ctx, l, ledger.LaneReport{}, time.Hour); err != nil {
		e.Fatal(err)
	}
	if _, ok, err := e.box().TakeLane(e.ctx, []string{e.target()}, longLease); ok || err != nil {
		e.Fatalf("a lane that rests: %v, %v", ok, err)
	}
}

func outboxStats(e *env) {
	e.publishes("a", e.keyed("1234"), e.keyed("56"))
	l := e.lane(e.target(), longLease)
	list := e.next(l, ledger.LaneReport{})
	e.next(l, ledger.LaneReport{Failed: []ledger.SendFailure{{Num: list[0].Num}}})
	if s := e.boxStats(); s.Waiting != 2 || s.Bytes != 6 || s.Failing != 1 || s.Oldest < 0 || s.Oldest > time.Hour || s.Untaken != 0 {
		e.Fatalf("of a lane that somebody has: %+v", s)
	}
	if err := e.box().LeaveLane(e.ctx, l, ledger.LaneReport{}, 0); err != nil {
		e.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		s := e.boxStats()
		if s.Untaken > 0 && s.Untaken <= s.Oldest {
			return
		}
		if time.Now().After(end) {
			e.Fatalf("of a lane that nobody has: %+v", s)
		}
	}
}

// boxStats are those of the case's target.
func (e *env) boxStats() ledger.OutboxStats {
	e.Helper()
	all, err := e.box().OutboxStats(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	for _, s := range all {
		if s.Target == e.target() {
			return s
		}
	}
	e.Fatalf("no stats of %q among %d", e.target(), len(all))
	return ledger.OutboxStats{}
}

// Pitfall241 holds against this: a message of the outbox was refused, and a later one of its key was sent before it.
func Pitfall241(t *testing.T, open Open) {
	e := beginOutbox(t, open)
	e.publishes("a", e.keyed("1"), e.keyed("2"))
	l := e.lane(e.target(), longLease)
	list := e.next(l, ledger.LaneReport{})
	report := ledger.LaneReport{Failed: []ledger.SendFailure{{Num: list[0].Num, After: time.Hour}}}
	e.wantBodies("behind one that is not due", e.next(l, report))
}

// Pitfall274 holds against this: a message that could not be given to its target counted as refused by it.
func Pitfall274(t *testing.T, open Open) {
	e := beginOutbox(t, open)
	e.publishes("a", e.keyed("1"), e.keyed("2"))
	l := e.lane(e.target(), longLease)
	list := e.next(l, ledger.LaneReport{})
	report := ledger.LaneReport{Failed: []ledger.SendFailure{{Num: list[0].Num, After: time.Hour, Error: "closed", Uncounted: true}}}
	e.wantBodies("behind one that is not due", e.next(l, report))
	if q := e.lists(e.target())[0]; q.Tries != 0 || q.Error != "closed" || q.Due.IsZero() {
		t.Fatalf("put off without a count: %+v", q)
	}
	report.Failed[0].Uncounted = false
	e.next(l, report)
	if q := e.lists(e.target())[0]; q.Tries != 1 {
		t.Fatalf("refused once: %+v", q)
	}
}

// Pitfall244 holds against this: a relay whose lane somebody else had taken over was given messages all the same, so that two sent them at
// once, each in its own order. What it had sent is removed.
func Pitfall244(t *testing.T, open Open) {
	e := beginOutbox(t, open)
	e.publishes("a", e.keyed("1"), e.keyed("2"))
	old := e.lane(e.target(), time.Hour)
	sent := e.next(old, ledger.LaneReport{})[:1]
	if err := e.box().LeaveLane(e.ctx, old, ledger.LaneReport{}, 0); err != nil {
		t.Fatal(err)
	}
	l := e.lane(e.target(), longLease)
	list, err := e.box().NextOutgoing(e.ctx, old, longLease, ledger.LaneReport{Done: nums(sent)}, 100, 1<<20)
	if !ledger.IsLost(err) || len(list) > 0 {
		t.Fatalf("who lost the lane: %d messages, %v; want ErrLost", len(list), err)
	}
	e.wantBodies("of who has it", e.next(l, ledger.LaneReport{}), "2")
}

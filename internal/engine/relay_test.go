package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// shop is a publisher that keeps what it was sent.
type shop struct {
	mu    sync.Mutex
	got   []consumer.Publication
	calls int
	// refuse says why a message is not taken; n is how many come with it.
	refuse func(m *consumer.Publication, n int) error
}

func (p *shop) Source(context.Context) (string, error) { return "cluster/topic", nil }

func (p *shop) Publish(_ context.Context, messages []consumer.Publication) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	errs := make([]error, len(messages))
	failed := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if key := string(m.Key); key != "" && failed[key] {
			errs[i] = ledger.MarkUnavailable(errors.New("behind"))
			continue
		}
		if p.refuse != nil {
			errs[i] = p.refuse(m, len(messages))
		}
		if errs[i] != nil {
			failed[string(m.Key)] = true
			continue
		}
		p.got = append(p.got, *m)
	}
	return errs
}

func (p *shop) bodies() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.got {
		all = append(all, string(p.got[i].Body))
	}
	return all
}

// relaying is a ledger in memory with a relay that runs until the test ends.
type relaying struct {
	*testing.T
	*memory.Ledger
	n int
}

func relay(t *testing.T, cfg consumer.Relay) *relaying {
	t.Helper()
	l := memory.New()
	cfg.Interval = 10 * time.Millisecond
	r, err := engine.NewRelay(l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		defer r.Close()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); over.Wait() })
	return &relaying{T: t, Ledger: l}
}

// publish runs one InTx.
func (r *relaying) publish(messages ...ledger.Outgoing) {
	r.Helper()
	r.publishIn(r.Context(), messages...)
}

func (r *relaying) publishIn(ctx context.Context, messages ...ledger.Outgoing) {
	r.Helper()
	o, err := r.Join(r.Context(), time.Minute)
	if err != nil {
		r.Fatal(err)
	}
	r.n++
	key := ledger.Key{Scope: r.Name(), ID: fmt.Appendf(nil, "%d", r.n)}
	c, err := o.Claim(r.Context(), []ledger.Entry{{Key: key, Fingerprint: ledger.BodyFingerprint(key.ID), Delivery: key.ID, Window: time.Hour}})
	if err != nil {
		r.Fatal(err)
	}
	ctx = ledger.WithAttempt(ctx, ledger.NewAttempt(o, c[0].Ticket))
	if err := memory.InTx(ctx, func(ctx context.Context) error { return consumer.Publish(ctx, messages...) }); err != nil {
		r.Fatal(err)
	}
}

// until waits for what must come.
func (r *relaying) until(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%s: not within a minute", what)
		}
	}
}

// empty waits until nothing is in the outbox.
func (r *relaying) empty() {
	r.Helper()
	r.until("the outbox is empty", func() bool {
		list, err := r.ListOutbox(r.Context(), "", 0, 1, false)
		return err == nil && len(list) == 0
	})
}

func (r *relaying) archived() (all []ledger.DeadLetter) {
	r.Helper()
	for d, err := range r.DeadLetters(r.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func keyed(key, body string) ledger.Outgoing {
	return ledger.Outgoing{Target: "a", Key: []byte(key), Body: []byte(body)}
}

func TestRelay(t *testing.T) {
	t.Parallel()
	a, b := &shop{}, &shop{}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a, "b": b}})
	want := map[string][]string{}
	for i := range 200 {
		key := fmt.Sprint("k", i%7)
		want[key] = append(want[key], fmt.Sprint(i))
		r.publish(keyed(key, fmt.Sprint(i)))
	}
	r.publish(ledger.Outgoing{Target: "b", Body: []byte("of b"), ID: "its id"})
	r.publish(ledger.Outgoing{Target: "nobody's"})
	r.until("all is sent", func() bool { return len(a.bodies()) == 200 && len(b.bodies()) == 1 })
	got := map[string][]string{}
	for i := range a.got {
		got[string(a.got[i].Key)] = append(got[string(a.got[i].Key)], string(a.got[i].Body))
	}
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("key %s: %v, want %v", key, got[key], want[key])
		}
	}
	m := b.got[0]
	if m.Stamp == nil || m.Stamp.ID != "its id" || !m.Stamp.Counts("cluster/topic", ledger.BodyFingerprint(m.Body)) {
		t.Errorf("stamp: %+v", m.Stamp)
	}
	r.until("only nobody's is left", func() bool {
		list, err := r.ListOutbox(t.Context(), "", 0, 10, false)
		return err == nil && len(list) == 1 && list[0].Target == "nobody's"
	})
}

// TestRelayOutage: while the target is away nothing counts, and then all goes in its order.
func TestRelayOutage(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	away := true
	a := &shop{refuse: func(*consumer.Publication, int) error {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return ledger.MarkUnavailable(errors.New("away"))
		}
		return nil
	}}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Tries: 1})
	for i := range 10 {
		r.publish(keyed("k", fmt.Sprint(i)))
	}
	r.until("some tries", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.calls >= 3 })
	list, err := r.ListOutbox(t.Context(), "a", 0, 100, false)
	if err != nil || len(list) != 10 || list[0].Tries != 0 {
		t.Fatalf("%d wait, %v", len(list), err)
	}
	mu.Lock()
	away = false
	mu.Unlock()
	r.empty()
	if got, want := fmt.Sprint(a.bodies()), "[0 1 2 3 4 5 6 7 8 9]"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if dead := r.archived(); len(dead) > 0 {
		t.Fatalf("%d dead letters of an outage", len(dead))
	}
}

var errNever = consumer.Terminal(errors.New("too large"))

// TestRelayPoison: a message that its target never takes is archived with the reason, and the others go on.
func TestRelayPoison(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{"terminal": errNever, "counted": errors.New("no such topic")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &shop{refuse: func(m *consumer.Publication, _ int) error {
				if string(m.Body) == "bad" {
					return refusal
				}
				return nil
			}}
			r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Tries: 3})
			r.publish(keyed("k", "1"), keyed("k", "bad"), keyed("k", "2"), keyed("l", "3"), ledger.Outgoing{Target: "a", Body: []byte("4")})
			r.empty()
			got := a.bodies()
			if len(got) != 4 || slices.Index(got, "1") > slices.Index(got, "2") {
				t.Fatalf("sent %v", got)
			}
			dead := r.archived()
			if len(dead) != 1 {
				t.Fatalf("%d dead letters, want 1", len(dead))
			}
			d := dead[0]
			if string(d.Body) != "bad" || d.Group != "k" || d.Source != "cluster/topic" || d.Key.Scope != "outbox:a" ||
				len(d.Errors) != 1 || d.Errors[0].Error != refusal.Error() || d.Status.State != ledger.Failed {
				t.Fatalf("dead letter: %+v", d)
			}
		})
	}
}

// TestRelayHoldKeys: with HoldKeys a message that is refused keeps its key, and no other.
func TestRelayHoldKeys(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	refuses := true
	a := &shop{refuse: func(m *consumer.Publication, _ int) error {
		mu.Lock()
		defer mu.Unlock()
		if refuses && string(m.Body) == "bad" {
			return errNever
		}
		return nil
	}}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}, Tries: 1, HoldKeys: true})
	r.publish(keyed("k", "bad"), keyed("k", "2"), keyed("l", "3"))
	r.until("it was refused alone", func() bool {
		list, err := r.ListOutbox(t.Context(), "a", 0, 10, false)
		return err == nil && len(list) == 2 && list[0].Tries > 2
	})
	if got := fmt.Sprint(a.bodies()); got != "[3]" {
		t.Fatalf("sent %s", got)
	}
	mu.Lock()
	refuses = false
	mu.Unlock()
	r.empty()
	if got := fmt.Sprint(a.bodies()); got != "[3 bad 2]" || len(r.archived()) > 0 {
		t.Fatalf("sent %s", got)
	}
}

// TestPitfall243_RefusedTogether: Kafka refuses a batch for the sake of one record, or of its size.
func TestPitfall243_RefusedTogether(t *testing.T) {
	t.Parallel()
	a := &shop{refuse: func(m *consumer.Publication, n int) error {
		if n > 1 || string(m.Body) == "bad" {
			return errNever
		}
		return nil
	}}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}})
	r.publish(keyed("k", "1"), keyed("k", "bad"), keyed("k", "2"))
	r.empty()
	if dead := r.archived(); len(dead) != 1 || string(dead[0].Body) != "bad" {
		t.Fatalf("%d dead letters, want the one that is bad", len(dead))
	}
	if got := a.bodies(); fmt.Sprint(got) != "[1 2]" {
		t.Fatalf("sent %v", got)
	}
}

// TestRelayMisbehaving: a publisher that panics, or answers for another number of messages, is away.
func TestRelayMisbehaving(t *testing.T) {
	t.Parallel()
	a := &misbehaving{}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}})
	r.publish(keyed("k", "1"))
	r.empty()
	if a.calls != 3 {
		t.Fatalf("%d calls, want 3", a.calls)
	}
}

type misbehaving struct{ calls int }

func (p *misbehaving) Source(context.Context) (string, error) { return "", nil }

func (p *misbehaving) Publish(context.Context, []consumer.Publication) []error {
	switch p.calls++; p.calls {
	case 1:
		panic("boom")
	case 2:
		return make([]error, 7)
	}
	return nil
}

func TestRelaySettings(t *testing.T) {
	t.Parallel()
	ok := map[string]consumer.Publisher{"a": &shop{}}
	for name, cfg := range map[string]consumer.Relay{
		"no target": {}, "nil": {Targets: map[string]consumer.Publisher{"a": nil}}, "nil pointer": {Targets: map[string]consumer.Publisher{"a": (*shop)(nil)}},
		"no name": {Targets: map[string]consumer.Publisher{"": &shop{}}}, "parallel": {Targets: ok, Parallel: 65}, "batch": {Targets: ok, Batch: 10_001},
		"bytes": {Targets: ok, BatchBytes: -1}, "lease": {Targets: ok, Lease: time.Millisecond}, "interval": {Targets: ok, Interval: time.Hour},
		"tries": {Targets: ok, Tries: 1001}, "keep": {Targets: ok, Keep: time.Millisecond}, "keys": {Targets: ok, StampKeys: []consumer.StampKey{{ID: "a"}}},
	} {
		if _, err := engine.NewRelay(memory.New(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRelaySourceMissing: a target that cannot say what it is refuses, and what waits for it is archived in the end.
func TestRelaySourceMissing(t *testing.T) {
	t.Parallel()
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": nameless{}}, Tries: 2})
	r.publish(keyed("k", "1"))
	r.empty()
	if dead := r.archived(); len(dead) != 1 || !strings.Contains(dead[0].Errors[0].Error, "no such queue") {
		t.Fatalf("%+v", dead)
	}
}

type nameless struct{}

func (nameless) Source(context.Context) (string, error)                  { return "", errors.New("no such queue") }
func (nameless) Publish(context.Context, []consumer.Publication) []error { return nil }

// Of a key the first and the third were refused beside what was taken of others, and the second was not counted.
func TestPitfall250_OvertakenBetweenRefusals(t *testing.T) {
	t.Parallel()
	a := &flapping{}
	r := relay(t, consumer.Relay{Targets: map[string]consumer.Publisher{"a": a}})
	r.publish(keyed("k", "1"), keyed("k", "2"), keyed(sameLane(t), "other"), keyed("k", "3"), keyed("k", "4"))
	r.empty()
	if got := fmt.Sprint(a.bodies()); got != "[other 1 2 3 4]" {
		t.Fatalf("sent %s", got)
	}
}

// flapping refuses one key in its first call.
type flapping struct{ shop }

func (p *flapping) Publish(ctx context.Context, messages []consumer.Publication) []error {
	p.mu.Lock()
	first := p.calls == 0
	p.mu.Unlock()
	if !first {
		return p.shop.Publish(ctx, messages)
	}
	errs := make([]error, len(messages))
	for i := range messages {
		if string(messages[i].Key) == "k" {
			errs[i] = errors.New("no right")
			continue
		}
		errs[i] = p.shop.Publish(ctx, messages[i:i+1])[0]
	}
	return errs
}

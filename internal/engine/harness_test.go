package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// broker is a sink that remembers its verdicts.
type broker struct {
	mu   sync.Mutex
	done map[*engine.Item][]engine.Verdict
}

func (b *broker) Finish(done []engine.Finished) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = map[*engine.Item][]engine.Verdict{}
	}
	for _, f := range done {
		b.done[f.Item] = append(b.done[f.Item], f.Verdict)
	}
}

// verdict returns the only verdict for an item; ok is false while there is none.
func (b *broker) verdict(t *testing.T, it *engine.Item) (v engine.Verdict, ok bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	vs := b.done[it]
	if len(vs) > 1 {
		t.Fatalf("message %s was finished %d times: %v", it.Msg.ID, len(vs), vs)
	}
	if len(vs) == 0 {
		return engine.Verdict{}, false
	}
	return vs[0], true
}

func (b *broker) acked(t *testing.T, it *engine.Item) bool {
	t.Helper()
	v, ok := b.verdict(t, it)
	return ok && v.Ack
}

// wantAcked fails for each item that is not acknowledged.
func (b *broker) wantAcked(t *testing.T, items ...*engine.Item) {
	t.Helper()
	for _, it := range items {
		if !b.acked(t, it) {
			v, ok := b.verdict(t, it)
			t.Errorf("message %s is not acknowledged (finished %v, %+v)", it.Msg.ID, ok, v)
		}
	}
}

// wantKept fails for each item that is not finished, or is acknowledged.
func (b *broker) wantKept(t *testing.T, items ...*engine.Item) {
	t.Helper()
	for _, it := range items {
		if v, ok := b.verdict(t, it); !ok || v.Ack {
			t.Errorf("message %s must be finished and kept (finished %v, %+v)", it.Msg.ID, ok, v)
		}
	}
}

const scope = "tests/source"

// item makes a delivery; lane may be empty.
func item(id, lane string) *engine.Item {
	body := []byte("body of " + id)
	m := &consumer.Message{ID: id, Source: "source", Body: body, SentAt: time.Now()}
	return &engine.Item{
		Item: flow.Item{
			OrderingKey: lane,
			Identity:    engine.Identity{Key: ledger.Key{Scope: scope, ID: []byte(id)}, Fingerprint: ledger.BodyFingerprint(body)},
		},
		Msg: m, Delivery: []byte("delivery " + id),
		Original: func(*engine.Item) engine.Content { return engine.Content{Body: []byte("body of " + id)} },
	}
}

func items(n int, lane func(i int) string) []*engine.Item {
	out := make([]*engine.Item, n)
	for i := range out {
		out[i] = item(fmt.Sprintf("m%05d", i), lane(i))
	}
	return out
}

func noLane(int) string { return "" }

// options are small and quick; synctest makes them exact.
func options() consumer.Options {
	return consumer.Options{Name: "tests", Concurrency: 4, Lease: 6 * time.Second, Drain: 5 * time.Second, Window: 48 * time.Hour}
}

// begin builds and starts an engine. It is not stopped by itself: tests in a bubble end it with finish.
func begin(t *testing.T, l ledger.Ledger, o consumer.Options, h consumer.HandlerFunc, change ...func(*engine.Config)) (*engine.Engine, *broker) {
	t.Helper()
	o, err := o.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{}
	cfg := engine.Config{
		Options: o, Ledger: l, Handler: h, Sink: b, System: "test", Source: "source",
		Suspects: consumer.NewLimiter(1), // of this bubble
	}
	for _, c := range change {
		c(&cfg)
	}
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, b
}

// pass lets fake time pass, and everything come to rest then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// end drains and closes, and expects both to be clean.
func end(t *testing.T, e *engine.Engine) {
	t.Helper()
	if err := e.Drain(context.Background()); err != nil {
		t.Errorf("drain: %v", err)
	}
	if err := e.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func state(t *testing.T, l *memory.Ledger, it *engine.Item) ledger.Record {
	t.Helper()
	r, err := l.Get(context.Background(), it.Key)
	if err != nil {
		t.Fatalf("message %s: %v", it.Msg.ID, err)
	}
	return r
}

func TestMessagesAreAcknowledgedOnceTheyAreSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var mu sync.Mutex
		runs := map[string]int{}
		e, b := begin(t, l, options(), func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			runs[m.ID]++
			return nil
		})
		in := items(3000, noLane)
		e.Offer(in)
		pass(time.Second)
		for _, it := range in {
			if !b.acked(t, it) || state(t, l, it).State != ledger.Succeeded || runs[it.Msg.ID] != 1 {
				t.Fatalf("message %s: acked %v, row %v, %d runs", it.Msg.ID, b.acked(t, it), state(t, l, it).State, runs[it.Msg.ID])
			}
		}
		end(t, e)
	})
}

func TestLaneKeepsItsOrderThroughRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var mu sync.Mutex
		order := map[string][]string{}
		failed := map[string]int{}
		e, b := begin(t, l, options(), func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if failed[m.ID] < 2 && m.ID[len(m.ID)-1] == '7' {
				failed[m.ID]++
				return fmt.Errorf("not yet")
			}
			lane := fmt.Sprint(int(m.ID[len(m.ID)-1]-'0') % 3)
			order[lane] = append(order[lane], m.ID)
			return nil
		})
		in := items(300, func(i int) string { return fmt.Sprint(i % 10 % 3) })
		e.Offer(in)
		pass(time.Hour)
		for _, it := range in {
			if !b.acked(t, it) {
				t.Fatalf("message %s is not acknowledged", it.Msg.ID)
			}
		}
		for lane, ids := range order {
			for i := 1; i < len(ids); i++ {
				if ids[i-1] >= ids[i] {
					t.Fatalf("lane %s: %s ran before %s", lane, ids[i-1], ids[i])
				}
			}
		}
		end(t, e)
	})
}

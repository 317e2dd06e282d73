package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.opentelemetry.io/otel/sdk/metric"
)

// deduplicated reads metric ackledger.dedup, by result.
func deduplicated(t *testing.T, r metric.Reader) map[string]int64 {
	t.Helper()
	got := map[string]int64{}
	for name, n := range read(t, r) {
		if result, ok := strings.CutPrefix(name, "ackledger.dedup "); ok {
			got[result] = n
		}
	}
	return got
}

// workload is an engine whose deliveries are counted, on rows or in ranges.
type workload struct {
	*engine.Engine
	*broker
	t      *testing.T
	l      *memory.Ledger
	net    *link
	reader *metric.ManualReader
	ranged bool
	next   int64

	mu    sync.Mutex
	fails map[string]int // how often the handler is still to fail
	slow  map[string]bool
	vague map[string]bool // the handler's transaction ends, and nobody knows how
}

func newWorkload(t *testing.T, ranged bool) *workload {
	t.Helper()
	return workloadOn(t, memory.New(), ranged)
}

func workloadOn(t *testing.T, l *memory.Ledger, ranged bool) *workload {
	t.Helper()
	w := &workload{t: t, l: l, net: &link{Ledger: l}, reader: metric.NewManualReader(), ranged: ranged, fails: map[string]int{}, slow: map[string]bool{},
		vague: map[string]bool{}}
	o := options()
	o.MeterProvider = metric.NewMeterProvider(metric.WithReader(w.reader))
	w.Engine, w.broker = begin(t, w.net, o, func(ctx context.Context, m *consumer.Message) error {
		w.mu.Lock()
		fails, slow, vague := w.fails[m.ID] > 0, w.slow[m.ID], w.vague[m.ID]
		w.fails[m.ID]--
		w.slow[m.ID], w.vague[m.ID] = false, false
		w.mu.Unlock()
		switch {
		case fails:
			return errBoom
		case slow:
			<-ctx.Done()
			return ctx.Err()
		case vague:
			a, _ := ledger.AttemptFrom(ctx)
			if err := a.Begin(); err != nil {
				return err
			}
			a.End(ledger.AttemptUnknown, errDown)
			return errDown
		}
		return nil
	})
	return w
}

// fresh makes the first deliveries of n messages.
func (w *workload) fresh(n int, lane string) (all []*engine.Item) {
	for range n {
		all = append(all, w.delivery(w.next, lane))
		w.next++
	}
	return all
}

// again makes another delivery of each.
func (w *workload) again(items []*engine.Item) (all []*engine.Item) {
	for _, it := range items {
		all = append(all, w.delivery(it.Key.Pos.Offset, it.OrderingKey))
	}
	return all
}

func (w *workload) delivery(offset int64, lane string) *engine.Item {
	it := rangedItem(offset, &late{body: []byte(consumerID(offset)), delivery: consumerID(offset)})
	it.Ranged, it.OrderingKey = w.ranged, lane
	return it
}

// elsewhere makes another worker claim messages.
func (w *workload) elsewhere(items ...*engine.Item) ledger.Owner {
	w.t.Helper()
	o, err := w.l.Join(w.t.Context(), time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, it := range items {
		e := ledger.Entry{Key: it.Key, Ranged: it.Ranged, Window: time.Hour}
		e.Fingerprint, e.Delivery = it.Late.Identify()
		if c, err := o.Claim(w.t.Context(), []ledger.Entry{e}); err != nil || c[0].Answer != ledger.Run {
			w.t.Fatalf("claim: %+v, %v", c, err)
		}
	}
	return o
}

// want checks what was counted: first claims, hits and timeouts.
func (w *workload) want(step string, first, hits, timeouts int64) {
	w.t.Helper()
	got := deduplicated(w.t, w.reader)
	if got["miss"] != first || got["hit"] != hits || got["timeout"] != timeouts {
		w.t.Errorf("%s: %v, want %d first claims, %d hits, %d timeouts", step, got, first, hits, timeouts)
	}
}

// Each message counts as new once and each duplicate once, whatever else happens: a known workload of first claims,
// redeliveries, retries, take-overs, lost answers, busy waits and messages given back.
func TestDeliveriesAreCountedByWhatTheyWere(t *testing.T) {
	for name, ranged := range map[string]bool{"rows": false, "ranges": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkload(t, ranged)
				w.want("before", 0, 0, 0)
				in := w.fresh(20, "")
				w.fails[consumerID(3)], w.fails[consumerID(4)] = 1, 2
				w.Offer(in)
				pass(time.Minute)
				w.wantAcked(t, in...)
				w.want("20 messages, three retries", 20, 0, 0)

				w.Offer(w.again(in[:10]))
				pass(time.Second)
				w.want("10 redeliveries", 20, 10, 0)

				w.takeOvers()
				w.want("3 take-overs, 2 waits given up", 20, 10, 2)

				in = w.fresh(4, "")
				w.net.set(nil, only(memory.Claim, errDown))
				w.Offer(in)
				pass(time.Second)
				w.net.set(nil, nil)
				pass(time.Minute)
				w.wantAcked(t, in...)
				w.want("4 claims whose answer was lost", 24, 10, 2)

				in = w.fresh(5, "lane")
				other := w.elsewhere(in[0])
				w.Offer(in)
				pass(30 * time.Second)
				if err := other.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				w.wantAcked(t, in...)
				w.want("4 messages behind one that is busy, and is taken over", 28, 10, 2)

				in = w.fresh(1, "")
				w.slow[in[0].Msg.ID] = true
				w.Offer(in)
				pass(time.Second)
				w.l.Declare(w.net.owner())
				pass(time.Minute)
				w.wantAcked(t, in...)
				w.want("a message of a lease that was lost", 29, 10, 2)
				w.Offer(w.again(in))
				pass(time.Second)
				w.want("its redelivery", 29, 11, 2)

				in = w.fresh(2, "")
				w.vague[in[0].Msg.ID], w.vague[in[1].Msg.ID] = true, true
				w.Offer(in)
				pass(time.Minute)
				w.wantAcked(t, in...)
				w.want("two whose transaction is unknown, asked for again", 31, 11, 2)

				w.drained()
				end(t, w.Engine)
				wantCounted(t, w.l, "all of it, after the end", ledger.Deliveries{Scope: scope, Misses: 32, Hits: 11, Timeouts: 2})
			})
		})
	}
}

// wantCounted checks what the ledger has of deliveries.
func wantCounted(t *testing.T, l *memory.Ledger, step string, want ...ledger.Deliveries) {
	t.Helper()
	s, err := l.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Deliveries {
		if s.Deliveries[i].Since.IsZero() {
			t.Errorf("%s: since when is %+v?", step, s.Deliveries[i])
		}
		s.Deliveries[i].Since = time.Time{}
	}
	if !slices.Equal(s.Deliveries, want) {
		t.Errorf("%s: the ledger has %+v, want %+v", step, s.Deliveries, want)
	}
}

// Counts come to the ledger with beats, one call each if there is anything new, by scope. A call that was refused is made up
// for, one whose answer was lost is not repeated, and who dies takes with it what it has counted since its last beat.
func TestCountsComeWithBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(t, false)
		var calls atomic.Int64
		beats := func(n time.Duration) { pass(n * 2 * time.Second) } // a third of the lease
		step := func(name string, before, after error, n int, wantCalls int64, want ...ledger.Deliveries) {
			t.Helper()
			w.net.set(func(op memory.Op) error {
				if op != memory.Count {
					return nil
				}
				calls.Add(1)
				return before
			}, only(memory.Count, after))
			w.Offer(w.fresh(n, ""))
			beats(1)
			wantCounted(t, w.l, name, want...)
			if c := calls.Swap(0); c != wantCalls {
				t.Errorf("%s: %d calls, want %d", name, c, wantCalls)
			}
		}
		counted := func(misses int64) ledger.Deliveries { return ledger.Deliveries{Scope: scope, Misses: misses} }
		step("nothing", nil, nil, 0, 0)
		step("five", nil, nil, 5, 1, counted(5))
		step("nothing more", nil, nil, 0, 0, counted(5))
		step("three, refused", errDown, nil, 3, 1, counted(5))
		step("these, and four", nil, nil, 4, 1, counted(12))
		step("six, whose answer is lost", nil, errDown, 6, 1, counted(18))
		step("nothing after that", nil, nil, 0, 0, counted(18))

		other := w.fresh(2, "")
		other[1].Key.Scope = "tests/other"
		w.Offer(other)
		beats(1)
		wantCounted(t, w.l, "of two scopes", counted(19), ledger.Deliveries{Scope: "tests/other", Misses: 1})

		w.Offer(w.fresh(7, ""))
		pass(time.Second / 2) // a beat comes a second later
		died(t, w.Engine, w.net)
		wantCounted(t, w.l, "after its death", counted(19), ledger.Deliveries{Scope: "tests/other", Misses: 1})
	})
}

// takeOvers offers three messages that a worker held that left or died, and two that one holds until the broker has them back.
func (w *workload) takeOvers() {
	w.t.Helper()
	left, died, held := w.fresh(2, ""), w.fresh(1, ""), w.fresh(2, "")
	if err := w.elsewhere(left...).Leave(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.l.Declare(w.elsewhere(died...).ID())
	w.elsewhere(held...)
	for _, items := range [][]*engine.Item{left, died, held} {
		w.Offer(items)
	}
	pass(time.Minute)
	w.wantAcked(w.t, append(left, died...)...)
	<-w.Drop(func(it *engine.Item) bool { return it == held[0] || it == held[1] }, 0)
	pass(time.Second)
	w.wantKept(w.t, held...)
}

// drained offers a message whose handler ends unharmed when the broker has it back, twice; then it runs.
func (w *workload) drained() {
	w.t.Helper()
	in := w.fresh(1, "")
	for range 2 {
		w.slow[in[0].Msg.ID] = true
		w.Offer(in)
		pass(time.Second)
		<-w.Drop(func(it *engine.Item) bool { return it == in[0] }, time.Second)
		pass(time.Second)
		w.wantKept(w.t, in...)
		in = w.again(in)
	}
	w.Offer(in)
	pass(time.Second)
	w.wantAcked(w.t, in...)
	w.want("a message given back twice", 32, 11, 2)
}

// slowCounts adds counts after a while, unless the call is broken off: then nobody knows whether it did.
type slowCounts struct{ *memory.Ledger }

func (l slowCounts) CountDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	select {
	case <-time.After(300 * time.Millisecond):
		return l.Ledger.CountDeliveries(ctx, more)
	case <-ctx.Done():
		return ledger.MarkUnknown(ctx.Err())
	}
}

// A clean end loses no counts, though a beat is adding some as it comes.
func TestCleanEndCountsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slowCounts{memory.New()}
		e, b := begin(t, l, options(), func(context.Context, *consumer.Message) error { return nil })
		in := items(50, noLane)
		e.Offer(in)
		pass(options().Lease/3 + 100*time.Millisecond) // the first beat is adding
		b.wantAcked(t, in...)
		end(t, e)
		s, err := l.Stats(t.Context())
		if err != nil || len(s.Deliveries) != 1 || s.Deliveries[0].Misses != int64(len(in)) {
			t.Errorf("counted: %+v, %v; want %d misses", s.Deliveries, err, len(in))
		}
	})
}

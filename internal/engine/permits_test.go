package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.opentelemetry.io/otel/sdk/metric"
)

// crowd counts the handlers of each key that run, of all engines.
type crowd struct {
	mu   sync.Mutex
	runs map[string]int
	most map[string]int
	done map[string]int
}

func newCrowd() *crowd {
	return &crowd{runs: map[string]int{}, most: map[string]int{}, done: map[string]int{}}
}

func (c *crowd) add(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[key] += n; n > 0 {
		c.most[key] = max(c.most[key], c.runs[key])
	} else {
		c.done[key]++
	}
}

// of says how many of a key run, how many ran at once at most, and how many have ended.
func (c *crowd) of(key string) (runs, most, done int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[key], c.most[key], c.done[key]
}

func (c *crowd) ended(key string) int {
	_, _, done := c.of(key)
	return done
}

func (c *crowd) peak(key string) int {
	_, most, _ := c.of(key)
	return most
}

func (c *crowd) hold(took time.Duration) consumer.HandlerFunc {
	return func(ctx context.Context, m *consumer.Message) error {
		key, _ := byPrefix(m)
		c.add(key, 1)
		defer c.add(key, -1)
		select {
		case <-time.After(took):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// byPrefix is the key before a dash, and a limit of two.
func byPrefix(m *consumer.Message) (string, int) {
	key, _, _ := strings.Cut(m.ID, "-")
	return strings.TrimPrefix(key, "free"), 2
}

// limitedItems are n items of a key, whose limit is known.
func limitedItems(key, of string, n int) []*engine.Item {
	in := make([]*engine.Item, n)
	for i := range in {
		in[i] = item(fmt.Sprintf("%s-%s%04d", key, of, i), "")
		in[i].Limit, in[i].LimitMost = byPrefix(in[i].Msg)
	}
	return in
}

func limitOptions() consumer.Options {
	o := options()
	o.Limit, o.Concurrency = byPrefix, 8
	return o
}

// Three workers, two keys of which two messages may run: no more do, of all workers together, and each worker has its turns; messages without a
// limit wait for none. Nothing of the ledger is held at the end.
func TestLimitOverAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := memory.New(), newCrowd()
		var engines []*engine.Engine
		for _, of := range []string{"x", "y", "z"} {
			e, _ := begin(t, l, limitOptions(), c.hold(100*time.Millisecond))
			e.Offer(limitedItems("a", of, 60))
			e.Offer(limitedItems("b", of, 60))
			e.Offer(limitedItems("free", of, 60))
			engines = append(engines, e)
		}
		pass(2 * time.Second)
		if c.ended("") != 180 {
			t.Errorf("%d of 180 without a limit have run", c.ended(""))
		}
		pass(time.Minute)
		if c.peak("a") != 2 || c.peak("b") != 2 || c.ended("a") != 180 || c.ended("b") != 180 {
			t.Errorf("at most %d and %d ran, of %d and %d", c.peak("a"), c.peak("b"), c.ended("a"), c.ended("b"))
		}
		for _, e := range engines {
			end(t, e)
		}
	})
}

// What has a limit is measured: the permits in hand, and who waits for one. A worker without a limit says nothing of them.
func TestPermitsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := memory.New(), newCrowd()
		start := func(o consumer.Options) (*engine.Engine, metric.Reader) {
			reader := metric.NewManualReader()
			o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
			e, _ := begin(t, l, o, c.hold(time.Hour))
			return e, reader
		}
		e, reader := start(limitOptions())
		e.Offer(limitedItems("a", "x", 5))
		e.Offer(limitedItems("free", "x", 3))
		pass(time.Second)
		if got := read(t, reader); got["ackledger.permits"] != 2 || got["ackledger.permits.waiting"] != 3 {
			t.Errorf("%d permits are in hand, and %d messages wait", got["ackledger.permits"], got["ackledger.permits.waiting"])
		}
		pass(4 * time.Hour)
		if got := read(t, reader); got["ackledger.permits"] != 0 || got["ackledger.permits.waiting"] != 0 {
			t.Errorf("at the end %d permits are in hand, and %d messages wait", got["ackledger.permits"], got["ackledger.permits.waiting"])
		}
		end(t, e)
		e, reader = start(options())
		if _, says := read(t, reader)["ackledger.permits"]; says {
			t.Error("a worker without a limit counts permits")
		}
		end(t, e)
	})
}

// dying is a ledger that answers no more: what a killed process looks like to its peers.
type dying struct {
	ledger.Ledger
	mu   sync.Mutex
	dead bool
}

func (d *dying) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

func (d *dying) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := d.Ledger.Join(ctx, lease)
	return dyingOwner{o, d}, err
}

type dyingOwner struct {
	ledger.Owner
	d *dying
}

func (o dyingOwner) gone(ctx context.Context) error {
	o.d.mu.Lock()
	dead := o.d.dead
	o.d.mu.Unlock()
	if !dead {
		return nil
	}
	<-ctx.Done()
	return errors.New("no answer")
}

func (o dyingOwner) Claim(ctx context.Context, e []ledger.Entry) ([]ledger.Claim, error) {
	if err := o.gone(ctx); err != nil {
		return nil, err
	}
	return o.Owner.Claim(ctx, e)
}

func (o dyingOwner) Settle(ctx context.Context, s []ledger.Settlement) ([]error, error) {
	if err := o.gone(ctx); err != nil {
		return nil, err
	}
	return o.Owner.Settle(ctx, s)
}

func (o dyingOwner) Beat(ctx context.Context) (time.Duration, error) {
	if err := o.gone(ctx); err != nil {
		return 0, err
	}
	return o.Owner.Beat(ctx)
}

func (o dyingOwner) Leave(ctx context.Context) error {
	if err := o.gone(ctx); err != nil {
		return err
	}
	return o.Owner.Leave(ctx)
}

// TestPitfall248_PermitsOutliveCrashes: a permit whose holders had died five times was taken for a message that crashes its workers, and nobody
// had it any more. A worker that dies has its permits until it is declared dead, and no longer: then others run.
func TestPitfall248_PermitsOutliveCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, dead := memory.New(), newCrowd()
		live := newCrowd()
		e, _ := begin(t, l, limitOptions(), live.hold(10*time.Millisecond))
		for life := range ledger.CrashLimit + 2 {
			d := &dying{Ledger: l}
			killed, _ := begin(t, d, limitOptions(), dead.hold(time.Hour))
			killed.Offer(limitedItems("a", fmt.Sprint("dies", life), 2))
			pass(time.Second)
			d.kill()
			before := live.ended("a")
			e.Offer(limitedItems("a", fmt.Sprint("lives", life), 20))
			pass(2 * time.Second)
			if runs, _, _ := dead.of("a"); runs == 2 && live.ended("a") > before {
				t.Errorf("%d have run beside two of a worker that is not declared dead", live.ended("a")-before)
			}
			pass(30 * time.Second)
			if n := live.ended("a") - before; n != 20 {
				t.Fatalf("life %d: %d of 20 have run", life, n)
			}
			_ = killed.Drain(t.Context())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_ = killed.Close(ctx)
			cancel()
		}
		if live.peak("a") > 2 || dead.peak("a") > 2 {
			t.Errorf("%d and %d ran at once", live.peak("a"), dead.peak("a"))
		}
		end(t, e)
	})
}

// TestPitfall281_LoweredLimit: a limit that was lowered did not take hold as long as anything of its key was in hand, which may be for good. It
// takes hold with the next message that says so: what runs goes on, and nothing begins beside it that the new limit does not bear, in this
// worker and in others.
func TestPitfall281_LoweredLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := memory.New(), newCrowd()
		limited := func(of string, n, most int) []*engine.Item {
			in := limitedItems("a", of, n)
			for _, it := range in {
				it.LimitMost = most
			}
			return in
		}
		e, _ := begin(t, l, limitOptions(), c.hold(time.Second))
		other, _ := begin(t, l, limitOptions(), c.hold(time.Second))
		e.Offer(limited("early", 100, 5))
		pass(1500 * time.Millisecond)
		if runs, most, _ := c.of("a"); runs != 5 || most != 5 {
			t.Fatalf("%d run, at most %d", runs, most)
		}
		e.Offer(limited("late", 100, 1))
		other.Offer(limited("late, too", 10, 1))
		pass(3 * time.Second) // those that run, and a turn
		for range 300 {
			if runs, _, _ := c.of("a"); runs > 1 {
				t.Fatalf("%d run, and the limit is 1", runs)
			}
			pass(100 * time.Millisecond)
		}
		if done := c.ended("a"); done < 25 {
			t.Errorf("only %d have run", done)
		}
		e.Offer(limited("later", 1, 5))
		pass(5 * time.Second)
		if runs, _, _ := c.of("a"); runs != 5 {
			t.Errorf("%d run, and the limit is 5 again", runs)
		}
		pass(5 * time.Minute)
		if done := c.ended("a"); done != 211 {
			t.Errorf("%d have run", done)
		}
		end(t, e)
		end(t, other)
	})
}

// A limit that cannot be told keeps the message from running.
func TestLimitFailsClosed(t *testing.T) {
	t.Parallel()
	for want, limit := range map[string]func(*consumer.Message) (string, int){
		"must be 1 to 1000 messages, is 0":    func(*consumer.Message) (string, int) { return "a", 0 },
		"must be 1 to 1000 messages, is 1001": func(*consumer.Message) (string, int) { return "a", 1001 },
		"at most 512 bytes, is 513":           func(*consumer.Message) (string, int) { return strings.Repeat("a", 513), 1 },
		"panic":                               func(*consumer.Message) (string, int) { panic("no limit") },
	} {
		id := engine.Identify(&consumer.Options{Limit: limit}, engine.Origin{Scope: "s", Records: engine.NoRecords{}}, &consumer.Message{ID: "m", Body: []byte("b")})
		if id.Invalid == nil || !strings.Contains(id.Invalid.Error(), want) || id.Limit != "" {
			t.Errorf("%v, limit %q, want %q", id.Invalid, id.Limit, want)
		}
	}
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// spoiler handles records, spoils what it gets of each, and ends in all ways.
type spoiler struct {
	t       testing.TB
	all     int
	mu      sync.Mutex
	effects map[string]int
	steps   map[string]int
	keys    map[string]string
	tokens  map[string]uint64
	last    map[string]int64 // offset by key
	active  map[string]bool
	order   Order
	calls   int
}

// newSpoiler sends so many records to each partition of the site's topic, to be spoilt.
func newSpoiler(s *site, order Order, partitions int32, each int) *spoiler {
	var all []*kgo.Record
	for i := range each {
		for p := range partitions {
			v := []byte(fmt.Sprintf("v%d-%d", p, i))
			all = append(all, &kgo.Record{Topic: s.topic, Partition: p, Key: []byte(fmt.Sprint(i % 7)), Value: v,
				Headers: []kgo.RecordHeader{{Key: "h", Value: v}, {Key: "g", Value: v}}})
		}
	}
	s.sendRecords(all...)
	return &spoiler{t: s.t, all: len(all), effects: map[string]int{}, steps: map[string]int{}, keys: map[string]string{}, tokens: map[string]uint64{},
		last: map[string]int64{}, active: map[string]bool{}, order: order}
}

// goesOn waits until so many more records were handled, or nearly all are.
func (b *spoiler) goesOn(s *site, n int) {
	handled := func() int { b.mu.Lock(); defer b.mu.Unlock(); return b.calls }
	until := min(handled()+n, b.all-300)
	eventually(s.t, "more are handled", func() bool { return handled() >= until })
}

// check checks that each record had its effect and its step once, or is archived as it came.
func (b *spoiler) check(s *site, want int) {
	t, failed, n := s.t, 0, 0
	for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		failed++
		text := fmt.Sprintf("%s %v", d.Body, d.Headers)
		if strings.Contains(text, "X") || strings.Contains(text, "spoilt") || b.effects[string(d.Body)] != 0 {
			t.Errorf("archived %s", text)
		}
	}
	for v, k := range b.effects {
		if n++; k != 1 {
			t.Errorf("%s has %d effects", v, k)
		}
	}
	for v, k := range b.steps {
		if k != 1 {
			t.Errorf("%s made its step %d times", v, k)
		}
	}
	if n+failed != want {
		t.Errorf("%d done, %d archived, want %d", n, failed, want)
	}
}

func (b *spoiler) spoil(ctx context.Context, m *consumer.Message) (what int, value string) {
	value = fmt.Sprintf("v%d-%d", m.Partition, m.Offset)
	h, _ := m.Header("h")
	key := fmt.Sprint(m.Offset % 7)
	if string(m.Body) != value || string(h) != value || string(m.Key) != key || len(m.Headers) != 2 || m.ID != fmt.Sprintf("%s-%d-%d", m.Topic, m.Partition, m.Offset) {
		b.t.Errorf("%s: body %q, key %q, headers %v", m.ID, m.Body, m.Key, m.Headers)
	}
	child, token := consumer.ChildKey(ctx, "x"), consumer.Token(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if k := b.keys[value]; k != "" && k != child || child == "" {
		b.t.Errorf("%s: child key %s after %s", m.ID, child, k)
	}
	if token < b.tokens[value] {
		b.t.Errorf("%s: token %d after %d", m.ID, token, b.tokens[value])
	}
	b.keys[value], b.tokens[value] = child, token
	for _, p := range [][]byte{m.Body, m.Key, m.Headers[0].Value, m.Headers[1].Value} {
		for i := range p {
			p[i] = 'X'
		}
	}
	m.Body, m.Key = append(m.Body, "more and more"...), append(m.Key, "more and more"...)
	m.Headers = append(m.Headers, ledger.Header{Name: "x"})
	m.Headers[0], m.ID, m.Topic = ledger.Header{Name: "spoilt"}, "spoilt", "spoilt"
	m.Offset, m.Attempt = -1, 77
	return rand.IntN(300), value
}

func (b *spoiler) handle(ctx context.Context, m *consumer.Message) error {
	lane, at, attempt := fmt.Sprint(m.Partition), m.Offset, m.Attempt
	if b.order == OrderKey {
		lane += string(m.Key)
	}
	what, value := b.spoil(ctx, m)
	if b.order != OrderNone {
		b.mu.Lock()
		if b.active[lane] || at < b.last[lane] {
			b.t.Errorf("lane %s: %d after %d, active %t", lane, at, b.last[lane], b.active[lane])
		}
		b.active[lane], b.last[lane] = true, at
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			b.active[lane] = false
			b.mu.Unlock()
		}()
	}
	if attempt < 4 {
		switch what {
		case 0:
			return errors.New("not yet")
		case 1:
			panic("broken")
		case 2:
			runtime.Goexit()
		case 3:
			_ = consumer.SetResult(ctx, []byte(value))
		case 4:
			time.Sleep(20 * time.Millisecond)
		case 5:
			if _, err := consumer.Step(ctx, "step", func(context.Context, string) (int, error) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.steps[value]++
				return 1, nil
			}); err != nil {
				return err
			}
			return errors.New("after its step")
		case 6:
			return consumer.Terminal(errors.New("for good " + value))
		}
	}
	if what%2 == 0 {
		b.mu.Lock()
		b.effects[value]++
		b.mu.Unlock()
		return nil
	}
	return memory.InTx(ctx, func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.effects[value]++
		return nil
	})
}

// Whatever handlers do to what they get, and however they end, each record comes whole to each attempt and into the archive.
func TestHandlersSpoilWhatTheyGet(t *testing.T) {
	for name, order := range map[string]Order{"unordered": OrderNone, "by key": OrderKey, "by partition": OrderPartition} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 3000
			s := fakeSite(t, 2)
			b := newSpoiler(s, order, 2, each)
			c := quick()
			c.Order = order
			c.BackoffMax = 2 * time.Millisecond
			w := s.start(b.handle, c)
			s.caughtUp()
			w.end()
			b.check(s, 2*each)
		})
	}
}

// The same with workers that come and go, and batches.
func TestHandlersSpoilBesideRebalances(t *testing.T) {
	for name, batch := range map[string]bool{"one by one": false, "batches": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 4000
			s := fakeSite(t, 3)
			b := newSpoiler(s, OrderNone, 3, each)
			start := func() *running {
				c := quick()
				c.Order, c.BackoffMax = OrderNone, 2*time.Millisecond
				if !batch {
					return s.start(b.inTx, c)
				}
				return s.startBatch(50, b.batch, c)
			}
			w := start()
			for range 6 {
				b.goesOn(s, 1+rand.IntN(300))
				next := start()
				b.goesOn(s, rand.IntN(300))
				w.end()
				w = next
			}
			s.caughtUp()
			w.end()
			b.check(s, 3*each)
		})
	}
}

func (b *spoiler) inTx(ctx context.Context, m *consumer.Message) error {
	attempt := m.Attempt
	what, value := b.spoil(ctx, m)
	if attempt < 4 {
		switch what {
		case 0:
			return errors.New("not yet")
		case 1:
			panic("broken")
		case 3:
			_ = consumer.SetResult(ctx, []byte(value))
		case 4:
			time.Sleep(20 * time.Millisecond)
		case 6:
			return consumer.Terminal(errors.New("for good"))
		}
	}
	return memory.InTx(ctx, func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.effects[value]++
		return nil
	})
}

func (b *spoiler) batch(ctx context.Context, batch []*consumer.Message) []error {
	values := make([]string, len(batch))
	what := 0
	ctxs := make([]context.Context, len(batch))
	for i, m := range batch {
		ctxs[i] = consumer.For(ctx, m)
	}
	for i, m := range batch {
		one := 0
		one, values[i] = b.spoil(ctxs[i], m)
		what += one
	}
	switch what % 20 {
	case 0:
		if len(batch) > 1 {
			panic("broken")
		}
	case 1:
		errs := make([]error, len(batch))
		errs[len(batch)/2] = errors.New("not yet")
		return b.except(errs, values)
	case 3:
		_ = consumer.SetResult(ctxs[0], []byte(values[0]))
	}
	err := memory.InTx(ctx, func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, v := range values {
			b.effects[v]++
		}
		return nil
	})
	if err == nil {
		return nil
	}
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (b *spoiler) except(errs []error, values []string) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, err := range errs {
		if err == nil {
			b.effects[values[i]]++
		}
	}
	return errs
}

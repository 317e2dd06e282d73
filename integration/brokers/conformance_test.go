package brokers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

func TestConformance(t *testing.T) {
	for name, open := range brokers {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				name string
				run  func(*bench)
			}{
				{"EachMessageOnce", eachMessageOnce},
				{"RetriesCountAttempts", retriesCountAttempts},
				{"ChildKeysAreStable", childKeysAreStable},
				{"TerminalIsArchivedWhole", terminalIsArchivedWhole},
				{"ExhaustedIsArchived", exhaustedIsArchived},
				{"PanicsAndGoexits", panicsAndGoexits},
				{"LargeBodiesAndOddHeaders", largeBodiesAndOddHeaders},
				{"RestartLosesNothing", restartLosesNothing},
				{"OutageStartsNothing", outageStartsNothing},
				{"PauseStopsStarts", pauseStopsStarts},
				{"RunsOnce", runsOnce},
				{"BatchWithPoison", batchWithPoison},
			} {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(&bench{T: t, broker: open(t), ledger: memory.New(), runs: map[string][]int{}})
				})
			}
		})
	}
}

// bench is one case's source, ledger and book.
type bench struct {
	*testing.T
	broker broker
	ledger *memory.Ledger

	mu   sync.Mutex
	runs map[string][]int // attempt numbers by body
	dead []*ledger.Archive
}

// note writes a run into the book and returns how many there were of this message.
func (b *bench) note(m *consumer.Message) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[string(m.Body)] = append(b.runs[string(m.Body)], m.Attempt)
	return len(b.runs[string(m.Body)])
}

func (b *bench) handled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs)
}

// start runs a worker until stop is called, which expects a clean drain.
func (b *bench) start(h consumer.HandlerFunc) (w consumer.Worker, stop func()) {
	b.Helper()
	return b.startAny(h)
}

// startAny is start with a handler of any kind.
func (b *bench) startAny(h consumer.Handler) (w consumer.Worker, stop func()) {
	b.Helper()
	w = b.broker.worker(b.T, recorder{b.ledger, b}, h, consumer.Options{
		Lease: 3 * time.Second, BackoffBase: time.Millisecond, BackoffMax: 20 * time.Millisecond, Attempts: 5,
		Window: 30 * 24 * time.Hour,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					b.Errorf("Run: %v", err)
				}
			case <-time.After(time.Minute):
				b.Error("Run does not end")
			}
		})
	}
	b.Cleanup(stop)
	return w, stop
}

func (b *bench) eventually(what string, wrong func() string) {
	b.Helper()
	deadline := time.Now().Add(time.Minute)
	for w := wrong(); w != ""; w = wrong() {
		if time.Now().After(deadline) {
			b.Fatalf("%s: %s", what, w)
		}
		<-time.After(20 * time.Millisecond) // the poll interval of a condition with a deadline
	}
}

func (b *bench) acknowledged() {
	b.Helper()
	b.eventually("all are acknowledged", func() string { return b.broker.left(b.T) })
}

func (b *bench) send(n int) []string {
	b.Helper()
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("message %03d", i)
		b.broker.send(b.T, message{body: []byte(bodies[i])})
	}
	return bodies
}

func eachMessageOnce(b *bench) {
	bodies := b.send(60)
	_, stop := b.start(func(_ context.Context, m *consumer.Message) error { b.note(m); return nil })
	b.acknowledged()
	stop()
	for _, body := range bodies {
		if !slices.Equal(b.runs[body], []int{1}) {
			b.Errorf("%s: attempts %v", body, b.runs[body])
		}
	}
}

// batchWithPoison has one message break every batch that it is in: the others are handled once, and count no attempt.
func batchWithPoison(b *bench) {
	bodies := b.send(60)
	done := map[string]int{}
	_, stop := b.startAny(consumer.Batch(20, func(ctx context.Context, batch []*consumer.Message) []error {
		poison := slices.ContainsFunc(batch, func(m *consumer.Message) bool { return string(m.Body) == bodies[7] })
		for _, m := range batch {
			if b.note(m); m.Attempt != 1 && string(m.Body) != bodies[7] {
				b.Errorf("%s: attempt %d", m.Body, m.Attempt)
			}
		}
		if poison {
			panic("poison")
		}
		err := memory.InTx(ctx, func(context.Context) error { return nil })
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, m := range batch {
			if err == nil {
				done[string(m.Body)]++
			}
		}
		return slices.Repeat([]error{err}, len(batch))
	}))
	b.acknowledged()
	stop()
	for i, body := range bodies {
		if want := min(1, i^7); done[body] != want {
			b.Errorf("%s was done %d times, want %d", body, done[body], want)
		}
	}
	if len(b.dead) != 1 || string(b.dead[0].Body) != bodies[7] || b.dead[0].Attempts != 5 {
		b.Errorf("archived: %+v", b.dead)
	}
}

func retriesCountAttempts(b *bench) {
	b.send(5)
	_, stop := b.start(func(_ context.Context, m *consumer.Message) error {
		if b.note(m) < 4 {
			return errors.New("not yet")
		}
		return nil
	})
	b.acknowledged()
	stop()
	for body, attempts := range b.runs {
		if !slices.Equal(attempts, []int{1, 2, 3, 4}) {
			b.Errorf("%s: attempts %v", body, attempts)
		}
	}
}

func childKeysAreStable(b *bench) {
	b.send(2)
	keys := map[string]map[string]bool{}
	_, stop := b.start(func(ctx context.Context, m *consumer.Message) error {
		b.mu.Lock()
		if keys[string(m.Body)] == nil {
			keys[string(m.Body)] = map[string]bool{}
		}
		keys[string(m.Body)][consumer.ChildKey(ctx, "step")] = true
		b.mu.Unlock()
		if b.note(m) < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	b.acknowledged()
	stop()
	all := map[string]bool{}
	for body, k := range keys {
		if len(k) != 1 {
			b.Errorf("%s: %d keys for one step", body, len(k))
		}
		for key := range k {
			all[key] = true
		}
	}
	if len(all) != 2 {
		b.Errorf("%d different keys of 2 messages", len(all))
	}
}

func terminalIsArchivedWhole(b *bench) {
	b.broker.send(b.T, message{body: []byte("the whole body"), headers: map[string]string{"tenant": "a"}})
	_, stop := b.start(func(_ context.Context, m *consumer.Message) error {
		for i := range m.Body { // a handler may change what it was given
			m.Body[i] = 'x'
		}
		m.Headers = nil
		return consumer.Terminal(errors.New("no such product"))
	})
	b.acknowledged()
	stop()
	if len(b.dead) != 1 {
		b.Fatalf("%d archived", len(b.dead))
	}
	d := b.dead[0]
	if string(d.Body) != "the whole body" || d.Kind != ledger.KindTerminal || len(d.Errors) != 1 ||
		len(d.Headers) != 1 || d.Headers[0].Name != "tenant" || string(d.Headers[0].Value) != "a" || d.Source == "" {
		b.Errorf("archived: %+v", d)
	}
}

func exhaustedIsArchived(b *bench) {
	b.send(1)
	_, stop := b.start(func(_ context.Context, m *consumer.Message) error { b.note(m); return errors.New("never") })
	b.acknowledged()
	stop()
	if len(b.dead) != 1 || b.dead[0].Kind != ledger.KindExhausted || len(b.dead[0].Errors) != 5 || b.dead[0].Attempts != 5 {
		b.Errorf("archived: %+v", b.dead)
	}
}

func panicsAndGoexits(b *bench) {
	b.send(40)
	_, stop := b.start(func(_ context.Context, m *consumer.Message) error {
		switch b.note(m) {
		case 1:
			panic("ouch")
		case 2:
			runtime.Goexit()
		}
		return nil
	})
	b.acknowledged()
	stop()
	for body, attempts := range b.runs {
		if !slices.Equal(attempts, []int{1, 2, 3}) {
			b.Errorf("%s: attempts %v", body, attempts)
		}
	}
}

func largeBodiesAndOddHeaders(b *bench) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB, SQS' maximum
	b.broker.send(b.T, message{body: large[:len(large)-64]}) // ElasticMQ counts more than the body
	b.broker.send(b.T, message{body: []byte("odd"), headers: map[string]string{"A.b_c-1": "ü €\t", "second": " "}})
	var got []consumer.Header
	_, stop := b.start(func(_ context.Context, m *consumer.Message) error {
		if string(m.Body) == "odd" {
			got = m.Headers
		} else if !bytes.Equal(m.Body, large[:len(large)-64]) {
			b.Errorf("a body of %d bytes came as %d bytes", len(large)-64, len(m.Body))
		}
		return nil
	})
	b.acknowledged()
	stop()
	values := map[string]string{}
	for _, h := range got {
		values[h.Name] = string(h.Value)
	}
	if values["A.b_c-1"] != "ü €\t" || values["second"] != " " {
		b.Errorf("headers: %q", values)
	}
}

func restartLosesNothing(b *bench) {
	bodies := b.send(50)
	slow := func(ctx context.Context, m *consumer.Message) error {
		b.note(m)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil
	}
	_, stop := b.start(slow)
	b.eventually("some are handled", func() string {
		if b.handled() < 10 {
			return "too few"
		}
		return ""
	})
	stop()
	_, stop = b.start(slow)
	b.acknowledged()
	stop()
	for _, body := range bodies {
		if !slices.Equal(b.runs[body], []int{1}) {
			b.Errorf("%s: attempts %v: a clean drain repeats nothing", body, b.runs[body])
		}
	}
}

func outageStartsNothing(b *bench) {
	w, stop := b.start(func(_ context.Context, m *consumer.Message) error { b.note(m); return nil })
	b.send(1)
	b.acknowledged()
	down := errors.New("the ledger is down")
	b.ledger.FailBefore(func(context.Context, memory.Op) error { return down })
	b.send(20)
	b.eventually("the worker notices", func() string {
		if h := w.Health(); h.Ready || !strings.Contains(h.LastError, down.Error()) {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
	before := b.handled()
	time.Sleep(4 * time.Second) // longer than the lease: the length of the outage is what is tested
	if n := b.handled() - before; n > 0 {
		b.Errorf("%d handlers began while the ledger was down", n)
	}
	b.ledger.FailBefore(nil)
	b.acknowledged()
	stop()
	if b.handled() != 20 { // "message 000" came twice, as two messages
		b.Errorf("%d messages handled", b.handled())
	}
}

func pauseStopsStarts(b *bench) {
	w, stop := b.start(func(_ context.Context, m *consumer.Message) error { b.note(m); return nil })
	b.send(1)
	b.acknowledged()
	w.Pause()
	b.send(5)
	time.Sleep(2 * time.Second) // a poll that was open may bring them; they must not start
	if n := b.handled(); n != 1 {
		b.Errorf("%d different messages handled while paused", n)
	}
	w.Resume()
	b.acknowledged()
	stop()
	if b.handled() != 5 {
		b.Errorf("%d messages handled", b.handled())
	}
}

func runsOnce(b *bench) {
	w, stop := b.start(func(context.Context, *consumer.Message) error { return nil })
	b.send(1)
	b.acknowledged()
	stop()
	if err := w.Run(b.Context()); err == nil {
		b.Error("a worker ran twice")
	}
}

// recorder is a ledger that notes what is archived.
type recorder struct {
	ledger.Ledger
	b *bench
}

func (r recorder) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := r.Ledger.Join(ctx, lease)
	return recordingOwner{o, r.b}, err
}

type recordingOwner struct {
	ledger.Owner
	b *bench
}

func (o recordingOwner) Unwrap() ledger.Owner { return o.Owner } // for InTx

func (o recordingOwner) Settle(ctx context.Context, sets []ledger.Settlement) ([]error, error) {
	errs, err := o.Owner.Settle(ctx, sets)
	o.b.mu.Lock()
	defer o.b.mu.Unlock()
	for i := range errs {
		if err == nil && errs[i] == nil && sets[i].Kind == ledger.Fail {
			o.b.dead = append(o.b.dead, sets[i].Dead)
		}
	}
	return errs, err
}

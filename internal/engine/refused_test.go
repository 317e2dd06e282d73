package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
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

// large is a message of 2,000 bytes, which a ledger of tight does not archive.
func large(id, lane string) *engine.Item {
	it := item(id, lane)
	it.Msg.Body = bytes.Repeat([]byte("x"), 2000)
	it.Msg.Headers = []ledger.Header{{Name: "trace", Value: []byte("7")}}
	it.Fingerprint = ledger.BodyFingerprint(it.Msg.Body)
	it.Original = func(*engine.Item) engine.Content { return engine.Content{Body: it.Msg.Body, Headers: it.Msg.Headers} }
	return it
}

func tight() *memory.Ledger {
	return memory.New(memory.WithLimits(ledger.Limits{Result: 100, Archive: 1000, Errors: 1000}))
}

// retained is the configuration of a worker whose broker keeps what is acknowledged.
func retained(c *engine.Config) { c.Retained = true }

// A message that was larger than the ledger archives failed for good, its settlement was refused, and its handler ran again
// and again. In a log it is archived without its body, published whole, and costs the others nothing.
func TestPitfall120_LargerThanTheArchive(t *testing.T) {
	for name, to := range map[string]*target{"with a target": {}, "without one": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, reader := tight(), metric.NewManualReader()
				o := options()
				o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
				if to != nil {
					o.DeadLetter = to
				}
				runs := 0
				e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
					if m.ID == "large" {
						runs++
						return consumer.Terminal(errBoom)
					}
					return nil
				}, retained)
				it, in := large("large", "lane"), items(50, func(int) string { return "lane" })
				e.Offer(append([]*engine.Item{it}, in...))
				pass(time.Hour)
				b.wantAcked(t, append(in, it)...)
				rec := state(t, l, it)
				if rec.State != ledger.Failed || runs != 1 {
					t.Fatalf("%d runs, %+v", runs, rec)
				}
				a := rec.Archived[0].Archive
				if left, ok := a.LeftOut(); !ok || left.Bytes != 2000 || len(left.SHA256) != 64 || a.Body != nil || a.Headers[0].Name != "trace" {
					t.Errorf("%+v, %+v", left, a)
				}
				if to != nil && (to.count() != 1 || len(to.letters()[0].Message.Body) != 2000 || len(to.letters()[0].Message.Headers) != 1 || !a.Sent) {
					t.Errorf("the dead letter is not whole: %+v", to.letters())
				}
				if h := e.Health(); len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "the last is large of 2006 bytes") || len(h.Stalled) > 0 {
					t.Errorf("%+v", h)
				}
				if got := read(t, reader)["ackledger.settles.refused too_large"]; got != 1 {
					t.Errorf("refused: %d", got)
				}
				end(t, e)
			})
		})
	}
}

// The ledger does not take the entry without the body for a while, or takes it and its answer is lost: the handler has spoken, and
// the dead letter is published.
func TestLargerThanTheArchiveDuringAnOutage(t *testing.T) {
	for name, fail := range map[string]func(*memory.Ledger, memory.Fault){
		"nothing is settled": (*memory.Ledger).FailBefore, "answers are lost": (*memory.Ledger).FailAfter,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, to := tight(), &target{}
				var away atomic.Bool
				away.Store(true)
				fail(l, func(_ context.Context, op memory.Op) error {
					if op == memory.Settle && away.Load() {
						return errors.New("away")
					}
					return nil
				})
				runs := 0
				e, b := begin(t, l, forwarding(to), func(context.Context, *consumer.Message) error { runs++; return consumer.Terminal(errBoom) }, retained)
				it := large("large", "")
				e.Offer([]*engine.Item{it})
				pass(10 * time.Minute)
				away.Store(false)
				pass(time.Minute)
				b.wantAcked(t, it)
				rec := state(t, l, it)
				if runs != 1 || to.count() != 1 || rec.State != ledger.Failed || len(rec.Archived) != 1 {
					t.Fatalf("%d runs, %d dead letters, %+v", runs, to.count(), rec)
				}
				if _, ok := rec.Archived[0].LeftOut(); !ok || !rec.Archived[0].Sent {
					t.Errorf("%+v", rec.Archived[0])
				}
				end(t, e)
			})
		})
	}
}

// What is too large only when it is sealed is sealed without its body. The mark is sealed, too.
func TestLargerThanTheArchiveWhenSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := tight(), options()
		o.Cipher = padding{}
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { return consumer.Terminal(errBoom) }, retained)
		it := item("one", "")
		it.Original = func(*engine.Item) engine.Content { return engine.Content{Body: bytes.Repeat([]byte("y"), 990)} }
		e.Offer([]*engine.Item{it})
		pass(time.Minute)
		b.wantAcked(t, it)
		a := state(t, l, it).Archived[0].Archive
		if !a.Sealed() {
			t.Fatalf("%+v", a)
		}
		if err := a.Open(t.Context(), padding{}); err != nil {
			t.Fatal(err)
		}
		if left, ok := a.LeftOut(); !ok || left.Bytes != 990 {
			t.Errorf("%v, %+v", ok, left)
		}
		end(t, e)
	})
}

// Many small headers fill the archive, and sealed they are more than it takes: it has fewer of them then. It was refused as it
// was, for ever, and the handler ran again after each restart.
func TestSealedHeadersFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.WithLimits(ledger.Limits{Result: 1 << 10, Archive: 64 << 10, Errors: 16 << 10}))
		o := options()
		o.Cipher = padding{}
		var headers []ledger.Header
		for i := range 4000 {
			headers = append(headers, ledger.Header{Name: fmt.Sprintf("header-%05d", i), Value: []byte("a value")})
		}
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error {
			return consumer.Terminal(errors.New("no"))
		}, func(c *engine.Config) { c.Retained = true })
		it := item("wide", "")
		it.Msg.Headers = headers
		it.Original = func(*engine.Item) engine.Content { return engine.Content{Body: []byte("a body"), Headers: headers} }
		e.Offer([]*engine.Item{it})
		pass(time.Hour)
		if _, done := b.verdict(t, it); !done {
			t.Errorf("it is not settled: %+v", e.Health().Stalled)
		}
		end(t, e)
	})
}

// padding is a cipher whose output is longer by 50 bytes.
type padding struct{}

func (padding) Seal(_ context.Context, plain []byte) ([]byte, error) {
	return append(make([]byte, 50), plain...), nil
}
func (padding) Open(_ context.Context, sealed []byte) ([]byte, error) { return sealed[50:], nil }

// While the cipher is away, a handler whose verdict was final ran again at each try, and its dead letter was published again.
// The settlement is repeated by itself, and the message is given back where the broker is to have it.
func TestPitfall121_CipherAwayAfterAFinalVerdict(t *testing.T) {
	for name, healed := range map[string]bool{"it comes back": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, to := memory.New(), &target{}
				var away atomic.Bool
				away.Store(true)
				o := forwarding(to)
				o.Cipher = mirror{broken: func() error {
					if away.Load() {
						return errors.New("no key")
					}
					return nil
				}}
				runs := 0
				e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { runs++; return consumer.Terminal(errBoom) })
				it := item("one", "")
				e.Offer([]*engine.Item{it})
				pass(2 * time.Hour)
				if h := e.Health(); len(h.Stalled) != 1 || h.Stalled[0].What != "one" || h.Stalled[0].Reason != consumer.StallRefused ||
					!strings.Contains(h.Stalled[0].Why, "no key") {
					t.Errorf("%+v", h)
				}
				if healed {
					away.Store(false)
					pass(time.Hour)
					b.wantAcked(t, it)
				}
				if runs != 1 || to.count() != 1 {
					t.Errorf("%d runs, %d dead letters", runs, to.count())
				}
				end(t, e)
				if !healed {
					b.wantKept(t, it)
				}
				if h := e.Health(); len(h.Stalled) > 0 {
					t.Errorf("%+v", h)
				}
			})
		})
	}
}

// Where longer waits than HoldMax go back to the broker, what is refused for a while does not: its handler has spoken. It is tried
// more often instead.
func TestRefusedForAWhileWithALongBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), options()
		var away atomic.Bool
		away.Store(true)
		o.BackoffBase, o.BackoffMax = time.Second, 4*time.Hour
		o.Cipher = mirror{broken: func() error {
			if away.Load() {
				return errors.New("no key")
			}
			return nil
		}}
		runs := 0
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { runs++; return consumer.Terminal(errBoom) },
			func(c *engine.Config) { c.HoldMax = 15 * time.Minute })
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(5 * time.Hour)
		away.Store(false)
		pass(15*time.Minute + time.Second)
		b.wantAcked(t, it)
		if rec := state(t, l, it); rec.State != ledger.Failed || runs != 1 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
		end(t, e)
	})
}

// A revocation gives what is kept back at once, and a lost lease ends in a claim by whoever is next.
func TestWhatIsKeptGoesWithItsPartitionAndItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tight()
		runs := 0
		e, b := begin(t, l, options(), func(context.Context, *consumer.Message) error { runs++; return consumer.Terminal(errBoom) })
		it := large("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Minute)
		<-e.Drop(func(o *engine.Item) bool { return o == it }, time.Hour)
		b.wantKept(t, it)
		if rec := state(t, l, it); rec.State != ledger.Pending || rec.Owner != "" || runs != 1 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
		end(t, e)
	})
}

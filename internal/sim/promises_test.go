package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
)

// Each promise is told by name when it is broken, with the world and the steps before it: here those of what handlers begin.
func TestBrokenPromisesOfHandlersAreTold(t *testing.T) {
	areTold(t, map[string]func(x *broken){
		promises.OneOwner: func(x *broken) { x.begins(0, 1); x.begins(1, 2) },
		promises.TokensGrow: func(x *broken) {
			x.ends(x.begins(0, 2))
			x.begins(0, 1)
		},
		"messages of an ordering key run in order": func(x *broken) {
			x.d = x.part().records[4].delivery
			x.begins(0, 1)
		},
		"nothing begins while the lease is lost": func(x *broken) {
			x.w.begins(&running{by: x.both[0], sess: &session{}, it: x.item(), ticket: ledger.NewTicket(x.item().Key.Sum(), 1), attempt: 1})
		},
		"nothing begins while it drains":                     func(x *broken) { x.both[0].draining = true; x.begins(0, 1) },
		"nothing begins while it pauses":                     func(x *broken) { x.both[0].known.paused = true; x.begins(0, 1) },
		"nothing begins while the ledger does not answer":    func(x *broken) { x.both[0].known.away = true; x.begins(0, 1) },
		"nothing begins while the archive's budget is spent": func(x *broken) { x.w.cfg.Budget = 1; x.begins(0, 1) },
		"nothing begins while an operator has paused its scope": func(x *broken) {
			x.w.orders.since, x.both[0].known.told = map[string]time.Duration{"": 0}, 1
			x.begins(0, 1)
		},
		"nothing begins while the breaker is open": func(x *broken) { x.both[0].known.open = true; x.begins(0, 1) },
		"nothing begins while its verdict is to be settled": func(x *broken) {
			r := x.begins(0, 1)
			x.w.ends(r, &flow.Outcome{More: &ledger.Settlement{Kind: ledger.Fail}})
			x.w.begins(r)
		},
		promises.NotToBeRun:  func(x *broken) { x.d.forged = true; x.begins(0, 1) },
		promises.ParkedStays: func(x *broken) { x.w.cfg.Park, x.fact().cut = true, true; x.begins(0, 1) },
		promises.AttemptsEnd: func(x *broken) { x.fact().fails = -1; x.begins(0, 1) },
		"what has taken effect is not run again": func(x *broken) {
			r := x.begins(0, 1)
			x.w.takesEffect(r, nil)
			x.ends(r)
			x.begins(0, 1)
		},
		promises.EffectsOnce: func(x *broken) {
			r := x.begins(0, 1)
			x.w.takesEffect(r, nil)
			x.w.takesEffect(r, nil)
		},
		promises.CrashesEnd: func(x *broken) {
			for x.w.cfg.Moods[deadly] = 1e9; !x.w.marked(deadly, x.d.message); x.d.partition++ {
			}
			x.begins(0, 1)
			for range ledger.CrashLimit + 2 {
				x.both[0].cutShort()
			}
		},
	})
}

// Those of what is settled, acknowledged and finished.
func TestBrokenPromisesOfEndsAreTold(t *testing.T) {
	areTold(t, map[string]func(x *broken){
		"the handlers of a lost lease are cancelled": func(x *broken) {
			x.begins(0, 1)
			x.w.now = time.Second
			x.w.mustHaveCancelled(x.both[0], x.both[0].sess)
		},
		"after a drain no handler runs":     func(x *broken) { x.begins(0, 1); x.w.mustHaveDrained(x.both[0]) },
		"each message is given back once":   func(x *broken) { x.both[0].offered = 1; x.w.mustHaveDrained(x.both[0]) },
		promises.AckedFinished:              func(x *broken) { x.w.mustBeTerminal(x.d, promises.AckedFinished) },
		promises.NothingLost:                func(x *broken) { x.fact().key = x.d.key; x.w.mustHaveEnded() },
		promises.InnocentStays:              func(x *broken) { x.w.mustBeGuilty(x.d) },
		"what is settled has happened":      func(x *broken) { x.both[0].settledOne(x.d, ledger.Succeed, nil) },
		"a message is new once":             func(x *broken) { x.w.facts.met.Misses = 1; x.w.mustHaveEnded() },
		"without trouble each message runs": func(x *broken) { x.w.report.Runs = 1; x.w.mustHaveEnded() },
		"settlements keep the order of their key": func(x *broken) {
			x.w.mustBeInOrder(&flow.Batch{Items: []flow.Settlement{{Item: &flow.Item{Of: x.part().records[4].delivery}, Kind: ledger.Succeed}}})
		},
		promises.OffsetGrows: func(x *broken) {
			x.part().sure = 7
			x.commits(6)
		},
		"what is committed is finished": func(x *broken) { x.commits(1) },
		"a batch has its size": func(x *broken) {
			x.w.mustFit(x.both[0], &chunk{d: &flow.Dispatch{Items: []*flow.Item{x.item(), x.item()}, N: 2, Together: true}})
		},
		"as many handlers run as may": func(x *broken) {
			x.both[0].chunks = make([]*chunk, 2)
			x.w.mustFit(x.both[0], &chunk{d: &flow.Dispatch{}})
		},
		"what is dispatched is known": func(x *broken) {
			x.both[0].chunks = make([]*chunk, 1)
			x.w.mustFit(x.both[0], &chunk{d: &flow.Dispatch{}})
		},
		"nothing waits behind a slow handler": func(x *broken) {
			x.begins(0, 1)
			c := x.both[0].chunks[0]
			c.d = &flow.Dispatch{}
			c.next = -1
			x.w.mustWaitForNobody(c, 0)
		},
	})
}

// Those of what is in hand, and of what a process says of itself.
func TestBrokenPromisesOfProcessesAreTold(t *testing.T) {
	areTold(t, map[string]func(x *broken){
		"what is taken back is given back after the grace": func(x *broken) {
			x.both[0].flow.Offer(0, x.item())
			x.both[0].flow.NextClaim(0, &flow.Claim{})
			x.both[0].mustHaveGivenBack(x.both[0].flow.Drop(0, func(*flow.Item) bool { return true }, time.Hour, nil))
		},
		"what is in hand weighs": func(x *broken) { x.both[0].offered = 1; x.both[0].look() },
		"a crowd takes all the room": func(x *broken) {
			for range 3 {
				it := x.item()
				it.Size = maxHeld * size / 2
				x.both[0].flow.Offer(0, it)
			}
			x.both[0].larges = 4
			x.both[0].look()
		},
		"what waits for a short while is held": func(x *broken) {
			x.d.copied = true
			x.both[0].finished(x.d, flow.Verdict{Again: time.Second})
		},
		"where there is room, it is polled for": func(x *broken) {
			x.w.now = 6 * time.Second
			x.both[0].source = full{}
			x.both[0].look()
		},
		"the breaker opens where too much fails": func(x *broken) {
			x.w.cfg.Failures, x.w.now = 1, time.Minute
			x.both[0].known.ends = []final{{at: 50 * time.Second}, {at: 50 * time.Second}}
			x.both[0].look()
		},
		"what is finished leaves nothing in memory": func(x *broken) {
			x.both[0].flow.Offer(0, x.item())
			x.w.mustBeEmpty()
		},
		"news is of what happened": func(x *broken) { x.both[0].hear(&flow.News{What: flow.BreakerClosed}) },
		"a pause is told": func(x *broken) {
			x.w.cfg.Ordered, x.both[0].known.stopped = true, true
			x.both[0].heeds(x.both[0].sess, 0)
		},
		"a pause is an operator's": func(x *broken) {
			x.w.cfg.Ordered = true
			sess := x.both[0].sess
			if err := x.w.ledger.Pause(context.Background(), "", ledger.By{Actor: "x"}); err != nil {
				x.w.breaks(none, "%v", err)
			}
			_, _ = sess.owner.Beat(context.Background()) // else there is no pause, and nothing is told
			x.both[0].flow.Ordered(time.Hour, ledger.BoardedOf(sess.owner).Pauses())
			x.both[0].heeds(sess, 0)
		},
		"deliveries are counted in their scope": func(x *broken) { x.both[0].counted(flow.Counted{Scope: "another"}) },
		"health says what the breaker does":     func(x *broken) { x.both[0].known.open = true; x.both[0].look() },
	})
}

// areTold breaks promises, each in a world of its own.
func areTold(t *testing.T, promises map[string]func(x *broken)) {
	t.Helper()
	for promise, breaks := range promises {
		t.Run(promise, func(t *testing.T) {
			x := newBroken(t)
			breaks(x)
			if b := x.w.broken; b == nil || !strings.HasPrefix(b.Promise, promise) || !strings.Contains(b.Error(), "nobody takes a step") {
				t.Errorf("%q was not told: %+v", promise, b)
			}
		})
	}
}

// full is a source that always has more.
type full struct{ source }

func (full) more() bool { return true }

// broken is a world with two workers, in which a test breaks a promise.
type broken struct {
	w    *world
	both []*process
	d    delivery
}

func newBroken(t *testing.T) *broken {
	w := newWorld(Config{Workers: 2, Partitions: 1, Messages: 10, Keys: 4, Span: 10, Held: 10, Concurrency: 1})
	w.traced = true
	x := &broken{w: w}
	for i := range 2 {
		k := &worker{world: w, number: i}
		k.start()
		owner, err := w.ledger.Join(context.Background(), lease)
		if err != nil {
			t.Fatal(err)
		}
		k.process.sess = &session{ledgerUntil: time.Hour, owner: ledger.Ungroup(owner)}
		k.process.flow.Joined(&flow.Session{})
		x.both, w.workers = append(x.both, k.process), append(w.workers, k)
	}
	x.d = x.part().records[0].delivery
	w.report.Messages = 0
	w.note(nil, "takes a step", none, 0)
	return x
}

func (x *broken) part() *partition { return x.w.broker.(*cluster).parts[0] }

func (x *broken) fact() *fact { return x.w.facts.of(x.d.message) }

func (x *broken) item() *flow.Item { return &flow.Item{Of: x.d, OrderingKey: "k", Size: size} }

// begins has a process begin the message, with a token.
func (x *broken) begins(by int, token uint64) *running {
	p, it := x.both[by], x.item()
	r := &running{by: p, sess: p.sess, it: it, ticket: ledger.NewTicket(it.Key.Sum(), token), attempt: 1}
	x.w.begins(r)
	p.chunks = append(p.chunks, &chunk{p: p, running: []*running{r}})
	return r
}

func (x *broken) ends(r *running) { x.w.ends(r, &flow.Outcome{}) }

func (x *broken) commits(offset int64) {
	m := &member{process: x.both[0]}
	x.part().owner = m
	_ = x.w.broker.(*cluster).commit(x.part(), &assignment{member: m, generation: x.part().generation}, offsetEpoch{offset, 0}) // the world tells
}

// A world that does not come to its end is told, with what is left.
func TestEndlessWorldsAreTold(t *testing.T) {
	_, err := Run(Config{Workers: 0, Partitions: 1, Messages: 1})
	if err == nil || !strings.Contains(err.Error(), "partition 0 of nobody is committed up to 0 of 1") {
		t.Errorf("%v", err)
	}
}

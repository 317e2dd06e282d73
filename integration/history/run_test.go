package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/reliability"
	"github.com/ackledger/ackledger/ledger"
)

// site is one store under test, with what goes wrong around it.
type site struct {
	name   string
	ranged bool
	// open gives a history its way to the store, and one on which nothing goes wrong, for its end.
	open func(p plan) (trouble, calm door)
	// crew are processes that take part; nil: none.
	crew *crew
	// line is what lies between the clients and the database; nil: nothing does.
	line *troubled

	snapshots bool // see model
	watched   bool // see model
	// pieces: a claim is written in several pieces, and may find its owner sealed after the first.
	pieces bool
	locks  bool // a row may be found locked, and is Busy then
	busy   bool // the whole store may be found locked until the call's time is up, and all is Busy then

	histories, calls, unknown, refused, undecided, cut atomic.Int64
	answers                                            [6]atomic.Int64 // of claims, by ledger.Answer
}

// book keeps a history's calls.
type book struct {
	mu  sync.Mutex
	ops []*op
}

func (b *book) begin(ops []*op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ops = append(b.ops, ops...)
}

func (b *book) end([]*op) {}

// patient is how long the end of a history waits for a message that is locked.
const patient = 30 * time.Second

// run makes one history and returns what was recorded.
func (s *site) run(ctx context.Context, p plan) (*record, error) {
	trouble, calm := s.open(p)
	var b book
	w := newWorld(p, &b)
	var wg sync.WaitGroup
	for i := range p.Clients {
		c := &client{world: w, door: trouble, number: i, chance: p.chance(i)}
		wg.Go(func() { c.run(ctx) })
	}
	if s.crew != nil {
		wg.Go(func() { s.cut.Add(int64(s.crew.play(w, &b))) })
	}
	wg.Wait()
	last := &client{world: w, door: calm, number: lastClient, chance: p.chance(lastClient)}
	err := last.conclude(ctx, s.locks || s.busy)
	return &record{plan: p, ops: b.ops, site: s}, err
}

// lastClient is the number of the client that comes when all others have ended.
const lastClient = 99

// conclude asks for each message until nothing holds it, lets it succeed, and asks again: what was lost shows here.
func (c *client) conclude(ctx context.Context, locks bool) error {
	w := *c
	if !w.joinLast(ctx) {
		return fmt.Errorf("nobody can join any more")
	}
	for key := range c.plan.Keys {
		deadline := time.Now().Add(patient)
		for {
			if w.mine == nil && !w.joinLast(ctx) { // it stood still for a lease
				return fmt.Errorf("nobody can join any more")
			}
			o := &op{Kind: doClaim, Owner: w.mine.ID(), Key: key, Delivery: lastCopy, Solo: true}
			if !w.ask(ctx, w.mine, []*op{o}) {
				if time.Now().After(deadline) {
					return fmt.Errorf("the last claim of message %d was not answered", key)
				}
				continue
			}
			if *o.Got != (answer{}) || !locks {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("message %d is still locked after %s", key, patient)
			}
		}
		if !c.plan.Ranged {
			w.look(ctx, key)
		}
		w.mu.Lock()
		latest := w.tickets[max(0, len(w.tickets)-1):]
		w.mu.Unlock()
		if len(latest) == 1 && latest[0].from == w.mine && latest[0].key == key && !latest[0].ticket.IsMismatch() {
			o := &op{Kind: doSettle, Owner: w.mine.ID(), Key: key, Token: latest[0].ticket.Token(), From: w.mine.ID(), Settle: ledger.Succeed}
			w.finish(ctx, w.mine, []*op{o}, []ledger.Settlement{c.plan.settlement(o, latest[0].ticket)})
			if w.mine != nil {
				w.ask(ctx, w.mine, []*op{{Kind: doClaim, Owner: w.mine.ID(), Key: key, Delivery: lastCopy}})
			}
		}
	}
	if w.mine == nil {
		return nil
	}
	return w.call(ctx, []*op{{Kind: doLeave, Owner: w.mine.ID(), Key: allKeys}}, w.mine.Leave)
}

func (c *client) joinLast(ctx context.Context) bool {
	c.mu.Lock()
	c.owners = nil // there is room for one more
	c.mu.Unlock()
	return c.join(ctx)
}

// count adds a history to the totals.
func (s *site) count(r *record, undecided int) {
	s.histories.Add(1)
	s.undecided.Add(int64(undecided))
	for _, o := range r.ops {
		s.calls.Add(1)
		switch {
		case o.unknown():
			s.unknown.Add(1)
		case o.Void:
			s.refused.Add(1)
		case o.Got != nil:
			s.answers[o.Got.Answer].Add(1)
		}
	}
}

// A run of fewer histories repeats a seed, and need not have met everything.
const whole = 80

// missing is what hardly occurred in n histories: such a run shows nothing of it. Mostly everything comes ten times as often.
func (s *site) missing(n int) (out []string) {
	if n < whole {
		return nil
	}
	least := int64(max(1, n/100))
	want := func(what string, got int64) {
		if got < least {
			out = append(out, fmt.Sprintf("%d %s, want %d", got, what, least))
		}
	}
	want("unknown answers", s.unknown.Load())
	want("refused calls", s.refused.Load())
	for a := ledger.Busy; a <= ledger.Mismatch; a++ {
		if a != ledger.Mismatch || !s.ranged { // messages in ranges have no fingerprint
			want("answers "+a.String(), s.answers[a].Load())
		}
	}
	if s.crew != nil {
		want("processes killed", s.crew.kills.Load())
	}
	return out
}

// String tells the totals.
func (s *site) String() string {
	text := fmt.Sprintf("%s: %d histories, %d calls, %d of them unknown and %d refused; claims:", s.name, s.histories.Load(),
		s.calls.Load(), s.unknown.Load(), s.refused.Load())
	for a := ledger.Busy; a <= ledger.Mismatch; a++ {
		text += fmt.Sprintf(" %d %v", s.answers[a].Load(), a)
	}
	if s.crew != nil {
		text += fmt.Sprintf("; %d processes killed, %d calls of theirs cut", s.crew.kills.Load(), s.cut.Load())
	}
	return text
}

// row is the totals as a row of docs/reliability.md.
func (s *site) row(base uint64) []string {
	kills := int64(0)
	if s.crew != nil {
		kills = s.crew.kills.Load()
	}
	row := []string{s.name, reliability.Today(), strconv.FormatUint(base, 10)}
	for _, n := range []int64{s.histories.Load(), s.calls.Load(), s.unknown.Load(), s.refused.Load(), s.undecided.Load(), kills} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return row
}

// long says whether this is the long run.
func long() bool { return os.Getenv("ACKLEDGER_LONG") != "" }

// seed is that of the run: ACKLEDGER_SEED, or a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("ACKLEDGER_SEED")
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("ACKLEDGER_SEED: must be a number, is %q", text)
	}
	return n
}

// histories is how many a test makes: few, or many in the long run. ACKLEDGER_HISTORIES says otherwise.
func histories(t *testing.T, few, many int) int {
	t.Helper()
	if text := os.Getenv("ACKLEDGER_HISTORIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("ACKLEDGER_HISTORIES: must be a number above 0, is %q", text)
		}
		return n
	}
	if long() {
		return many
	}
	return few
}

// late says whether the test's time is nearly up: what was made by then is told.
func late(t *testing.T) bool {
	deadline, limited := t.Deadline()
	return limited && time.Until(deadline) < patient+patience
}

// atOnce is how many histories are made side by side.
const atOnce = 8

// check makes n histories, several at once, and checks each. It stops at the first that cannot be.
func (s *site) check(t *testing.T, n int) {
	t.Helper()
	base, name := seed(t), t.Name()+" "+strconv.FormatUint(rand.Uint64(), 36)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for number := int(next.Add(1)); number <= n && !t.Failed() && !late(t); number = int(next.Add(1)) {
				r, err := s.run(t.Context(), draw(base, number, name, s.ranged, s.crew != nil))
				if err != nil {
					t.Errorf("%s: seed %d, history %d: %v", s.name, base, number, err)
				}
				wrong, undecided := r.check()
				s.count(r, undecided)
				if wrong != nil {
					r.report(t, wrong)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("seed %d; %s", base, s)
	if !t.Failed() && !late(t) {
		for _, what := range s.missing(n) {
			t.Errorf("%s: %s in %d histories", s.name, what, n)
		}
	}
	if page := reliability.Page(); page != "" && !t.Failed() {
		if err := reliability.Row(page, "histories", s.row(base)...); err != nil {
			t.Error(err)
		}
	}
	if late(t) {
		t.Errorf("%s: the time was up after %d of %d histories", s.name, s.histories.Load(), n)
	}
	if got := s.undecided.Load(); got*1000 > int64(n) {
		t.Errorf("%s: %d parts of %d histories were not decided within %s", s.name, got, n, patience)
	}
}

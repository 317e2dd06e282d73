package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// door is how a client reaches its store.
type door struct {
	ledger  ledger.Ledger
	operate ledger.Operator
	// declare seals a live owner dead at once.
	declare func(ctx context.Context, owner string) error
	// limit draws how long a call may take.
	limit func(*rand.Rand) time.Duration
}

// recorder keeps calls. Both are called by many goroutines.
type recorder interface {
	begin(ops []*op)
	end(ops []*op)
}

// world is what the clients of one process share in one history: they use each other's owners, and repeat each other's
// settlements.
type world struct {
	plan plan
	rec  recorder

	mu      sync.Mutex
	owners  []ledger.Owner
	known   []string // owners of all processes, to be declared dead
	tickets []held
	tokens  []uint64 // the highest that was seen, by key
}

type held struct {
	ticket ledger.Ticket
	key    int
	from   ledger.Owner
	copy   int // the delivery it was claimed by
}

func newWorld(p plan, rec recorder) *world {
	return &world{plan: p, rec: rec, tokens: make([]uint64, p.Keys)}
}

// client is one goroutine with calls of its own.
type client struct {
	*world
	door
	number int
	chance *rand.Rand
	mine   ledger.Owner
}

// maxJoins keeps the owners of a history few enough for the model.
const maxJoins = 10

// run makes the client's calls. A history ends early when the store does not even let it join.
func (c *client) run(ctx context.Context) {
	for range c.plan.Ops {
		if c.mine == nil && !c.join(ctx) {
			continue
		}
		switch n := c.chance.IntN(100); {
		case n < 42:
			c.claim(ctx)
		case n < 76:
			c.settle(ctx)
		case n < 80:
			c.beat(ctx)
		case n < 83:
			c.leave(ctx)
		case n < 87:
			c.seal(ctx)
		case n < 91:
			c.reopen(ctx)
		case n < 95:
			c.renew(ctx)
		case n < 97:
			c.get(ctx)
		default:
			c.mine = nil // joins anew
		}
	}
}

// call makes one call: do says what became of it by its error, and may fill in the rest.
func (c *client) call(ctx context.Context, ops []*op, do func(context.Context) error) error {
	limit, begin := c.limit(c.chance), now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, o := range ops {
		o.Client, o.Limit, o.Call = c.number, int64(limit), begin
	}
	c.rec.begin(ops)
	err := do(ctx)
	at := now()
	for _, o := range ops {
		o.Return = at
		switch {
		case ledger.Unknown(err), o.unsure:
			o.Return = never
		case ledger.IsLost(err), errors.Is(err, ledger.ErrChanged):
			o.Lost = true
		case err != nil:
			o.Void = true
		}
	}
	c.rec.end(ops)
	return err
}

func (c *client) join(ctx context.Context) bool {
	c.mu.Lock()
	full := len(c.owners) >= maxJoins
	if full {
		c.mine = c.owners[c.chance.IntN(len(c.owners))]
	}
	c.mu.Unlock()
	if full {
		return true
	}
	o := &op{Kind: doJoin, Key: allKeys, Lease: int64(c.plan.Lease)}
	var owner ledger.Owner
	err := c.call(ctx, []*op{o}, func(ctx context.Context) (err error) {
		if owner, err = c.ledger.Join(ctx, c.plan.Lease); err == nil {
			o.Owner = owner.ID()
		}
		return err
	})
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mine = owner
	c.owners, c.known = append(c.owners, owner), append(c.known, owner.ID())
	return true
}

// who is mostly the client's own owner.
func (c *client) who() ledger.Owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chance.IntN(10) == 0 {
		return c.owners[c.chance.IntN(len(c.owners))]
	}
	return c.mine
}

func (c *client) claim(ctx context.Context) {
	who := c.who()
	var ops []*op
	for _, key := range c.chance.Perm(c.plan.Keys)[:1+c.chance.IntN(c.plan.Keys)] {
		o := &op{Kind: doClaim, Owner: who.ID(), Key: key, Delivery: c.plan.delivery(c.chance), Solo: c.chance.IntN(2) == 0,
			Park: c.chance.IntN(5) == 0}
		if c.chance.IntN(7) == 0 {
			o.Stamp = c.token(key) + uint64(c.chance.IntN(2))
		}
		ops = append(ops, o)
	}
	c.ask(ctx, who, ops)
}

// ask claims, and returns whether all was answered.
func (c *client) ask(ctx context.Context, who ledger.Owner, ops []*op) bool {
	entries := make([]ledger.Entry, len(ops))
	for i, o := range ops {
		entries[i] = c.plan.entry(o)
	}
	err := c.call(ctx, ops, func(ctx context.Context) error {
		claims, err := who.Claim(ctx, entries)
		for i := range claims {
			ops[i].Got = told(&claims[i])
			if claims[i].Err != nil {
				return fmt.Errorf("an entry was refused: %w", claims[i].Err)
			}
			c.hold(ops[i], who, &claims[i])
		}
		return err
	})
	if ledger.IsLost(err) && c.mine == who {
		c.mine = nil
	}
	return err == nil
}

func (c *client) hold(o *op, who ledger.Owner, claim *ledger.Claim) {
	if claim.Ticket.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickets = append(c.tickets, held{ticket: claim.Ticket, key: o.Key, from: who, copy: o.Delivery})
	c.tokens[o.Key] = max(c.tokens[o.Key], claim.Token)
}

func (c *client) token(key int) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[key]
}

// some draws tickets of distinct messages and one owner, mostly the latest.
func (c *client) some() (who ledger.Owner, tickets []held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tickets) == 0 {
		return nil, nil
	}
	back := max(0, c.chance.IntN(12)-7)
	last := max(0, len(c.tickets)-1-back)
	who = c.tickets[last].from
	n := 1 + c.chance.IntN(c.plan.Keys)
	taken := map[int]bool{}
	for i := last; i >= 0 && len(tickets) < n; i-- {
		if h := c.tickets[i]; h.from == who && !taken[h.key] {
			taken[h.key] = true
			tickets = append(tickets, h)
		}
	}
	if c.chance.IntN(15) == 0 {
		who = c.owners[c.chance.IntN(len(c.owners))]
	}
	return who, tickets
}

func (c *client) settle(ctx context.Context) {
	who, tickets := c.some()
	ops := make([]*op, len(tickets))
	settlements := make([]ledger.Settlement, len(tickets))
	for i, h := range tickets {
		o := &op{Kind: doSettle, Owner: who.ID(), Key: h.key, Token: h.ticket.Token(), From: h.from.ID(), Mismatch: h.ticket.IsMismatch()}
		switch n := c.chance.IntN(10); {
		case n < 4:
			o.Settle = ledger.Succeed
			if c.chance.IntN(3) == 0 {
				o.Result = fmt.Sprintf("result-%d", c.chance.IntN(1000))
			}
		case n < 6 || o.Mismatch:
			o.Settle, o.Delivery = ledger.Fail, h.copy
		case n < 8:
			o.Settle, o.Count = ledger.Release, true
		default:
			o.Settle = ledger.Release
		}
		if o.Settle == ledger.Release && c.chance.IntN(4) == 0 {
			o.After = time.Duration(1+c.chance.IntN(20)) * time.Millisecond
			if c.chance.IntN(5) == 0 {
				o.After = time.Hour
			}
		}
		ops[i], settlements[i] = o, c.plan.settlement(o, h.ticket)
	}
	if len(ops) == 0 {
		return
	}
	c.finish(ctx, who, ops, settlements)
}

// finish settles. What is answered of one message alone does not concern the others.
func (c *client) finish(ctx context.Context, who ledger.Owner, ops []*op, settlements []ledger.Settlement) {
	var errs []error
	_ = c.call(ctx, ops, func(ctx context.Context) (err error) { // the error is in the ops
		errs, err = who.Settle(ctx, settlements)
		for i := range errs {
			ops[i].Lost, ops[i].unsure = ledger.IsLost(errs[i]), ledger.Unknown(errs[i])
			ops[i].Void = errs[i] != nil && !ops[i].Lost && !ops[i].unsure
		}
		return err
	})
}

func (c *client) beat(ctx context.Context) {
	who := c.who()
	o := &op{Kind: doBeat, Owner: who.ID(), Key: allKeys, Lease: int64(c.plan.Lease)}
	err := c.call(ctx, []*op{o}, func(ctx context.Context) error {
		_, err := who.Beat(ctx)
		return err
	})
	if ledger.IsLost(err) && c.mine == who {
		c.mine = nil
	}
}

func (c *client) leave(ctx context.Context) {
	who := c.who()
	o := &op{Kind: doLeave, Owner: who.ID(), Key: allKeys}
	if err := c.call(ctx, []*op{o}, who.Leave); err == nil && c.mine == who && c.chance.IntN(2) == 0 {
		c.mine = nil // else it goes on as one that does not know
	}
}

// seal declares one of the history's owners dead, mostly a late one.
func (c *client) seal(ctx context.Context) {
	c.mu.Lock()
	if len(c.known) == 0 {
		c.mu.Unlock()
		return
	}
	owner := c.known[c.chance.IntN(len(c.known))]
	c.mu.Unlock()
	o := &op{Kind: doDeclare, Owner: owner, Key: allKeys}
	_ = c.call(ctx, []*op{o}, func(ctx context.Context) error { // the error is in the op
		return ledger.MarkUnknown(c.declare(ctx, owner))
	})
}

var by = ledger.By{Actor: "history"}

func (c *client) reopen(ctx context.Context) {
	o := &op{Kind: doReopen, Key: c.chance.IntN(c.plan.Keys), Fresh: !c.plan.Ranged && c.chance.IntN(2) == 0}
	_ = c.call(ctx, []*op{o}, func(ctx context.Context) error { // the error is in the op
		key := c.plan.key(o.Key)
		r, err := c.operate.Reopen(ctx, ledger.ReopenRequest{
			Filter: ledger.Filter{Scope: key.Scope, IDs: [][]byte{key.ID}}, FreshKeys: o.Fresh, By: by,
		})
		o.Done, o.Skipped = r.Reopened > 0, r.Skipped > 0
		return ledger.MarkUnknown(err) // it is several calls
	})
}

func (c *client) renew(ctx context.Context) {
	key := c.chance.IntN(c.plan.Keys)
	o := &op{Kind: doRenew, Key: key, Token: c.token(key)}
	_ = c.call(ctx, []*op{o}, func(ctx context.Context) error { // the error is in the op
		r, err := c.operate.Renew(ctx, ledger.Renewal{Key: c.plan.key(key), Token: o.Token, By: by})
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.tokens[key] = max(c.tokens[key], r.Token)
		}
		return err
	})
}

// get looks at a row. What lies in ranges is told from several places, at several moments: only the end looks there.
func (c *client) get(ctx context.Context) {
	if !c.plan.Ranged {
		c.look(ctx, c.chance.IntN(c.plan.Keys))
	}
}

func (c *client) look(ctx context.Context, key int) {
	o := &op{Kind: doGet, Key: key}
	_ = c.call(ctx, []*op{o}, func(ctx context.Context) error { // a reader changes nothing
		r, err := c.operate.Get(ctx, c.plan.key(key))
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return errors.New("not read: " + err.Error())
		}
		o.Row = &view{
			State: r.State, Owner: r.Owner, Token: r.Token, Attempts: r.Attempts, Crashes: r.Crashes, Generation: r.Generation,
			Archive: len(r.Archived), Result: string(r.Result),
		}
		return nil
	})
}

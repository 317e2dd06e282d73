package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// errHeld is what a settlement gets whose row another transaction has kept locked: it may be repeated.
var errHeld = errors.New("postgres: another transaction holds the message's row: not settled, try again")

// heldWait is how long a batch waits for rows that another transaction holds, before it is answered without them. Claims of
// others that look at them are over by then.
const heldWait = 20 * time.Millisecond

// Settle implements [ledger.Owner]. A settlement whose row another transaction holds (an InTx of this very message whose
// commit is not answered) gets an error that is neither ErrLost nor an InvalidError: it alone is to be repeated. What Join
// returns repeats it for 10 * Config.LockWait by itself, and holds nobody else meanwhile: see patience. A batch of
// [ledger.Ungroup] gets the error at once, after heldWait.
func (o *owner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	return o.settle(ctx, settlements, false)
}

// settle is Settle; held says that the rows were held by others when they were last asked for.
func (o *owner) settle(ctx context.Context, settlements []ledger.Settlement, held bool) ([]error, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	n := len(settlements)
	c := &settleCall{
		owner: o, held: held, settlements: settlements, out: make([]error, n), done: make([]bool, n),
		sums: make([][ledger.KeySize]byte, n), until: o.deadline(ctx),
	}
	var items []int32
	for i := range settlements {
		if c.out[i] = o.ledger.checkSettlement(&settlements[i]); c.out[i] == nil {
			c.sums[i] = settlements[i].Ticket.Sum()
			items = append(items, int32(i))
		}
	}
	if err := c.prepare(ctx, items); err != nil {
		return nil, err
	}
	wrote := false
	for len(items) > 0 { // more than one round only if a key is repeated, but for steps
		var again []int32
		items, again = c.firsts(items)
		if err := c.round(ctx, items); err != nil {
			return nil, storage.MarkPartly(wrote, err)
		}
		wrote, items = true, again
	}
	return c.out, nil
}

// firsts returns the first item of each key, in the order of the keys, and the rest in their own order. With the first step of a
// claim go those that follow it, up to what is no step of it.
func (c *settleCall) firsts(items []int32) (first, rest []int32) {
	seen := make(map[[ledger.KeySize]byte]int32, len(items)) // of each key: its first item, or none if others are among the rest
	const none = -1
	for _, i := range items {
		at, again := seen[c.sums[i]]
		switch {
		case !again:
			seen[c.sums[i]] = i
			first = append(first, i)
		case at != none && c.sameClaim(at, i):
			first = append(first, i)
		default:
			seen[c.sums[i]] = none
			rest = append(rest, i)
		}
	}
	slices.SortStableFunc(first, func(a, b int32) int { return bytes.Compare(c.sums[a][:], c.sums[b][:]) })
	return first, rest
}

// sameClaim says whether both are steps of one claim.
func (c *settleCall) sameClaim(i, j int32) bool {
	a, b := &c.settlements[i], &c.settlements[j]
	return a.Kind == ledger.RecordStep && b.Kind == ledger.RecordStep && a.Ticket == b.Ticket
}

// prepare reads what the settlements need: the numbers of the archives' scopes.
func (c *settleCall) prepare(ctx context.Context, items []int32) error {
	names := make(map[string]int32)
	for _, i := range items {
		if s := &c.settlements[i]; s.Kind == ledger.Fail || s.Kind == ledger.Park {
			names[s.Dead.Key.Scope] = 0
		}
	}
	c.scopes = names
	return c.owner.ledger.numbers(ctx, names)
}

// settling is how items of one kind are settled.
type settling struct {
	items      []int32
	skip, wait string
	args       func([]int32) []any
	lean       func([]int32) (string, []any) // if any, goes ahead and needs nobody to hold a row
}

// round settles items of which each kind but that of steps has distinct keys.
func (c *settleCall) round(ctx context.Context, items []int32) error {
	var steps, succeeds, releases, fails, parks []int32
	for _, i := range items {
		switch c.settlements[i].Kind {
		case ledger.RecordStep:
			steps = append(steps, i)
		case ledger.Fail:
			fails = append(fails, i)
		case ledger.Park:
			parks = append(parks, i)
		case ledger.Release:
			releases = append(releases, i)
		default:
			succeeds = append(succeeds, i)
		}
	}
	if err := c.readPast(ctx, slices.Concat(releases, parks)); err != nil {
		return err
	}
	wrote, err := c.record(ctx, steps)
	if err != nil {
		return err
	}
	for _, kind := range []settling{
		{succeeds, sqlSettle, sqlSettleWait, c.plainArgs, c.lean},
		{releases, sqlSettle, sqlSettleWait, c.plainArgs, nil},
		{fails, sqlFail, sqlFailWait, c.failArgs, nil},
		{parks, sqlPark, sqlParkWait, c.parkArgs, nil},
	} {
		if wrote, err = c.settle(ctx, kind, wrote); err != nil {
			return err
		}
	}
	return nil
}

// record records steps. A schema of a version before 13 has no table for them: that is the steps' error, which says to migrate,
// and not that of what else is settled in the call.
func (c *settleCall) record(ctx context.Context, items []int32) (wrote bool, err error) {
	wrote, err = c.settle(ctx, settling{items: items, skip: sqlRecord, wait: sqlRecordWait, args: c.recordArgs}, false)
	if code(err) != codeNoTable {
		return wrote, err
	}
	for _, i := range c.open(items) {
		c.out[i] = err
	}
	return false, nil
}

// settle settles items of one kind. It says whether anything was written, by now or before.
func (c *settleCall) settle(ctx context.Context, kind settling, wrote bool) (bool, error) {
	s := c.splitter(kind.skip, kind.args)
	s.wrote = wrote
	for _, part := range chunks(kind.items, c.size) {
		if kind.lean != nil && !c.held {
			query, args := kind.lean(part)
			err := c.exec(ctx, query, part, leanWait, args)
			if none := errors.Is(err, pgx.ErrNoRows); err == nil || none { // none: sqlSucceedOne has not written
				s.wrote = s.wrote || !none
				continue
			}
			if !refused(err) {
				return s.wrote, storage.MarkPartly(s.wrote, err)
			}
		}
		if err := s.run(ctx, part, c.owner.ledger.cfg.LockWait); err != nil {
			return s.wrote, err
		}
	}
	more, err := c.rest(ctx, kind)
	s.wrote = s.wrote || more
	return s.wrote, storage.MarkPartly(s.wrote, err)
}

func (c *settleCall) size(i int32) int {
	s := &c.settlements[i]
	n := len(s.Result) + 64
	switch s.Kind {
	case ledger.RecordStep:
		n = len(s.Step.Name) + len(s.Step.Result) + 64
	case ledger.Fail, ledger.Park:
		n = s.Dead.Size() + len(s.Dead.Key.ID) + len(s.Dead.Delivery) + 64
	}
	return n
}

func (c *settleCall) splitter(query string, args func([]int32) []any) *splitter {
	log := c.owner.ledger.log
	return &splitter{
		exec: func(ctx context.Context, part []int32, wait time.Duration) error {
			return c.exec(ctx, query, part, wait, args(part))
		},
		locked: func(i int32, err error) { c.out[i] = fmt.Errorf("%w (%w)", errHeld, err) },
		refused: func(i int32, err error) {
			log.Error("the database refuses a settlement", zap.Error(err),
				zap.Stringer("kind", c.settlements[i].Kind))
			c.out[i] = refusedItem("Settlement", err)
		},
	}
}

// exec settles one part in one statement, and notes what it wrote.
func (c *settleCall) exec(ctx context.Context, query string, part []int32, wait time.Duration, args []any) error {
	var inTime bool
	var written int
	var keys [][ledger.KeySize]byte
	args = append([]any{c.owner.id, c.until, milliseconds(wait)}, args...)
	if err := c.owner.ledger.one(ctx, query, args, &inTime, &written, &keys); err != nil {
		return fmt.Errorf("postgres: settle: %w", err)
	}
	if !inTime {
		return errLate
	}
	wrote := wroteOf(part, written, keys)
	for _, i := range part {
		c.done[i] = wrote(c.sums[i])
	}
	return nil
}

// rest deals with items that were not written: it reads what became of their rows, and asks again for those that only were
// locked. Most locks are gone at once (a claim of others that looked at the rows), so each round asks for all of them, and
// then waits for one alone: a row that stays locked holds up no other. All of it takes no longer than heldWait. It says whether
// it wrote anything.
func (c *settleCall) rest(ctx context.Context, kind settling) (wrote bool, err error) {
	wait := c.owner.ledger.cfg.LockWait
	patience := time.Now().Add(heldWait)
	again, alone := c.splitter(kind.skip, kind.args), c.splitter(kind.wait, kind.args)
	alone.locked = func(int32, error) {} // its turn comes again
	defer func() { wrote = again.wrote || alone.wrote }()
	for turn := 0; ; turn++ {
		held, err := c.judge(ctx, c.open(kind.items))
		if err != nil || len(held) == 0 {
			return wrote, err
		}
		if turn > 0 {
			for _, part := range chunks(held, c.size) {
				if err := again.run(ctx, part, min(wait, heldWait)); err != nil {
					return wrote, err
				}
			}
			if held = c.open(held); len(held) == 0 {
				return wrote, nil
			}
		}
		left := time.Until(patience)
		if c.held || left <= 0 {
			for _, i := range held {
				c.out[i] = errHeld
			}
			return wrote, nil
		}
		one := held[turn%len(held)]
		if err := alone.run(ctx, []int32{one}, min(left, wait)); err != nil {
			return wrote, err
		}
	}
}

// open returns the items without an outcome.
func (c *settleCall) open(items []int32) []int32 {
	var open []int32
	for _, i := range items {
		if !c.done[i] && c.out[i] == nil {
			open = append(open, i)
		}
	}
	return open
}

// judge reads the rows of items that were not written and applies [ledger.DecideSettle]. It returns those that could
// be written as far as it can see: they were locked. What an earlier try has settled is settled when a COMMIT of now is: its own
// may still wait for a synchronous standby.
func (c *settleCall) judge(ctx context.Context, items []int32) (held []int32, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	rows, stale, err := c.find(ctx, items)
	if err != nil {
		return nil, err
	}
	if err := c.unfile(ctx, stale); err != nil {
		return nil, err
	}
	if err := c.findParked(ctx, items, rows); err != nil {
		return nil, err
	}
	settled := false
	for _, i := range c.open(items) {
		switch ledger.DecideSettle(rows[c.sums[i]], c.settlements[i]) {
		case ledger.EffectHolds:
			c.done[i], settled = true, true
		case ledger.EffectWrite, ledger.EffectFile:
			held = append(held, i)
		default:
			c.out[i] = fmt.Errorf("%w: message %x, token %d", ledger.ErrLost, c.sums[i], c.settlements[i].Ticket.Token())
		}
	}
	if settled {
		err = c.owner.ledger.confirm(ctx)
	}
	return held, err
}

// find reads the rows of items, and which items' archived deliveries are past their time.
func (c *settleCall) find(ctx context.Context, items []int32) (found map[[ledger.KeySize]byte]*ledger.Row, stale []int32, err error) {
	keys, deliveries := c.names(items)
	found = make(map[[ledger.KeySize]byte]*ledger.Row, len(items))
	over := make(map[[ledger.KeySize]byte]bool)
	var key [ledger.KeySize]byte
	var state int16
	var token, holder int64
	var past *bool
	err = c.owner.ledger.read(ctx, sqlFind, []any{keys, deliveries},
		[]any{&key, &state, &token, &holder, &past}, func() {
			over[key] = past != nil && *past
			if state != 0 {
				found[key] = &ledger.Row{State: ledger.State(state), Token: uint64(token), Holder: holderOf(holder, c.owner.id),
					Archived: past != nil && !*past}
			}
		})
	for _, i := range items {
		if over[c.sums[i]] {
			stale = append(stale, i)
		}
	}
	return found, stale, err
}

// names are the keys of items, and the deliveries that they archive.
func (c *settleCall) names(items []int32) (keyArray, byteArray) {
	keys, deliveries := make(keyArray, len(items)), make(byteArray, len(items))
	for at, i := range items {
		keys[at] = uuid(c.sums[i])
		if s := &c.settlements[i]; s.Kind == ledger.Fail {
			deliveries[at] = s.Dead.Delivery
		}
	}
	return keys, deliveries
}

// unfile makes room for deliveries that fail again after the time of what is archived under their names. In a schema of a version
// before 16 they wait for the sweep: their error says to migrate.
func (c *settleCall) unfile(ctx context.Context, items []int32) error {
	if len(items) == 0 {
		return nil
	}
	keys, deliveries := c.names(items)
	var gone int64
	err := c.owner.ledger.one(ctx, sqlUnfile, []any{keys, deliveries}, &gone)
	if code(err) != codeNoFunction {
		return err
	}
	for _, i := range items {
		c.out[i] = fmt.Errorf("postgres: message %x is archived from before, past its time: %s: %w", c.sums[i], runMigrate, err)
	}
	return nil
}

// holderOf tells what DecideSettle needs to know: nobody's, mine or another's.
func holderOf(holder, me int64) ledger.Holder {
	switch holder {
	case 0:
		return ledger.Nobody
	case me:
		return ledger.Mine
	}
	return ledger.Live
}

// readPast reads the lists of errors that counted releases append to. Only their own claim could change them, so they
// hold until the settlement.
func (c *settleCall) readPast(ctx context.Context, items []int32) error {
	var keys keyArray
	for _, i := range items {
		if s := &c.settlements[i]; (s.Kind == ledger.Release || s.Kind == ledger.Park) && s.Count {
			keys = append(keys, uuid(c.sums[i]))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	c.past = make(map[[ledger.KeySize]byte][]byte)
	var key [ledger.KeySize]byte
	var list []byte
	return c.owner.ledger.read(ctx, sqlPastErrors, []any{keys}, []any{&key, &list}, func() {
		c.past[key] = bytes.Clone(list)
	})
}

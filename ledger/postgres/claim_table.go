package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// The rules of the claim table, as sqlClaim answers them, and its first row, which is about the owner.
const (
	ruleOwner     = 0
	ruleNew       = 1
	ruleUnseen    = 2
	ruleArchived  = 3
	ruleMismatch  = 4
	ruleSucceeded = 5
	ruleHeld      = 6
	ruleSpent     = 7
	ruleSuspect   = 8
	ruleOldCopy   = 9
	ruleRun       = 10
	ruleInCare    = 11 // between those of what has succeeded and of what is held
)

const (
	flagSolo = 1
	flagPark = 2
	flagOnly = 4
	flagKeep = 8
	flagCare = 16
)

const holderMine, holderLive, holderLeft, holderDead = 1, 2, 3, 4 // as sqlClaim numbers them

// claimCall is one call of Claim.
type claimCall struct {
	owner   *owner
	entries []ledger.Entry
	only    []bool // see ranges.Store.ClaimRows
	sums    [][ledger.KeySize]byte
	scopes  map[string]int32
	until   int64 // the deadline on the database's clock
	out     []ledger.Claim
}

// onlyRow says that an entry gets no row if it has none.
func (c *claimCall) onlyRow(i int32) bool { return c.only != nil && c.only[i] }

func (c *claimCall) size(i int32) int { return len(c.entries[i].Key.ID) + len(c.entries[i].Delivery) }

// check refuses what cannot be stored, and returns the rest in the order of the keys, each key once.
func (c *claimCall) check() []int32 {
	c.sums = make([][ledger.KeySize]byte, len(c.entries))
	asked := make([]int32, 0, len(c.entries))
	for i := range c.entries {
		if c.out[i].Err = checks.Entry(&c.entries[i]); c.out[i].Err == nil {
			c.sums[i] = c.entries[i].Key.Sum()
			asked = append(asked, int32(i))
		}
	}
	return distinct(asked, c.sums)
}

// distinct sorts items by their keys and drops all but the first of a key.
func distinct(items []int32, sums [][ledger.KeySize]byte) []int32 {
	slices.SortStableFunc(items, func(a, b int32) int { return bytes.Compare(sums[a][:], sums[b][:]) })
	return slices.CompactFunc(items, func(a, b int32) bool { return sums[a] == sums[b] })
}

// claimSQL is the claim table for the schema that is there.
func (l *Ledger) claimSQL() string {
	if l.parks.Load() {
		return sqlClaim
	}
	return sqlClaimNoParking
}

// exec claims one part in one statement.
func (c *claimCall) exec(ctx context.Context, part []int32, wait time.Duration) error {
	l := c.owner.ledger
	conn, err := l.own.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	var state claimState
	if err = tuned(ctx, conn, l.sql(l.claimSQL()), c.args(part, wait), c.reader(part, &state)); err == nil {
		err = state.check(c.owner)
	}
	if err != nil {
		for _, i := range part {
			c.out[i] = ledger.Claim{}
		}
		return state.translate(err)
	}
	return nil
}

// claimState is what a claim says about its owner: there is no answer at all if its row is gone.
type claimState struct {
	live, inTime, answered bool
	written, taken         int64 // rows that the statement wrote, and that it answered as taken
}

func (s claimState) check(o *owner) error {
	switch {
	case !s.answered || !s.live:
		return fmt.Errorf("%w: owner %s is not live any more", ledger.ErrLost, o.ID())
	case !s.inTime:
		return errLate
	case s.written != s.taken:
		return fmt.Errorf("postgres: the claim answered %d messages as taken, and wrote %d", s.taken, s.written)
	}
	return nil
}

func (s claimState) translate(err error) error {
	if ledger.IsLost(err) || errors.Is(err, errLate) {
		return err
	}
	return fmt.Errorf("postgres: claim: %w", sent(err))
}

// args lines up the statement's parameters. An array of default values is sent empty: unnest fills it with null.
func (c *claimCall) args(part []int32, wait time.Duration) []any {
	n := len(part)
	keys, prints := make(keyArray, n), make(keyArray, n)
	scopes, windows := make([]int32, n), make([]int64, n)
	ids, deliveries := make(byteArray, n), make(byteArray, n)
	var stamps []int64
	var flags []int16
	for at, i := range part {
		e := &c.entries[i]
		keys[at], prints[at] = uuid(c.sums[i]), uuid(e.Fingerprint)
		scopes[at], windows[at] = c.scopes[e.Key.Scope], e.Window.Microseconds()
		ids[at], deliveries[at] = e.Key.ID, e.Delivery
		if e.StampToken != 0 {
			stamps = sized(stamps, n)
			stamps[at] = int64(e.StampToken) // beyond 63 bits it becomes negative: no row's token, as it should be
		}
		if only := c.onlyRow(i); e.Solo || e.Park || only || e.KeepFailed || e.Parked {
			flags = sized(flags, n)
			flags[at] = int16(bit(e.Solo, flagSolo) | bit(e.Park, flagPark) | bit(only, flagOnly) | bit(e.KeepFailed, flagKeep) |
				bit(e.Parked, flagCare))
		}
	}
	return []any{
		c.owner.id, c.until, milliseconds(wait), keys, prints, scopes, ids, deliveries, windows, orEmpty(stamps),
		orEmpty(flags),
	}
}

// claimAnswer is one row of sqlClaim's answer.
type claimAnswer struct {
	rule                          int32
	key                           *[ledger.KeySize]byte
	token                         int64
	attempts, crashes, generation int32
	holder                        int32
	wait                          int64
	result, errors                []byte
}

// reader fills in the answers of one part, row by row. A key without an answer stays Busy.
func (c *claimCall) reader(part []int32, state *claimState) func(pgx.Rows) error {
	at := make(map[[ledger.KeySize]byte]int32, len(part))
	for _, i := range part {
		at[c.sums[i]] = i
	}
	var key [ledger.KeySize]byte
	a := claimAnswer{key: &key}
	dest := []any{
		&a.rule, &a.key, &a.token, &a.attempts, &a.crashes, &a.generation, &a.holder, &a.wait, &a.result, &a.errors,
	}
	return func(rows pgx.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if a.rule == ruleOwner {
			*state = claimState{answered: true, live: a.attempts == 1, inTime: a.holder == 1, written: a.token}
			return nil
		}
		i, ok := at[*a.key]
		if !ok {
			return fmt.Errorf("the claim answered a key that was not asked: %x", *a.key)
		}
		if a.rule == ruleSpent || a.rule == ruleRun {
			state.taken++
		}
		var err error
		c.out[i], err = a.claim()
		return err
	}
}

// claim is the answer in the contract's terms.
func (a *claimAnswer) claim() (ledger.Claim, error) {
	switch a.rule {
	case ruleNew:
		return ledger.Claim{Answer: ledger.Run, Ticket: ledger.NewTicket(*a.key, 1), Token: 1, Attempt: 1, First: true}, nil
	case ruleUnseen:
		return ledger.Claim{}, nil
	case ruleArchived, ruleSucceeded, ruleOldCopy:
		return ledger.Claim{Answer: ledger.Done,
			Outcome: ledger.Outcome{State: ledger.State(a.attempts), Result: a.result}}, nil
	case ruleMismatch:
		return ledger.Claim{Answer: ledger.Mismatch, Ticket: ledger.MismatchTicket(*a.key)}, nil
	case ruleHeld:
		return ledger.Claim{Wait: time.Duration(a.wait) * time.Microsecond, Held: a.holder == holderLive}, nil
	case ruleInCare:
		return ledger.Claim{Answer: ledger.InCare}, nil
	case ruleSuspect:
		return ledger.Claim{Suspect: true}, nil
	case ruleSpent, ruleRun:
		return a.taken(), nil
	}
	return ledger.Claim{}, fmt.Errorf("the claim answered a rule that is not in the table: %d", a.rule)
}

func (a *claimAnswer) taken() ledger.Claim {
	list, err := storage.DecodeErrors(a.errors)
	if err != nil { // the list is for people: a damaged one must not keep its message from running
		list = []ledger.AttemptError{{Kind: ledger.KindError, Error: err.Error()}}
	}
	c := ledger.Claim{
		Answer: ledger.Run, Ticket: ledger.NewTicket(*a.key, uint64(a.token)), Token: uint64(a.token),
		Attempt: int(a.attempts) + 1, Crashes: int(a.crashes), Generation: int(a.generation), Errors: list,
		TookOver: a.holder == holderLeft || a.holder == holderDead, First: a.holder == holderMine && a.token == 2,
	}
	if a.rule == ruleSpent {
		c.Answer, c.Attempt, c.First, c.Uncertain = ledger.Spent, 0, false, a.crashes < ledger.CrashLimit
	}
	return c
}

package driver

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Claim implements [ledger.Owner].
func (o *owner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	return o.ClaimRows(ctx, entries, nil)
}

// ClaimRows implements ranges.Store. An entry for which there was no lock, or no room, in time is Busy.
func (o *owner) ClaimRows(ctx context.Context, entries []ledger.Entry, only []bool) ([]ledger.Claim, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	c := &claiming{o: o, entries: entries, only: only, claims: make([]ledger.Claim, len(entries)), keys: make([]Key, 0, len(entries))}
	for i := range entries {
		if c.claims[i].Err = checks.Entry(&entries[i]); c.claims[i].Err == nil {
			c.keys = append(c.keys, entries[i].Key.Sum())
		}
	}
	if len(c.keys) < len(entries) {
		for i := range entries {
			if c.claims[i].Err == nil {
				c.ask = append(c.ask, i)
			}
		}
	}
	err := o.l.split(len(c.keys), func(from, to int) error {
		call := Call{Op: Claim, Owner: o.id, Keys: slices.Values(c.keys[from:to]), Messages: to - from}
		busy, err := o.each(ctx, call, func(tx Tx, i int) error { return c.run(tx, from+i) })
		for i := range busy { // what an earlier run has answered does not hold
			c.claims[c.index(from+i)] = ledger.Claim{}
		}
		return err
	})
	if err != nil {
		return nil, o.named("claim by", err)
	}
	return c.claims, nil
}

// split calls fn for parts of n keys that one call of the store takes each. After an error of a later part the ones before
// have been written.
func (l *Ledger) split(n int, fn func(from, to int) error) error { return split(n, l.cfg.Keys, fn) }

func split(n, most int, fn func(from, to int) error) error {
	if most <= 0 || n <= most {
		return fn(0, n)
	}
	for from := 0; from < n; from += most {
		if err := fn(from, min(from+most, n)); err != nil {
			return storage.MarkPartly(from > 0, err)
		}
	}
	return nil
}

// claiming is one call of ClaimRows.
type claiming struct {
	o       *owner
	entries []ledger.Entry
	only    []bool
	claims  []ledger.Claim
	keys    []Key // of the entries that are asked for
	ask     []int // their indexes; nil: all are
	seen    map[Key]int
	noted   int // so many keys are in seen
	fresh   Message
}

// index is that of the entry with a key.
func (c *claiming) index(at int) int {
	if c.ask == nil {
		return at
	}
	return c.ask[at]
}

// run answers one entry.
func (c *claiming) run(tx Tx, at int) error {
	i := c.index(at)
	c.claims[i] = ledger.Claim{} // of an earlier run
	return c.claim(tx, at, &c.entries[i], &c.claims[i], c.only != nil && c.only[i])
}

// repeated says whether a key came before in the call. Mostly nobody asks: a message that is new cannot have come.
func (c *claiming) repeated(at int) bool {
	if c.seen == nil {
		c.seen = make(map[Key]int, len(c.keys))
	}
	for ; c.noted <= at; c.noted++ {
		if _, ok := c.seen[c.keys[c.noted]]; !ok {
			c.seen[c.keys[c.noted]] = c.noted
		}
	}
	return c.seen[c.keys[at]] < at
}

// claim answers one entry; with only, a message without a row gets none. Most messages are new, so the insert comes first:
// it is the decision about no row.
func (c *claiming) claim(tx Tx, at int, e *ledger.Entry, out *ledger.Claim, only bool) error {
	key, now := c.keys[at], tx.Now()
	if !only {
		d, m := ledger.Decide(nil, *e), &c.fresh
		m.Key, m.Scope, m.ID, m.Fingerprint = key, e.Key.Scope, e.Key.ID, e.Fingerprint
		m.State, m.Token, m.Owner, m.Attempts, m.Crashes = ledger.Pending, d.Token, c.o.id, d.Attempts, d.Crashes
		m.At, m.Expiry, m.Logged = now, now.Add(e.Window), e.Key.Pos != nil
		inserted, err := tx.Insert(m)
		if err != nil {
			return fmt.Errorf("inserting %v: %w", e.Key, err)
		}
		if inserted {
			answer(out, key, &d, e)
			return nil
		}
	}
	if c.repeated(at) {
		return nil // Busy
	}
	m, err := tx.Message(key, e.Delivery)
	switch {
	case err != nil:
		return fmt.Errorf("reading %v: %w", e.Key, err)
	case m == nil && only:
		return nil
	case m == nil:
		return fmt.Errorf("%v: neither inserted nor found", e.Key)
	}
	return c.take(tx, m, e, out)
}

// take answers for a row that is there.
func (c *claiming) take(tx Tx, m *Message, e *ledger.Entry, out *ledger.Claim) error {
	row, err := sees(tx, c.o.id, m)
	if err != nil {
		return err
	}
	if !e.Parked {
		if row.Parked, err = c.o.isParked(tx, m); err != nil {
			return err
		}
	}
	d := ledger.Decide(row, *e)
	answer(out, m.Key, &d, e)
	if d.Answer == ledger.Done {
		out.Outcome = ledger.Outcome{State: m.State, Result: m.Result}
	}
	if !d.Write {
		return nil
	}
	if d.Renew {
		expiry := tx.Now().Add(e.Window)
		if m.Expiry.After(expiry) {
			expiry = m.Expiry
		}
		m.At, m.Expiry, m.Errors = tx.Now(), expiry, nil
	}
	if m.Fingerprint.IsZero() {
		m.Fingerprint = e.Fingerprint
	}
	m.State, m.Token, m.Owner, m.Attempts, m.Crashes = ledger.Pending, d.Token, c.o.id, d.Attempts, d.Crashes
	m.Due, m.Result, m.Failed = time.Time{}, nil, nil
	if err := tx.Put(m); err != nil {
		return fmt.Errorf("taking %v: %w", e.Key, err)
	}
	out.Generation, out.Errors = m.Generation, m.Errors
	return nil
}

// answer is what a decision means for the worker.
func answer(c *ledger.Claim, key Key, d *ledger.Decision, e *ledger.Entry) {
	c.Answer, c.Wait, c.Suspect, c.Uncertain, c.TookOver = d.Answer, d.Wait, d.Suspect, d.Uncertain, d.TookOver
	c.Held, c.First = d.Held, d.First
	if d.Answer == ledger.Mismatch {
		c.Ticket = ledger.MismatchTicket(key)
	}
	if d.Write {
		if c.Ticket = ledger.NewTicket(key, d.Token); e.Parked {
			c.Ticket = ledger.ParkedTicket(key, d.Token)
		}
		c.Token, c.Crashes = d.Token, d.Crashes
	}
	if d.Answer == ledger.Run {
		c.Attempt = d.Attempts + 1
	}
}

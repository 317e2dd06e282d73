package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// fresh claims those of asked that have no row, by sqlFresh, and returns the others, which the claim table decides.
// Entries that are asked again, carry a stamp or are of what is parked mostly have a row: they go there at once.
func (c *claimCall) fresh(ctx context.Context, asked []int32) (rest []int32, wrote bool, err error) {
	likely := make([]int32, 0, len(asked))
	for _, i := range asked {
		if e := &c.entries[i]; e.Solo || e.StampToken != 0 || e.Parked || c.onlyRow(i) {
			rest = append(rest, i)
		} else {
			likely = append(likely, i)
		}
	}
	for _, part := range chunks(likely, c.size) {
		left, err := c.execFresh(ctx, part)
		if err != nil {
			return nil, wrote, storage.MarkPartly(wrote, err)
		}
		wrote = wrote || len(left) < len(part)
		rest = append(rest, left...)
	}
	return rest, wrote, nil
}

// lean is the statement for entries that have no row, and its parameters: sqlFreshOne where that may be.
func (c *claimCall) lean(part []int32) (query string, args []any) {
	if len(part) > 1 {
		return sqlFresh, c.freshArgs(part)
	}
	e := &c.entries[part[0]]
	return sqlFreshOne, []any{
		c.owner.id, c.until, milliseconds(leanWait), uuid(c.sums[part[0]]), uuid(e.Fingerprint), e.Key.ID, c.scopes[e.Key.Scope],
		e.Window.Microseconds(),
	}
}

// execFresh sends the lean statement for one part. What the database refuses as a whole is left to the claim table.
func (c *claimCall) execFresh(ctx context.Context, part []int32) (left []int32, err error) {
	var fate int32
	var inTime bool
	var written int
	var keys [][ledger.KeySize]byte
	query, args := c.lean(part)
	switch err := c.owner.ledger.one(ctx, query, args, &fate, &inTime, &written, &keys); {
	case errors.Is(err, pgx.ErrNoRows) && len(part) == 1, refused(err):
		return part, nil
	case errors.Is(err, pgx.ErrNoRows):
		return nil, claimState{}.check(c.owner)
	case err != nil:
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	if err := (claimState{answered: true, live: fate == 1, inTime: inTime}).check(c.owner); err != nil {
		return nil, err
	}
	return c.noteFresh(part, written, keys)
}

// noteFresh fills in the answers: all of part, or those with these keys. The statement is committed by now.
func (c *claimCall) noteFresh(part []int32, written int, keys [][ledger.KeySize]byte) (left []int32, err error) {
	if written != len(part) && written != len(keys) {
		return nil, ledger.MarkUnknown(fmt.Errorf("postgres: the claim answered %d new messages, and named %d", written, len(keys)))
	}
	mine := wroteOf(part, written, keys)
	for _, i := range part {
		if !mine(c.sums[i]) {
			left = append(left, i)
			continue
		}
		c.out[i] = ledger.Claim{Answer: ledger.Run, Ticket: ledger.NewTicket(c.sums[i], 1), Token: 1, Attempt: 1, First: true}
	}
	return left, nil
}

// freshArgs lines up the parameters of sqlFresh.
func (c *claimCall) freshArgs(part []int32) []any {
	n := len(part)
	keys, prints, ids := make(keyArray, n), make(keyArray, n), make(byteArray, n)
	first := &c.entries[part[0]]
	scope, window := c.scopes[first.Key.Scope], first.Window
	var scopes []int32
	var windows []int64
	for at, i := range part {
		e := &c.entries[i]
		keys[at], prints[at], ids[at] = uuid(c.sums[i]), uuid(e.Fingerprint), e.Key.ID
		if e.Key.Scope != first.Key.Scope {
			scopes = sized(scopes, n)
		}
		if e.Window != window {
			windows = sized(windows, n)
		}
	}
	for at := range scopes {
		scopes[at] = c.scopes[c.entries[part[at]].Key.Scope]
	}
	for at := range windows {
		windows[at] = c.entries[part[at]].Window.Microseconds()
	}
	return []any{
		c.owner.id, c.until, milliseconds(leanWait), keys, prints, ids, scope, window.Microseconds(), orEmpty(scopes),
		orEmpty(windows),
	}
}

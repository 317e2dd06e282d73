package postgres

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// settleCall is one call of Settle.
type settleCall struct {
	owner       *owner
	held        bool // see owner.settle
	settlements []ledger.Settlement
	sums        [][ledger.KeySize]byte
	scopes      map[string]int32
	past        map[[ledger.KeySize]byte][]byte // the lists that counted releases append to
	until       int64                           // the deadline on the database's clock
	out         []error
	done        []bool // written by this call
}

// The flags of sqlFail.
const (
	flagMismatch  = 1
	flagPublished = 2
)

// lean is the statement for successes that goes ahead, and its parameters: sqlSucceedOne or sqlSucceedAlike where that may be.
func (c *settleCall) lean(part []int32) (query string, args []any) {
	n := len(part)
	if n == 1 {
		s := &c.settlements[part[0]]
		result := storage.CutResult(s.Result, c.owner.ledger.cfg.Limits.Result)
		return sqlSucceedOne, []any{uuid(c.sums[part[0]]), int64(s.Ticket.Token()), result}
	}
	keys, token := make(keyArray, n), c.settlements[part[0]].Ticket.Token()
	for at, i := range part {
		s := &c.settlements[i]
		if s.Ticket.Token() != token || s.Result != nil {
			return sqlSucceed, c.succeedArgs(part)
		}
		keys[at] = uuid(c.sums[i])
	}
	return sqlSucceedAlike, []any{keys, int64(token)}
}

// succeedArgs lines up the parameters of sqlSucceed.
func (c *settleCall) succeedArgs(part []int32) []any {
	n := len(part)
	keys, tokens := make(keyArray, n), make([]int64, n)
	var results byteArray
	for at, i := range part {
		s := &c.settlements[i]
		keys[at], tokens[at] = uuid(c.sums[i]), int64(s.Ticket.Token())
		if s.Result != nil {
			results = sized(results, n)
			results[at] = storage.CutResult(s.Result, c.owner.ledger.cfg.Limits.Result)
		}
	}
	return []any{keys, tokens, orEmpty(results)}
}

// plainArgs lines up the parameters of sqlSettle. An array of default values is sent empty: unnest fills it with null.
func (c *settleCall) plainArgs(part []int32) []any {
	n := len(part)
	keys, tokens := make(keyArray, n), make([]int64, n)
	var kinds, counted []int16
	var results, lists byteArray
	var afters []int64
	limits := c.owner.ledger.cfg.Limits
	for at, i := range part {
		s := &c.settlements[i]
		keys[at], tokens[at] = uuid(c.sums[i]), int64(s.Ticket.Token())
		if s.Kind == ledger.Succeed {
			if s.Result != nil {
				results = sized(results, n)
				results[at] = storage.CutResult(s.Result, limits.Result)
			}
			continue
		}
		if kinds == nil {
			kinds = make([]int16, n)
			for j := range kinds {
				kinds[j] = int16(ledger.Succeed)
			}
		}
		kinds[at] = int16(ledger.Release)
		if s.After > 0 {
			afters = sized(afters, n)
			afters[at] = max(s.After.Microseconds(), 1)
		}
		if s.Count {
			counted, lists = sized(counted, n), sized(lists, n)
			counted[at], lists[at] = 1, c.appended(i)
		}
	}
	return []any{keys, tokens, orEmpty(kinds), orEmpty(results), orEmpty(afters), orEmpty(counted), orEmpty(lists)}
}

// recordArgs lines up the parameters of sqlRecord.
func (c *settleCall) recordArgs(part []int32) []any {
	n := len(part)
	keys, tokens, failed := make(keyArray, n), make([]int64, n), make([]bool, n)
	names, results := make(byteArray, n), make(byteArray, n)
	for at, i := range part {
		s := &c.settlements[i]
		keys[at], tokens[at], failed[at] = uuid(c.sums[i]), int64(s.Ticket.Token()), s.Step.Failed
		names[at], results[at] = []byte(s.Step.Name), orEmpty(s.Step.Result)
	}
	return []any{keys, tokens, names, failed, results}
}

// appended is the row's list of errors with the one of a counted release.
func (c *settleCall) appended(i int32) []byte {
	list, err := storage.DecodeErrors(c.past[c.sums[i]])
	if err != nil { // damaged, and for people alone: it begins anew, and says so
		list = []ledger.AttemptError{{Kind: ledger.KindError, Error: err.Error()}}
	}
	return storage.EncodeErrors(storage.AppendError(list, c.settlements[i].Failure, c.owner.ledger.cfg.Limits.Errors))
}

// failArgs lines up the parameters of sqlFail.
func (c *settleCall) failArgs(part []int32) []any {
	n := len(part)
	keys, prints, tokens := make(keyArray, n), make(keyArray, n), make([]int64, n)
	flags, scopes, attempts := make([]int16, n), make([]int32, n), make([]int32, n)
	deliveries, ids, kinds, lists := make(byteArray, n), make(byteArray, n), make(byteArray, n), make(byteArray, n)
	bodies, headers, sources := make(byteArray, n), make(byteArray, n), make(byteArray, n)
	groups, positions := make(byteArray, n), make(byteArray, n)
	sentAt, keeps := make([]time.Time, n), make([]int64, n)
	var results byteArray
	for at, i := range part {
		s := &c.settlements[i]
		d := s.Dead
		keys[at], tokens[at], prints[at] = uuid(c.sums[i]), int64(s.Ticket.Token()), uuid(d.Fingerprint)
		flags[at] = int16(bit(s.Ticket.IsMismatch(), flagMismatch) | bit(d.Sent, flagPublished))
		scopes[at], attempts[at] = c.scopes[d.Key.Scope], int32(min(max(d.Attempts, 0), 1<<31-1))
		deliveries[at], ids[at], kinds[at] = d.Delivery, orEmpty(d.Key.ID), []byte(d.Kind)
		lists[at], bodies[at], headers[at] = storage.EncodeErrors(d.Errors), d.Body, storage.EncodeHeaders(d.Headers)
		sources[at], groups[at], positions[at] = []byte(d.Source), []byte(d.Group), encodePosition(d.Key.Pos, d.Delivery)
		sentAt[at], keeps[at] = storable(d.SentAt), d.Keep.Microseconds()
		if s.Result != nil {
			results = sized(results, n)
			results[at] = storage.CutResult(s.Result, c.owner.ledger.cfg.Limits.Result)
		}
	}
	return []any{
		keys, tokens, flags, deliveries, scopes, ids, prints, kinds, lists, bodies, headers, sources, groups, positions,
		attempts, sentAt, keeps, orEmpty(results),
	}
}

// The range of times that a timestamp with time zone and JSON can both hold. A broker's timestamp beyond it is moved to
// its edge: it is a hint, and no reason to refuse a dead letter.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

func storable(t time.Time) time.Time {
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t.UTC()
}

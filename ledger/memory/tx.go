package memory

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// tx implements [driver.Tx]. The store is locked as long as it is used.
type tx struct {
	*store
	now time.Time
}

func (t *tx) Now() time.Time { return t.now }

// since is a time as rows have it.
func (t *tx) since(at time.Time) time.Duration { return at.Sub(t.begin) }

func (t *tx) Owner(id driver.OwnerID) (driver.Owner, error) {
	if o := t.owners[id]; o != nil {
		return driver.Owner{Fate: o.fate, Lease: o.end}, nil
	}
	return driver.Owner{Fate: driver.Left}, nil
}

func (t *tx) Message(key driver.Key, delivery []byte) (*driver.Message, error) {
	r := t.rows.get(key)
	if r == nil {
		return nil, nil
	}
	m := t.read(r)
	m.Archived = delivery != nil && t.filed(key, delivery) != nil
	return &m, nil
}

// read is a row as the driver knows it.
func (t *tx) read(r *row) driver.Message {
	rest := t.rows.rest(r)
	m := driver.Message{Key: r.key, Scope: t.rows.scopeOf(r), ID: bytes.Clone(t.rows.id(r)), Fingerprint: r.fingerprint,
		State: r.state, Token: r.token, Attempts: int(r.attempts), Crashes: int(r.crashes), Generation: rest.generation,
		At: t.begin.Add(r.at), Expiry: t.begin.Add(r.expiry), Result: bytes.Clone(rest.result), Errors: slices.Clone(rest.errors),
		Failed: bytes.Clone(rest.failed), Covered: r.covered, Owner: r.owner}
	if rest.due != 0 {
		m.Due = t.begin.Add(rest.due)
	}
	return m
}

func (t *tx) Insert(m *driver.Message) (bool, error) {
	if t.rows.get(m.Key) != nil {
		return false, nil
	}
	r := t.rows.add(m.Key, m.Scope, m.ID)
	r.covered = m.Covered
	t.write(r, m)
	return true, nil
}

func (t *tx) Put(m *driver.Message) error {
	r := t.rows.get(m.Key)
	t.rows.plain(r)
	t.write(r, m)
	return nil
}

// write writes what changes of a row that has nothing that few rows have.
func (t *tx) write(r *row, m *driver.Message) {
	r.fingerprint, r.state, r.token = m.Fingerprint, m.State, m.Token
	r.attempts, r.crashes = int32(m.Attempts), int32(m.Crashes)
	r.at = t.since(m.At)
	t.expire(r, t.since(m.Expiry))
	r.owner = m.Owner
	if m.Due.IsZero() && m.Result == nil && len(m.Errors) == 0 && m.Generation == 0 && m.Failed == nil {
		return
	}
	*t.rows.extra(r) = extra{result: bytes.Clone(m.Result), errors: slices.Clone(m.Errors), generation: m.Generation,
		failed: bytes.Clone(m.Failed)}
	if !m.Due.IsZero() {
		t.rows.extra(r).due = t.since(m.Due)
	}
}

func (t *tx) expire(r *row, expiry time.Duration) {
	r.expiry = expiry
	if !t.some || expiry < t.first {
		t.first, t.some = expiry, true
	}
}

func (t *tx) Succeed(key driver.Key, token uint64, id driver.OwnerID, result []byte, fold time.Time) (bool, error) {
	r := t.rows.get(key)
	if r == nil || r.state != ledger.Pending || r.owner != id || r.token != token {
		return false, nil
	}
	r.owner, r.state = driver.Nobody, ledger.Succeeded
	if r.covered && result == nil && len(t.archived[key]) == 0 {
		t.expire(r, min(r.expiry, t.since(fold)))
	}
	if r.rich {
		t.rows.extra(r).due = 0
	}
	if result != nil {
		t.rows.extra(r).result = bytes.Clone(result)
	}
	return true, nil
}

func (t *tx) Remove(keys []driver.Key) error {
	for _, key := range keys {
		t.rows.remove(key)
	}
	return nil
}

func (t *tx) Turn() (driver.Turn, error) { return t.turn, nil }

func (t *tx) PutTurn(turn driver.Turn) error {
	if turn.Pass == nil {
		turn.Pass = t.turn.Pass
	}
	t.turn = turn
	return nil
}

// markOf is a place among the rows.
func markOf(at ref) driver.Mark {
	if at == 0 {
		return ""
	}
	return driver.Mark(strconv.FormatUint(uint64(at), 10))
}

func refOf(m driver.Mark) ref {
	n, _ := strconv.ParseUint(string(m), 10, 64)
	return ref(n)
}

func (t *tx) LastMessage() (driver.Mark, error) { return markOf(t.rows.end()), nil }

// listPage is how many messages are listed at once.
const listPage = 1000

func (t *tx) Messages(behind, until driver.Mark, _ *ledger.Filter) (page []driver.Message, last driver.Mark, err error) {
	for at, r := range t.rows.each(refOf(behind), refOf(until)) {
		if page = append(page, t.read(r)); len(page) == listPage {
			return page, markOf(at + 1), nil
		}
	}
	return page, until, nil
}

func (t *tx) SweepMessages(behind, until driver.Mark, n int) (page driver.Swept, err error) {
	type group struct {
		scope uint32
		state ledger.State
	}
	rest := map[group]int64{}
	page.Last = until
	for at, r := range t.rows.each(refOf(behind), refOf(until)) {
		if r.state == ledger.Pending || r.covered || r.expiry < t.since(t.now) {
			page.Rows = append(page.Rows, t.read(r))
		} else {
			rest[group{r.scope, r.state}]++
		}
		if page.Looked++; page.Looked == n {
			page.Last = markOf(at + 1)
			break
		}
	}
	for g, n := range rest {
		page.Rest = append(page.Rest, driver.Count{Scope: t.rows.names[g.scope], State: g.state, N: n})
	}
	return page, nil
}

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
	now    time.Time
	last   *log // that was asked for; nil: there was none
	lastID driver.LogID
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
	if delivery != nil {
		a := t.filed(key, delivery)
		m.Archived = a != nil && !a.Expiry.Before(t.now)
	}
	return &m, nil
}

// read is a row as the driver knows it.
func (t *tx) read(r *row) driver.Message {
	rest := t.rows.more[r.key]
	m := driver.Message{Key: r.key, Scope: t.rows.names[r.scope], ID: bytes.Clone(t.rows.id(r)), Fingerprint: r.fingerprint,
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
	t.write(r, m)
	return true, nil
}

func (t *tx) Put(m *driver.Message) error {
	r := t.rows.get(m.Key)
	if r.state == ledger.Succeeded && m.State != ledger.Succeeded || m.Generation != t.rows.more[m.Key].generation {
		delete(t.rows.steps, m.Key)
	}
	delete(t.rows.more, m.Key)
	t.write(r, m)
	return nil
}

// write writes what changes of a row that has nothing that few rows have.
func (t *tx) write(r *row, m *driver.Message) {
	r.fingerprint, r.state, r.token = m.Fingerprint, m.State, m.Token
	r.attempts, r.crashes = int32(m.Attempts), int32(m.Crashes)
	r.at = t.since(m.At)
	t.expire(r, t.since(m.Expiry))
	r.owner, r.covered = m.Owner, m.Covered
	if m.Due.IsZero() && m.Result == nil && len(m.Errors) == 0 && m.Generation == 0 && m.Failed == nil {
		return
	}
	rest := extra{result: bytes.Clone(m.Result), errors: slices.Clone(m.Errors), generation: m.Generation, failed: bytes.Clone(m.Failed)}
	if !m.Due.IsZero() {
		rest.due = t.since(m.Due)
	}
	t.rows.more[m.Key] = rest
}

func (t *tx) expire(r *row, expiry time.Duration) {
	r.expiry, t.first = expiry, min(t.first, expiry)
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
	rest, some := t.rows.more[key]
	if rest.due = 0; result != nil {
		rest.result = bytes.Clone(result)
	}
	if some || result != nil {
		t.rows.more[key] = rest
	}
	return true, nil
}

func (t *tx) Remove(keys []driver.Key) error {
	for _, key := range keys {
		t.rows.remove(key)
	}
	return nil
}

func (t *tx) Steps(key driver.Key, results bool) ([]ledger.Step, error) {
	var list []ledger.Step
	for i := range t.rows.steps[key] {
		s := t.rows.steps[key][i].Clone()
		if !results {
			s.Result, s.Size = nil, len(s.Result)
		}
		list = append(list, s)
	}
	return list, nil
}

func (t *tx) Record(key driver.Key, s *ledger.Step) error {
	if !slices.ContainsFunc(t.rows.steps[key], func(o ledger.Step) bool { return o.Name == s.Name }) {
		one := s.Clone()
		if one.Result == nil {
			one.Result = []byte{}
		}
		t.rows.steps[key] = append(t.rows.steps[key], one)
	}
	return nil
}

func (t *tx) Turn() (driver.Turn, error) { return t.turn, nil }

func (t *tx) Pauses() ([]ledger.Pause, error) { return slices.Clone(t.pauses), nil }

func (t *tx) PutPauses(hold []ledger.Pause) error { t.pauses = slices.Clone(hold); return nil }

func (t *tx) PutTurn(turn driver.Turn) error {
	if turn.Pass == nil {
		turn.Pass = t.turn.Pass
	}
	t.turn = turn
	return nil
}

// markOf is a place among the rows, or the number of an archived delivery.
func markOf[N ref | uint64](n N) driver.Mark {
	if n == 0 {
		return ""
	}
	return driver.Mark(strconv.FormatUint(uint64(n), 10))
}

func numberOf(m driver.Mark) uint64 {
	n, _ := strconv.ParseUint(string(m), 10, 64)
	return n
}

func (t *tx) LastMessage() (driver.Mark, error) { return markOf(t.rows.end()), nil }

// listPage is how many messages are listed at once.
const listPage = 1000

func (t *tx) Messages(behind, until driver.Mark, _ *ledger.Filter) (page []driver.Message, last driver.Mark, err error) {
	for at, r := range t.rows.each(ref(numberOf(behind)), ref(numberOf(until))) {
		if page = append(page, t.read(r)); len(page) == listPage {
			return page, markOf(at + 1), nil
		}
	}
	return page, until, nil
}

// SweepMessages implements [driver.Tx]. Rows are at hand here, so the sweep is given all of them.
func (t *tx) SweepMessages(behind, until driver.Mark, n int) (page driver.Swept, err error) {
	page.Last = until
	for at, r := range t.rows.each(ref(numberOf(behind)), ref(numberOf(until))) {
		if page.Rows = append(page.Rows, t.read(r)); len(page.Rows) == n {
			page.Last = markOf(at + 1)
			break
		}
	}
	page.Looked = len(page.Rows)
	return page, nil
}

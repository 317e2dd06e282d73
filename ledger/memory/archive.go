package memory

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// archive holds the failed deliveries.
type archive struct {
	archived map[driver.Key][]*delivery // the oldest first
	numbered map[uint64]*delivery       // in the order in which they were filed
	number   uint64                     // of the latest
}

// delivery is an archived delivery with its number.
type delivery struct {
	number uint64
	ledger.ArchiveRecord
}

// filed returns an archived delivery, to change it; nil: there is none.
func (a *archive) filed(key driver.Key, name []byte) *ledger.ArchiveRecord {
	for _, d := range a.archived[key] {
		if bytes.Equal(d.Delivery, name) {
			return &d.ArchiveRecord
		}
	}
	return nil
}

// drop removes what expired before a time of n messages, and returns how many deliveries these are.
func (a *archive) drop(before time.Time, n int) (dropped int64) {
	for key, list := range a.archived {
		if n--; n < 0 {
			break
		}
		kept := slices.DeleteFunc(list, func(d *delivery) bool {
			over := d.Expiry.Before(before)
			if over {
				dropped++
				delete(a.numbered, d.number)
			}
			return over
		})
		if a.archived[key] = kept; len(kept) == 0 {
			delete(a.archived, key)
		}
	}
	return dropped
}

// File implements [driver.Tx]. It also drops a few deliveries that have expired.
func (t *tx) File(a *ledger.ArchiveRecord) error {
	key := a.Key.Sum()
	if was := t.filed(key, a.Delivery); was != nil && !was.Expiry.Before(t.now) {
		return nil
	}
	t.archived[key] = slices.DeleteFunc(t.archived[key], func(d *delivery) bool {
		over := bytes.Equal(d.Delivery, a.Delivery)
		if over {
			delete(t.numbered, d.number)
		}
		return over
	})
	t.rows.scope(a.Key.Scope)
	t.number++
	d := &delivery{number: t.number, ArchiveRecord: *a}
	d.Archive = a.Clone()
	t.archived[key] = append(t.archived[key], d)
	t.numbered[d.number] = d
	t.drop(t.now, 2)
	return nil
}

func (t *tx) Alter(key driver.Key, name []byte, c driver.ArchiveChange) (bool, error) {
	a := t.filed(key, name)
	if a == nil || !c.Purged.IsZero() && !a.Purged.IsZero() {
		return false, nil
	}
	if c.Delivery != nil {
		a.Delivery = bytes.Clone(c.Delivery)
	}
	if c.Token != 0 {
		a.Token = c.Token
	}
	if !c.Replayed.IsZero() {
		a.Replayed = c.Replayed
	}
	if !c.Purged.IsZero() {
		a.Body, a.Headers, a.Errors, a.Group = nil, nil, nil, ""
		a.Purged = c.Purged
		if c.Expiry.Before(a.Expiry) {
			a.Expiry = c.Expiry
		}
	}
	return true, nil
}

func (t *tx) Archive(key driver.Key, bodies bool) (list []ledger.ArchiveRecord, err error) {
	for _, d := range t.archived[key] {
		a := d.ArchiveRecord
		if !bodies {
			a.Body, a.BodyBytes = nil, len(a.Body)
		}
		a.Archive = a.Clone()
		list = append(list, a)
	}
	return list, nil
}

func (t *tx) DeadLetters(behind driver.Mark, until time.Time, f *ledger.Filter, n int) (page []driver.DeadLetter, err error) {
	number, step := numberOf(behind)+1, uint64(1)
	if f.Newest {
		number, step = t.number, ^uint64(0) // one less, by overflow
		if behind != "" {
			number = numberOf(behind) - 1
		}
	}
	for ; 0 < number && number <= t.number && len(page) < n; number += step {
		a := t.numbered[number]
		if a == nil || !a.Purged.IsZero() || a.At.After(until) {
			continue
		}
		d := driver.DeadLetter{ArchiveRecord: a.ArchiveRecord, Mark: markOf(number), Size: a.Size()}
		d.Superseded = a.Token != 0 && slices.ContainsFunc(t.archived[a.Key.Sum()], func(b *delivery) bool { return b.Token > a.Token })
		d.Body, d.Headers = nil, nil
		d.Archive = d.Clone()
		page = append(page, d)
	}
	return page, nil
}

func (t *tx) Bodies(of []driver.DeadLetter) ([]driver.DeadLetter, error) {
	there := of[:0]
	for _, d := range of {
		if a := t.numbered[numberOf(d.Mark)]; a != nil && a.Purged.IsZero() {
			d.ArchiveRecord = a.ArchiveRecord
			d.Archive = d.Clone()
			there = append(there, d)
		}
	}
	return there, nil
}

func (t *tx) ArchivedKeys(id []byte, n int) (keys []ledger.Key, err error) {
	for key, list := range t.archived {
		if bytes.Equal(list[0].Key.ID, id) && len(keys) < n {
			keys = append(keys, ledger.KeyOfSum(list[0].Key.Scope, id, key))
		}
	}
	return keys, nil
}

func (t *tx) ArchivedBytes(scope string, _ driver.Mark) (n int64, next driver.Mark, more bool, err error) {
	for _, list := range t.archived {
		for i := range list {
			if a := list[i]; a.Key.Scope == scope && a.Purged.IsZero() {
				n += a.Weight()
			}
		}
	}
	return n, "", false, nil
}

// SweepArchive implements [driver.Tx]: of all deliveries at once.
func (t *tx) SweepArchive(behind driver.Mark, _ int, before time.Time) (last driver.Mark, looked, removed int64, err error) {
	if behind != "" {
		return behind, 0, 0, nil
	}
	looked = int64(len(t.archived))
	return "all", looked, t.drop(before, len(t.archived)), nil
}

func (t *tx) Scopes() ([]string, error) { return slices.Sorted(slices.Values(t.rows.names)), nil }

func (t *tx) Note(records []ledger.AuditRecord) error {
	for _, r := range records {
		t.audited++
		r.ID, r.At, r.Role = t.audited, t.now, ""
		r.Key = ledger.KeyOfSum(r.Key.Scope, bytes.Clone(r.Key.ID), r.Key.Sum())
		r.Delivery = bytes.Clone(r.Delivery)
		t.audits = append(t.audits, r)
	}
	return nil
}

func (t *tx) LastAudit() (int64, error) { return t.audited, nil }

func (t *tx) Audits(after, until int64, _ *ledger.AuditFilter, n int) (page []ledger.AuditRecord, err error) {
	first, _ := slices.BinarySearchFunc(t.audits, after+1, func(r ledger.AuditRecord, id int64) int { return cmp.Compare(r.ID, id) })
	for _, r := range t.audits[first:] {
		if r.ID > until || len(page) == n {
			break
		}
		page = append(page, r)
	}
	return page, nil
}

func (t *tx) SweepAudits(n int, before time.Time) (removed int64, err error) {
	for int(removed) < min(n, len(t.audits)) && t.audits[removed].At.Before(before) {
		removed++
	}
	t.audits = slices.Delete(t.audits, 0, int(removed))
	return removed, nil
}

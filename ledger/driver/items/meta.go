package items

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

// The items of the ledger as a whole.
var (
	metaOwners = Name{placeMeta, "owners"} // counts owners
	metaTurn   = Name{placeMeta, "turn"}
	metaFloor  = Name{placeMeta, "floor"}
	metaScopes = Name{placeMeta, "scopes"}
	metaAudit  = Name{placeMeta, "audit"} // the id of the latest record
	metaID     = Name{placeMeta, "id"}    // the ledger's
)

// ID is the ledger's: whoever asks first draws it.
func (s *Store) ID(ctx context.Context) (id string, err error) {
	err = s.Update(ctx, driver.Call{Op: driver.Operate}, func(in driver.Tx) error {
		t := in.(*tx)
		id = ""
		c, err := t.meta(metaID, &id)
		if err != nil || id != "" {
			return err
		}
		id = uuid.NewString()
		return t.putMeta(c, id)
	})
	return id, err
}

// meta reads such an item. What is not there leaves to as it is.
func (t *tx) meta(n Name, to any) (*cell, error) {
	c, err := t.read(n)
	if err != nil || c.is == nil {
		return c, err
	}
	if err := json.Unmarshal(getBytes(c.is, attrData), to); err != nil {
		return nil, fmt.Errorf("the item %q: %w", n.Sort, err)
	}
	return c, nil
}

func (t *tx) putMeta(c *cell, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("the item %q: %w", c.name.Sort, err)
	}
	i := c.name.Item()
	i[attrData] = Bytes(data)
	c.write(i)
	return nil
}

// storedScopes are all scopes, encoded, and how long the past of their messages is kept. There are as many as there are queues and groups.
type storedScopes map[string]time.Duration

func encodeScope(scope string) string { return base64.RawURLEncoding.EncodeToString([]byte(scope)) }

// addScope makes a scope known, unless it is.
func (s *Store) addScope(ctx context.Context, scope string) error {
	s.mu.Lock()
	there := s.scopes[scope]
	s.mu.Unlock()
	if there {
		return nil
	}
	err := s.Update(ctx, driver.Call{Op: driver.Operate}, func(in driver.Tx) error {
		t := in.(*tx)
		c, all, err := t.storedScopes()
		if _, there := all[encodeScope(scope)]; err != nil || there {
			return err
		}
		all[encodeScope(scope)] = 0
		return t.putMeta(c, all)
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.scopes[scope] = true
	}
	return err
}

func (t *tx) storedScopes() (*cell, storedScopes, error) {
	all := storedScopes{}
	c, err := t.meta(metaScopes, &all)
	return c, all, err
}

// KeepPast implements [driver.Tx].
func (t *tx) KeepPast(scope string, keep time.Duration) error {
	c, all, err := t.storedScopes()
	if was, there := all[encodeScope(scope)]; err != nil || there && was == keep {
		return err
	}
	all[encodeScope(scope)] = keep
	return t.putMeta(c, all)
}

// Scopes implements [driver.Lists].
func (t *tx) Scopes() (names []string, err error) {
	_, all, err := t.storedScopes()
	for text := range all {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("scopes: %w", err)
		}
		names = append(names, string(b))
	}
	slices.Sort(names)
	return names, err
}

// The attributes of counts of deliveries.
const (
	countMisses   = "a"
	countHits     = "c"
	countTimeouts = "g"
)

// AddDeliveries implements [driver.Owners].
func (s *Store) AddDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	for i, d := range more {
		_, err := s.table.Add(ctx, Name{placeCounts, "s" + d.Scope}, Item{countMisses: Number(d.Misses), countHits: Number(d.Hits), countTimeouts: Number(d.Timeouts)},
			Item{attrAt: Number(s.Now().UnixMicro())})
		if err != nil {
			return storage.MarkPartly(i > 0, err)
		}
	}
	return nil
}

// Deliveries implements [driver.Owners].
func (s *Store) Deliveries(ctx context.Context) (all []ledger.Deliveries, err error) {
	for i, err := range s.table.Query(ctx, Query{Place: placeCounts}) {
		if err != nil {
			return nil, err
		}
		all = append(all, ledger.Deliveries{Scope: NameOf(i).Sort[1:], Since: getTime(i, attrAt), Misses: getNumber[int64](i, countMisses),
			Hits: getNumber[int64](i, countHits), Timeouts: getNumber[int64](i, countTimeouts)})
	}
	slices.SortFunc(all, func(a, b ledger.Deliveries) int {
		return cmp.Or(cmp.Compare(b.Misses+b.Hits, a.Misses+a.Hits), cmp.Compare(a.Scope, b.Scope))
	})
	return all[:min(len(all), ledger.MaxStatScopes)], nil
}

// storedAudit is a record of the audit. Texts that need not be UTF-8 are in Rest.
type storedAudit struct {
	At            time.Time
	Actor, Action string
	Sum, Rest     []byte
}

// auditPart is about how many bytes of records are one item.
const auditPart = 256 << 10

// Note implements [driver.Tx]. Records that are written together are few items: all or none are there.
func (t *tx) Note(records []ledger.AuditRecord) error {
	if len(records) == 0 {
		return nil
	}
	var last int64
	c, err := t.meta(metaAudit, &last)
	if err != nil {
		return err
	}
	var part []storedAudit
	size, first := 0, last+1
	flush := func() error {
		data, err := json.Marshal(part)
		if err != nil {
			return err
		}
		i := auditName(first).Item()
		i[attrData] = Bytes(data)
		t.cell(auditName(first)).write(i)
		part, size, first = nil, 0, last+1
		return nil
	}
	for i := range records {
		r := &records[i]
		sum := r.Key.Sum()
		stored := storedAudit{At: t.now, Actor: r.By.Actor, Action: string(r.Action), Sum: sum[:], Rest: storage.EncodeAudit(r)}
		last++
		part = append(part, stored)
		if size += len(stored.Rest)*4/3 + len(stored.Actor) + 200; size > auditPart {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(part) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	return t.putMeta(c, last)
}

func auditName(id int64) Name {
	return Name{placeAudit, string(binary.BigEndian.AppendUint64(nil, uint64(id)))}
}

// LastAudit implements [driver.Lists].
func (t *tx) LastAudit() (last int64, err error) {
	_, err = t.meta(metaAudit, &last)
	return last, err
}

// records are those of one item.
func records(i Item) (list []ledger.AuditRecord, err error) {
	var stored []storedAudit
	if err := json.Unmarshal(getBytes(i, attrData), &stored); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	id := int64(binary.BigEndian.Uint64(getBytes(i, attrSort)))
	for n, s := range stored {
		r := ledger.AuditRecord{ID: id + int64(n), At: s.At, By: ledger.By{Actor: s.Actor}, Action: ledger.Action(s.Action)}
		if err := storage.DecodeAudit(&r, s.Rest, driver.Key(s.Sum)); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Audits implements [driver.Lists]. The Item with the first record may begin before it.
func (t *tx) Audits(after, until int64, _ *ledger.AuditFilter, n int) (page []ledger.AuditRecord, err error) {
	before, err := t.collect(t.ctx, Query{Place: placeAudit, To: auditName(after + 1).Sort, Down: true}, 1)
	if err != nil {
		return nil, err
	}
	add := func(i Item) error {
		list, err := records(i)
		for _, r := range list {
			if r.ID > after && r.ID <= until && len(page) < n {
				page = append(page, r)
			}
		}
		return err
	}
	for _, i := range before {
		if err := add(i); err != nil {
			return nil, err
		}
	}
	for i, err := range t.table.Query(t.ctx, Query{Place: placeAudit, From: auditName(after + 1).Sort, Most: t.bounds.Get}) {
		if err == nil {
			err = add(i)
		}
		if err != nil || len(page) == n {
			return page, err
		}
	}
	return page, nil
}

// SweepAudits implements [driver.Tx]: items all of whose records are from before.
func (t *tx) SweepAudits(n int, before time.Time) (removed int64, err error) {
	list, err := t.collect(t.ctx, Query{Place: placeAudit}, min(n, t.bounds.Set/2))
	for _, i := range list {
		of, failed := records(i)
		if failed != nil {
			return removed, failed
		}
		if len(of) > 0 && !of[len(of)-1].At.Before(before) {
			break
		}
		removed += int64(len(of))
		t.saw(i).write(nil)
	}
	return removed, err
}

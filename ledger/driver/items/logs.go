package items

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger/driver"
)

// A log with its ranges and segments is one item. Whatever changes it is one write on its version.

// LogNames are the names of all items of a log but its rows and their blocks. They are for tests of engines.
func LogNames(id driver.LogID) []Name { return []Name{logName(id), {placeLogs, string(id[:])}} }

func logName(id driver.LogID) Name { return Name{placeLog + string(id[:]), "l"} }

// storedLog is a log as JSON. Texts are bytes: JSON would change what is no UTF-8.
type storedLog struct {
	Scope    []byte
	Name     []byte
	Epoch    int32
	Prefix   []byte
	Version  uint64
	Token    uint64
	Top      int64
	Start    driver.Start
	Ranges   []storedRange    `json:",omitempty"`
	Segments []driver.Segment `json:",omitempty"`
	// Owed are rows that a transaction has made which was too large to be written as one. Whoever meets them writes them first.
	Owed []owedRows `json:",omitempty"`
}

// storedRange is an open range with its sets encoded.
type storedRange struct {
	driver.Range
	Done, Back []byte
}

// owedRows are messages that differ in their offsets alone.
type owedRows struct {
	Offsets []byte // a set, from offset 0
	Message driver.Message
}

// logTx is a log as a transaction sees it.
type logTx struct {
	storedLog
	tx    *tx
	id    driver.LogID
	c     *cell
	there bool
	open  []driver.Range
	dirty bool
}

// log reads a log. What is owed is carried out before anything else is said of it.
func (t *tx) log(id driver.LogID) (*logTx, error) {
	if g := t.logs[id]; g != nil {
		return g, nil
	}
	t.skewed = true
	c, err := t.read(logName(id))
	if err != nil {
		return nil, err
	}
	g := &logTx{tx: t, id: id, c: c, there: c.is != nil}
	if g.there {
		if err := json.Unmarshal(getBytes(c.is, attrData), &g.storedLog); err != nil {
			return nil, fmt.Errorf("log %x: %w", id, err)
		}
		if len(g.Owed) > 0 {
			if err := t.carryOut(t.ctx, id); err != nil {
				return nil, err
			}
			t.forget(id)
			return t.log(id)
		}
		for i := range g.Ranges {
			r := &g.Ranges[i]
			if r.Range.Done, err = driver.DecodeSet(r.Done, r.From); err == nil {
				r.Range.Back, err = driver.DecodeSet(r.Back, r.From)
			}
			if err != nil {
				return nil, fmt.Errorf("log %x, range %d: %w", id, r.Token, err)
			}
			g.open = append(g.open, r.Range)
		}
	}
	if t.logs == nil {
		t.logs = map[driver.LogID]*logTx{}
	}
	t.logs[id] = g
	return g, nil
}

// save makes an item of a log that has changed.
func (g *logTx) save() error {
	if !g.dirty {
		return nil
	}
	if !g.there {
		g.c.write(nil)
		return nil
	}
	g.Ranges = g.Ranges[:0]
	for i := range g.open {
		r := &g.open[i]
		stored := storedRange{Range: *r, Done: r.Done.Encode(r.From), Back: r.Back.Encode(r.From)}
		stored.Range.Done, stored.Range.Back = driver.Set{}, driver.Set{}
		g.Ranges = append(g.Ranges, stored)
	}
	g.owe()
	data, err := json.Marshal(&g.storedLog)
	if err != nil {
		return fmt.Errorf("log %x: %w", g.id, err)
	}
	if most := g.tx.bounds.Item - 1000; len(data) > most {
		return fmt.Errorf("%w: log %x with %d open ranges and %d segments takes %d bytes, at most %d", ErrTooLarge, g.id, len(g.open), len(g.Segments),
			len(data), most)
	}
	i := logName(g.id).Item()
	i[attrData] = Bytes(data)
	g.c.write(i)
	return nil
}

// forget lets a log be read again whose rows have been written, and the messages that were not there before.
func (t *tx) forget(id driver.LogID) {
	gone := func(n Name) bool { return n == logName(id) || isMessage(n) && n.Place[1:9] == string(id[:]) }
	maps.DeleteFunc(t.known, func(n Name, i Item) bool { return gone(n) && (i == nil || !isMessage(n)) })
	maps.DeleteFunc(t.cells, func(n Name, c *cell) bool { return gone(n) && (c.is == nil && !c.put || !isMessage(n)) })
}

// settled makes sure that a log owes no row of a key that seems to have none. It says whether there is one now.
func (t *tx) settled(key driver.Key) (there bool, err error) {
	n := MessageName(key)
	seen := t.cell(n)
	id, _ := driver.SplitKey(key)
	if _, err := t.log(id); err != nil {
		return false, err
	}
	if t.cells[n] == seen {
		return false, nil
	}
	c, err := t.read(n)
	return err == nil && c.is != nil, err
}

// Log implements [driver.Reader].
func (t *tx) Log(id driver.LogID) (*driver.Log, error) {
	g, err := t.log(id)
	if err != nil || !g.there {
		return nil, err
	}
	return &driver.Log{Info: driver.Info{Log: id, Scope: string(g.Scope), Name: string(g.Name), Epoch: g.Epoch, Prefix: string(g.Prefix)},
		Version: g.Version, Token: g.Token, Top: g.Top, Start: g.Start}, nil
}

// PutLog implements [driver.Tx].
func (t *tx) PutLog(l *driver.Log) error {
	g, err := t.log(l.Log)
	if err != nil {
		return err
	}
	if !g.there {
		listed, err := t.read(Name{placeLogs, string(l.Log[:])})
		if err != nil {
			return err
		}
		if listed.is == nil {
			listed.write(listed.name.Item())
		}
		// If it was there it may go with a log that is dropped.
		listed.check = true
	}
	g.there, g.dirty = true, true
	g.Scope, g.Name, g.Epoch, g.Prefix = []byte(l.Scope), []byte(l.Name), l.Epoch, []byte(l.Prefix)
	g.Version, g.Token, g.Top, g.Start = l.Version, l.Token, l.Top, l.Start
	return nil
}

// Ranges implements [driver.Reader].
func (t *tx) Ranges(to []driver.Range, id driver.LogID, span driver.Span, tokens []uint64) ([]driver.Range, error) {
	g, err := t.log(id)
	if err != nil {
		return to, err
	}
	for _, r := range g.open {
		if driver.Wanted(r.Span, r.Token, span, tokens) {
			r.Done, r.Back = r.Done.Clone(), r.Back.Clone()
			to = append(to, r)
		}
	}
	return to, nil
}

// PutRange implements [driver.Tx].
func (t *tx) PutRange(id driver.LogID, r *driver.Range) error {
	g, err := t.log(id)
	if err != nil {
		return err
	}
	put := *r
	put.Done, put.Back = r.Done.Clone(), r.Back.Clone()
	g.dirty = true
	if i := slices.IndexFunc(g.open, func(o driver.Range) bool { return o.Token == r.Token }); i >= 0 {
		g.open[i] = put
	} else {
		g.open = append(g.open, put)
	}
	return nil
}

// DropRange implements [driver.Tx].
func (t *tx) DropRange(id driver.LogID, token uint64) error {
	g, err := t.log(id)
	if err != nil {
		return err
	}
	g.dirty = true
	g.open = slices.DeleteFunc(g.open, func(o driver.Range) bool { return o.Token == token })
	return nil
}

// Segments implements [driver.Reader].
func (t *tx) Segments(to []driver.Segment, id driver.LogID, span driver.Span) ([]driver.Segment, error) {
	g, err := t.log(id)
	if err != nil {
		return to, err
	}
	for _, s := range g.Segments {
		if s.Touches(span) {
			to = append(to, s)
		}
	}
	return to, nil
}

// PutSegment implements [driver.Tx].
func (t *tx) PutSegment(id driver.LogID, s *driver.Segment) error {
	g, err := t.log(id)
	if err != nil {
		return err
	}
	i, _ := slices.BinarySearchFunc(g.Segments, s.From, func(o driver.Segment, from int64) int { return cmp.Compare(o.From, from) })
	g.Segments, g.dirty = slices.Insert(g.Segments, i, *s), true
	return nil
}

// DropSegment implements [driver.Tx].
func (t *tx) DropSegment(id driver.LogID, from int64) error {
	g, err := t.log(id)
	if err != nil {
		return err
	}
	g.Segments = slices.DeleteFunc(g.Segments, func(s driver.Segment) bool { return s.From == from })
	g.dirty = true
	return nil
}

// Next implements [driver.Reader]: it does not know.
func (t *tx) Next(_ driver.LogID, from, _ int64) (int64, error) { return from, nil }

// LogFloor implements [driver.Reader]. A transaction that has read it stands only if no log was dropped since. Else the log that it begins
// may have been made meanwhile, and dropped: its tokens would be given out again, and rows would be hidden that were left of it.
func (t *tx) LogFloor() (floor uint64, err error) {
	c, err := t.meta(metaFloor, &floor)
	if err == nil {
		c.check = true
	}
	return floor, err
}

// DropLog implements [driver.Tx].
func (t *tx) DropLog(id driver.LogID) error {
	g, err := t.log(id)
	if err != nil {
		return err
	}
	var floor uint64
	c, err := t.meta(metaFloor, &floor)
	if err != nil {
		return err
	}
	// Also where it is no higher: see LogFloor.
	if err := t.putMeta(c, max(floor, g.Token)); err != nil {
		return err
	}
	g.there, g.dirty, g.open, g.Segments = false, true, nil, nil
	listed, err := t.read(Name{placeLogs, string(id[:])})
	if err == nil && listed.is != nil {
		listed.write(nil)
	}
	return err
}

// sweepLogs is how many logs a page of the sweep has: they all may go, or change, in one transaction.
const sweepLogs = 20

// Logs implements [driver.Lists].
func (t *tx) Logs(from driver.LogID, n int) (page []driver.Log, err error) {
	if t.op == driver.Sweep {
		n = min(n, sweepLogs)
	}
	for more := true; more && len(page) == 0; {
		if page, from, more, err = t.logsFrom(from, n); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// logsFrom reads the next n logs that are listed, of which some may have gone since; next is behind them.
func (t *tx) logsFrom(from driver.LogID, n int) (page []driver.Log, next driver.LogID, more bool, err error) {
	listed, err := t.collect(t.ctx, Query{Place: placeLogs, From: string(from[:])}, n)
	if err != nil || len(listed) == 0 {
		return nil, next, false, err
	}
	var names []Name
	for _, i := range listed {
		names = append(names, logName(driver.LogID([]byte(NameOf(i).Sort))))
	}
	found, err := t.table.Get(t.ctx, names)
	if err != nil {
		return nil, next, false, err
	}
	for _, n := range names {
		if i := found[n]; i != nil {
			t.saw(i)
		} else {
			t.cell(n).known = true
		}
		next = driver.LogID([]byte(n.Place[1:]))
		g, err := t.Log(next)
		if err != nil {
			return nil, next, false, err
		}
		if g != nil {
			page = append(page, *g)
		}
	}
	binary.BigEndian.PutUint64(next[:], binary.BigEndian.Uint64(next[:])+1)
	return page, next, len(listed) == n && next != (driver.LogID{}), nil
}

// trim is what is trimmed together: logs of one name, of all epochs.
type trim struct{ scope, name string }

// trimmed remembers what a transaction has trimmed.
func (s *Store) trimmed(t *tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.trims) > marksMost {
		clear(s.trims)
	}
	for k, at := range t.trims {
		s.trims[k] = at
	}
}

// Trim implements [driver.Tx]. All logs are looked at, once for each new start that this process is told of.
func (t *tx) Trim(scope, logName string, at int64, before time.Time) error {
	of := trim{scope, logName}
	t.mu.Lock()
	done := t.Store.trims[of]
	t.mu.Unlock()
	if at <= done {
		return nil
	}
	for from, more := (driver.LogID{}), true; more; {
		var page []driver.Log
		var err error
		if page, from, more, err = t.logsFrom(from, t.bounds.Get); err != nil {
			return err
		}
		for _, l := range page {
			if l.Scope == scope && l.Name == logName {
				t.logs[l.Log].trim(at, before)
			}
		}
	}
	t.trims = map[trim]int64{of: at}
	return nil
}

func (g *logTx) trim(at int64, before time.Time) {
	kept := slices.DeleteFunc(slices.Clone(g.Segments), func(s driver.Segment) bool { return s.To <= at && s.Until.Before(before) })
	if len(kept) < len(g.Segments) {
		g.Segments, g.dirty = kept, true
	}
}

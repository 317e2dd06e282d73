package memory

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// rows holds the message rows. They lie in pages and point to nothing, and so does the map that finds them: with millions
// of rows the garbage collector has next to nothing to follow. What few rows have lies beside them.
type rows struct {
	at     map[driver.Key]ref
	pages  map[uint32]*page // by number, in the order in which they were begun
	open   uint32           // the page that takes new rows
	more   map[driver.Key]extra
	steps  map[driver.Key][]ledger.Step
	past   past
	scopes map[string]uint32
	names  []string // of scopes; like programs' queues and groups, they are few
}

// ref is the place of a row: its page, and its number there.
type ref uint64

func (r ref) page() uint32 { return uint32(r / pageRows) }

const pageRows = 1024

type page struct {
	ids  []byte
	live int // rows that were not removed
	used int
	rows [pageRows]row
}

// row is one message. Times count from the ledger's first moment.
type row struct {
	key         driver.Key
	fingerprint ledger.Fingerprint
	token       uint64
	at          time.Duration
	expiry      time.Duration
	owner       driver.OwnerID
	scope       uint32
	id          uint32 // where its bytes begin
	attempts    int32
	crashes     int32
	size        uint16 // of the id
	state       ledger.State
	covered     bool // a range speaks for the message when the row is gone
}

// extra is what few rows have.
type extra struct {
	due        time.Duration // zero: now
	result     []byte
	errors     []ledger.AttemptError
	generation int
	failed     []byte // failed: the delivery that it failed of last
}

func newRows() rows {
	return rows{at: map[driver.Key]ref{}, pages: map[uint32]*page{0: {}}, more: map[driver.Key]extra{}, steps: map[driver.Key][]ledger.Step{},
		past: past{keep: map[uint32]time.Duration{}, lives: map[driver.Key][]life{}}, scopes: map[string]uint32{}}
}

// get returns a message's row; nil: there is none.
func (t *rows) get(key driver.Key) *row {
	if at, ok := t.at[key]; ok {
		return t.row(at)
	}
	return nil
}

func (t *rows) row(at ref) *row { return &t.pages[at.page()].rows[at%pageRows] }

// add makes a row, with a message's scope and id.
func (t *rows) add(key driver.Key, scope string, id []byte) *row {
	p := t.pages[t.open]
	if p.used == pageRows {
		p = t.newPage()
	}
	at := ref(t.open)*pageRows + ref(p.used)
	r := &p.rows[p.used]
	p.used++
	p.live++
	r.key, r.scope = key, t.scope(scope)
	r.id, r.size = uint32(len(p.ids)), uint16(len(id))
	p.ids = append(p.ids, id...)
	t.at[key] = at
	return r
}

func (t *rows) newPage() *page {
	full := t.pages[t.open]
	if full.live == 0 { // emptied while it was open
		delete(t.pages, t.open)
	}
	p := &page{ids: make([]byte, 0, len(full.ids))}
	t.open++
	t.pages[t.open] = p
	return p
}

// remove drops a row. A page goes with its last row.
func (t *rows) remove(key driver.Key) {
	at, ok := t.at[key]
	if !ok {
		return
	}
	t.outlive(t.row(at))
	delete(t.more, key)
	delete(t.steps, key)
	delete(t.at, key)
	p := t.pages[at.page()]
	if p.live--; p.live == 0 && at.page() != t.open {
		delete(t.pages, at.page())
	}
}

func (t *rows) id(r *row) []byte {
	return t.pages[t.at[r.key].page()].ids[r.id : r.id+uint32(r.size)]
}

func (t *rows) scope(name string) uint32 {
	n, ok := t.scopes[name]
	if !ok {
		n = uint32(len(t.names))
		t.names = append(t.names, name)
		t.scopes[name] = n
	}
	return n
}

// next is the row at a place or behind it, and the place behind that; behind the last place comes the first. Nil: none was found soon, or
// it was removed.
func (t *rows) next(at ref) (*row, ref) {
	for range 8 { // pages that are gone, the rest of one that is not full, the end
		p := t.pages[at.page()]
		switch {
		case at >= t.end():
			at = 0
			continue
		case p == nil || int(at%pageRows) >= p.used:
			at = (ref(at.page()) + 1) * pageRows
			continue
		}
		r := &p.rows[at%pageRows]
		if is, ok := t.at[r.key]; !ok || is != at {
			r = nil
		}
		return r, at + 1
	}
	return nil, at
}

// end is behind the last row.
func (t *rows) end() ref {
	if len(t.at) == 0 {
		return 0
	}
	return (ref(t.open) + 1) * pageRows
}

// each yields the rows from one place on, below another.
func (t *rows) each(from, to ref) iter.Seq2[ref, *row] {
	return func(yield func(ref, *row) bool) {
		for _, n := range slices.Sorted(maps.Keys(t.pages)) {
			first := ref(n) * pageRows
			for at := max(from, first); at < min(to, first+ref(t.pages[n].used)); at++ {
				r := t.row(at)
				if there, ok := t.at[r.key]; ok && there == at && !yield(at, r) {
					return
				}
			}
		}
	}
}

package memory

import (
	"iter"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// rows holds the message rows. They lie in pages and point to nothing, and so does the map that finds them: with millions
// of rows the garbage collector has next to nothing to follow. What few rows have lies beside them.
type rows struct {
	at     map[driver.Key]ref
	pages  []*page // nil: free
	free   []uint32
	open   uint32 // the page that takes new rows
	more   map[driver.Key]*extra
	scopes map[string]uint32
	names  []string // of scopes; like programs' queues and groups, they are few
}

// ref is the place of a row: its page, and its number there.
type ref uint64

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
	rich        bool // there is an extra
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
	return rows{at: map[driver.Key]ref{}, pages: []*page{{}}, more: map[driver.Key]*extra{}, scopes: map[string]uint32{}}
}

func (t *rows) len() int { return len(t.at) }

// get returns a message's row; nil: there is none.
func (t *rows) get(key driver.Key) *row {
	if at, ok := t.at[key]; ok {
		return t.row(at)
	}
	return nil
}

func (t *rows) row(at ref) *row { return &t.pages[at/pageRows].rows[at%pageRows] }

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
	p := &page{ids: make([]byte, 0, len(full.ids))}
	if full.live == 0 { // emptied while it was open: the new one takes its place
		t.free = append(t.free, t.open)
	}
	if n := len(t.free); n > 0 {
		t.open, t.free = t.free[n-1], t.free[:n-1]
		t.pages[t.open] = p
	} else {
		t.open = uint32(len(t.pages))
		t.pages = append(t.pages, p)
	}
	return p
}

// remove drops a row. A page goes with its last row.
func (t *rows) remove(key driver.Key) {
	at, ok := t.at[key]
	if !ok {
		return
	}
	t.plain(t.row(at))
	delete(t.at, key)
	n := uint32(at / pageRows)
	p := t.pages[n]
	if p.live--; p.live == 0 && n != t.open {
		t.pages[n] = nil
		t.free = append(t.free, n)
	}
}

func (t *rows) id(r *row) []byte {
	return t.pages[t.at[r.key]/pageRows].ids[r.id : r.id+uint32(r.size)]
}

func (t *rows) scopeOf(r *row) string { return t.names[r.scope] }

func (t *rows) scope(name string) uint32 {
	n, ok := t.scopes[name]
	if !ok {
		n = uint32(len(t.names))
		t.names = append(t.names, name)
		t.scopes[name] = n
	}
	return n
}

// extra returns what few rows have, to change it.
func (t *rows) extra(r *row) *extra {
	if !r.rich {
		r.rich = true
		t.more[r.key] = &extra{}
	}
	return t.more[r.key]
}

// rest returns what few rows have, to read it.
func (t *rows) rest(r *row) extra {
	if !r.rich {
		return extra{}
	}
	return *t.more[r.key]
}

// plain takes away what few rows have.
func (t *rows) plain(r *row) {
	if r.rich {
		r.rich = false
		delete(t.more, r.key)
	}
}

// end is behind the last row.
func (t *rows) end() ref {
	if t.len() == 0 {
		return 0
	}
	return ref(len(t.pages)) * pageRows
}

// each yields the rows from one place on, below another.
func (t *rows) each(from, to ref) iter.Seq2[ref, *row] {
	return func(yield func(ref, *row) bool) {
		for from < to && int(from/pageRows) < len(t.pages) {
			p := t.pages[from/pageRows]
			if p == nil || int(from%pageRows) >= p.used {
				from = (from/pageRows + 1) * pageRows
				continue
			}
			r := &p.rows[from%pageRows]
			if at, ok := t.at[r.key]; ok && at == from && !yield(from, r) {
				return
			}
			from++
		}
	}
}

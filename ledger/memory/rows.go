package memory

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// rows holds the message rows. They lie in pages and point to nothing, and so does the map that finds them: with millions
// of rows the garbage collector has next to nothing to follow. What few rows have lies beside them.
type rows struct {
	at     map[[ledger.KeySize]byte]ref
	pages  []*page // nil: free
	free   []uint32
	open   uint32 // the page that takes new rows
	more   map[ref]*extra
	scopes map[string]uint32
	names  []string // of scopes; like programs' queues and groups, they are few
	owners []*owner // by row.owner; nil: free
	spare  []uint32
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
	fingerprint ledger.Fingerprint
	token       uint64
	at          time.Duration
	expiry      time.Duration
	ref         ref
	owner       uint32 // 0: nobody's
	scope       uint32
	id          uint32 // where its bytes begin
	call        uint32
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
	return rows{
		at: map[[ledger.KeySize]byte]ref{}, pages: []*page{{}}, more: map[ref]*extra{}, scopes: map[string]uint32{},
		owners: []*owner{nil},
	}
}

func (t *rows) len() int { return len(t.at) }

// get returns a message's row; nil: there is none.
func (t *rows) get(sum [ledger.KeySize]byte) *row {
	if at, ok := t.at[sum]; ok {
		return t.row(at)
	}
	return nil
}

func (t *rows) row(at ref) *row { return &t.pages[at/pageRows].rows[at%pageRows] }

// add makes the row of an entry.
func (t *rows) add(sum [ledger.KeySize]byte, e *ledger.Entry) *row {
	p := t.pages[t.open]
	if p.used == pageRows {
		p = t.newPage()
	}
	at := ref(t.open)*pageRows + ref(p.used)
	r := &p.rows[p.used]
	p.used++
	p.live++
	r.ref, r.fingerprint, r.scope = at, e.Fingerprint, t.scope(e.Key.Scope)
	r.id, r.size = uint32(len(p.ids)), uint16(len(e.Key.ID))
	p.ids = append(p.ids, e.Key.ID...)
	t.at[sum] = at
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
func (t *rows) remove(sum [ledger.KeySize]byte) {
	at, ok := t.at[sum]
	if !ok {
		return
	}
	r := t.row(at)
	t.own(r, nil)
	t.plain(r)
	delete(t.at, sum)
	n := uint32(at / pageRows)
	p := t.pages[n]
	if p.live--; p.live == 0 && n != t.open {
		t.pages[n] = nil
		t.free = append(t.free, n)
	}
}

func (t *rows) id(r *row) []byte {
	return t.pages[r.ref/pageRows].ids[r.id : r.id+uint32(r.size)]
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

// ownerOf returns whose the row is; nil: nobody's.
func (t *rows) ownerOf(r *row) *owner { return t.owners[r.owner] }

// own makes the row an owner's, or nobody's. An owner that is not live is forgotten with its last row.
func (t *rows) own(r *row, o *owner) {
	if before := t.owners[r.owner]; before != nil {
		before.rows--
		t.forget(before)
	}
	r.owner = 0
	if o != nil {
		o.rows++
		r.owner = o.slot
	}
}

// join gives an owner its number.
func (t *rows) join(o *owner) {
	if n := len(t.spare); n > 0 {
		o.slot, t.spare = t.spare[n-1], t.spare[:n-1]
		t.owners[o.slot] = o
		return
	}
	o.slot = uint32(len(t.owners))
	t.owners = append(t.owners, o)
}

func (t *rows) forget(o *owner) {
	if o.rows == 0 && o.fate != live && t.owners[o.slot] == o {
		t.owners[o.slot] = nil
		t.spare = append(t.spare, o.slot)
	}
}

// extra returns what few rows have, to change it.
func (t *rows) extra(r *row) *extra {
	if !r.rich {
		r.rich = true
		t.more[r.ref] = &extra{}
	}
	return t.more[r.ref]
}

// rest returns what few rows have, to read it.
func (t *rows) rest(r *row) extra {
	if !r.rich {
		return extra{}
	}
	return *t.more[r.ref]
}

// plain takes away what few rows have.
func (t *rows) plain(r *row) {
	if r.rich {
		r.rich = false
		delete(t.more, r.ref)
	}
}

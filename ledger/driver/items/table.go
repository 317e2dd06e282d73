package items

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Table is what the author of an engine writes: a table of items, each of which is written on the condition that it is as it was read.
// All methods may be called concurrently, by any number of processes.
//
// What a write's error says is what the ledger's safety hangs on. An error of Write, Put, Delete and Add is marked by
// [ledger.MarkUnknown], unless it is certain that nothing was carried out, nor will be. One that nothing but an administrator mends is
// marked by [ledger.MarkUnusable], one of a table that has no room at the moment by [driver.MarkBusy]: that is backpressure, no outage.
// A request that was given up may be carried out later all the same, and twice: versions make that harmless.
type Table interface {
	// Now is the time by which things are tried again and forgotten. Nobody's safety hangs on it.
	Now() time.Time
	// Bounds are the table's.
	Bounds() Bounds
	// Get reads items, each as it is at some moment of the call, and never as it was before. What is not there is left out.
	Get(ctx context.Context, names []Name) (map[Name]Item, error)
	// Any says which of some places have an item, each read as by Get.
	Any(ctx context.Context, places []string) (map[string]bool, error)
	// Query yields what a query finds, in order. Without an index each item is read as by Get; an index may lag behind.
	Query(ctx context.Context, q Query) iter.Seq2[Item, error]
	// Scan reads a page of all items of places that begin with Place and whose sort key begins with one of Sorts, in any order that stays
	// the same. It looks at about s.Most items, and says behind which the next page begins; the zero Name: there is none.
	Scan(ctx context.Context, s Scan) (items []Item, last Name, err error)
	// Write carries out sets of changes: each set all or not at all, and by itself. It notes in each what became of it. Sets of one
	// change are many, and go in batches. After an error some may be written all the same, and say so.
	Write(ctx context.Context, sets []*Set) error
	// Put writes items, and Delete removes them, without a condition.
	Put(ctx context.Context, items []Item) error
	Delete(ctx context.Context, names []Name) error
	// Add adds to the numbers of an item, sets what is not there yet of first, and returns the item. It makes the item if there is none.
	Add(ctx context.Context, n Name, sums, first Item) (Item, error)
	// Sizes says how large the table is, as far as it is known at no cost.
	Sizes(ctx context.Context) ([]ledger.TableStats, error)
}

// Bounds are what a table takes.
type Bounds struct {
	Item int // bytes of an item
	Set  int // changes of a set
	Get  int // items that are read in one request
}

// The attributes of which a table has to know. Those of the indexes are in [Dead] and [ByID]; others are only kept.
const (
	Place   = "k" // bytes: the kind of the item, and what it belongs to
	Sort    = "r" // bytes: what items of one place are sorted by
	Version = "v" // bytes, drawn anew with each write
	TTL     = "x" // seconds since 1970: from when on a table may remove the item by itself. It need not
)

// Index lists the items that have its two attributes.
type Index struct {
	Name, Place, Sort string
	Keeps             []string // attributes that its entries have beside both names
}

// The indexes that a table has.
var (
	Dead = &Index{"dead", attrShard, attrMoment, []string{attrScope, attrWeight, attrPurged, attrExpiry}} // dead letters by time, and the past by its end
	ByID = &Index{"by-id", attrByID, attrPlace, []string{attrScope}}                                      // what is found by a message's id
)

// Query asks for items of one place, in the order of what they are sorted by.
type Query struct {
	Place    string
	Prefix   string // of the sort key; or
	From, To string // From <= sort key < To; empty: unbounded
	Names    bool   // their names alone
	Down     bool   // the last ones first
	Most     int    // about how many are wanted; 0: all
	Index    *Index // asks an index instead of the table
}

// Scan asks for a page of many items.
type Scan struct {
	Place  string
	Sorts  []string
	Behind Name // the zero Name: from the start
	Fresh  bool // as by Get; else it may lag behind
	Most   int
}

// Set is a set of changes that hold together.
type Set struct {
	Changes []Change
	Written bool // they hold
	Behind  bool // somebody was ahead: nothing was written, nor will be
	Stands  Item // with Behind, of a set of one change: what stands there instead, if the table has told; nil: it has not

	tx *tx
	i  int
}

// Change is one write of an item, or a check, on the condition that the item is as it was read.
type Change struct {
	Name  Name
	Was   Item // its [Version] is the condition; nil: the item is not there
	Is    Item // what it is to be; nil: it goes
	Check bool // nothing is written
}

// Differs are the attributes of Is that are not as in Was, sorted, and those that Is lacks.
func (c *Change) Differs() (set, gone []string) {
	for attr, v := range c.Is {
		if !v.Equal(c.Was[attr]) {
			set = append(set, attr)
		}
	}
	for attr := range c.Was {
		if _, stays := c.Is[attr]; !stays {
			gone = append(gone, attr)
		}
	}
	slices.Sort(set)
	slices.Sort(gone)
	return set, gone
}

// Item is an item by its attributes; nil: there is none. One that was handed over is not changed any more, by neither side.
type Item map[string]Value

// Attributes are the names of an item's attributes, sorted.
func Attributes(i Item) []string {
	names := slices.AppendSeq(make([]string, 0, len(i)), maps.Keys(i))
	slices.Sort(names)
	return names
}

// Name is the primary key of an item.
type Name struct{ Place, Sort string }

// NameOf is an item's name.
func NameOf(i Item) Name { return Name{string(i[Place].Bytes), string(i[Sort].Bytes)} }

// Compare orders names.
func (n Name) Compare(m Name) int {
	return cmp.Or(cmp.Compare(n.Place, m.Place), cmp.Compare(n.Sort, m.Sort))
}

// Item is an item that has its name alone.
func (n Name) Item() Item { return Item{Place: Bytes(n.Place), Sort: Bytes(n.Sort)} }

// Kind says what a value is.
type Kind uint8

// The kinds of values. The zero value is of an attribute that is not there.
const (
	KindBytes Kind = iota + 1
	KindNumber
	KindTrue
)

// Value is an attribute's value.
type Value struct {
	Kind   Kind
	Bytes  []byte
	Number int64
}

// True is the value of a mark.
var True = Value{Kind: KindTrue}

// Integer is what a number is made of.
type Integer interface {
	~int | ~int64 | ~uint64 | ~uint8
}

// Bytes is a value of bytes, which are copied.
func Bytes[T ~string | ~[]byte](b T) Value {
	return Value{Kind: KindBytes, Bytes: append([]byte{}, b...)}
}

// Number is a value of a number. One above 2^63 comes back as it was.
func Number[N Integer](n N) Value { return Value{Kind: KindNumber, Number: int64(n)} }

// Equal says whether two values are the same.
func (v Value) Equal(w Value) bool {
	return v.Kind == w.Kind && v.Number == w.Number && bytes.Equal(v.Bytes, w.Bytes)
}

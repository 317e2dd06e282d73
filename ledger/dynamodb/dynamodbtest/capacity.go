package dynamodbtest

import (
	"math"
	"reflect"
)

// Units are capacity units as DynamoDB charges them, on demand or provisioned.
type Units struct {
	Write      float64 // of the tables
	IndexWrite float64 // of their global and local secondary indexes
	Read       float64
}

// Add is the sum.
func (u Units) Add(v Units) Units {
	return Units{Write: u.Write + v.Write, IndexWrite: u.IndexWrite + v.IndexWrite, Read: u.Read + v.Read}
}

const (
	writeUnit = 1024     // bytes that a write unit pays for
	readUnit  = 4 * 1024 // bytes that a read unit pays for
)

// writeUnits is what a write of an item of so many bytes costs: one that is not there costs a unit as well.
func writeUnits(bytes int) float64 { return math.Max(1, math.Ceil(float64(bytes)/writeUnit)) }

// readUnits is what a read costs: half if it may be stale.
func readUnits(bytes int, strong bool) float64 {
	units := math.Max(1, math.Ceil(float64(bytes)/readUnit))
	if !strong {
		units /= 2
	}
	return units
}

// charge is what an access costs, by the item before it and after it. A write is charged for the larger of the two; one whose condition
// failed, for the larger of what is there and of what it carried.
func (a *access) charge(t *table, before, after item, done bool, times float64) Units {
	if !a.write {
		return Units{Read: times * readUnits(ItemSize(before), a.strong)}
	}
	if !done {
		return Units{Write: times * writeUnits(max(ItemSize(before), ItemSize(a.carried)))}
	}
	units := Units{Write: times * writeUnits(max(ItemSize(before), ItemSize(after)))}
	for _, index := range t.indexes {
		units.IndexWrite += index.charge(before, after)
	}
	return units
}

// table is what is known of a table.
type table struct {
	keys    []string
	indexes []index
}

// index is a secondary index.
type index struct {
	keys []string // its own and the table's
	all  bool     // it holds whole items
	more []string // attributes that it holds beside the keys
}

// keyOf is the key among an item's attributes; nil if it is not whole.
func keyOf(i item, names []string) item {
	key := item{}
	for _, name := range names {
		value, ok := i[name]
		if !ok {
			return nil
		}
		key[name] = value
	}
	return key
}

// view is what the index holds of an item; nil for nothing.
func (x *index) view(i item) item {
	view := keyOf(i, x.keys)
	if view == nil {
		return nil
	}
	if x.all {
		return i
	}
	for _, name := range x.more {
		if value, ok := i[name]; ok {
			view[name] = value
		}
	}
	return view
}

// charge is what a write costs in the index: nothing if what it holds stays as it is; an entry that moves is removed and written.
func (x *index) charge(before, after item) float64 {
	from, to := x.view(before), x.view(after)
	switch {
	case reflect.DeepEqual(from, to):
		return 0
	case from == nil:
		return writeUnits(ItemSize(to))
	case to == nil:
		return writeUnits(ItemSize(from))
	case !reflect.DeepEqual(keyOf(from, x.keys), keyOf(to, x.keys)):
		return writeUnits(ItemSize(from)) + writeUnits(ItemSize(to))
	}
	return writeUnits(max(ItemSize(from), ItemSize(to)))
}

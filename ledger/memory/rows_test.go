package memory

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func entryOf(n int) (*ledger.Entry, [ledger.KeySize]byte) {
	e := &ledger.Entry{Key: ledger.Key{Scope: fmt.Sprint("scope ", n%3), ID: fmt.Appendf(nil, "%0*d", 1+n%40, n)}}
	return e, e.Key.Sum()
}

// pagesInUse counts the pages that are there.
func (t *rows) pagesInUse() int {
	n := 0
	for _, p := range t.pages {
		if p != nil {
			n++
		}
	}
	return n
}

// Pages go with their last row, in whatever order rows go, and their places are used again: a ledger that lives for long
// is as large as what it holds.
func TestPagesAreFreed(t *testing.T) {
	rounds := 2
	if os.Getenv("ACKLEDGER_LONG") != "" {
		rounds = 5
	}
	for name, order := range map[string]func(sums [][ledger.KeySize]byte){
		"oldest first": func([][ledger.KeySize]byte) {},
		"newest first": slices.Reverse[[][ledger.KeySize]byte],
		"random": func(sums [][ledger.KeySize]byte) {
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(sums), func(i, j int) { sums[i], sums[j] = sums[j], sums[i] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows := newRows()
			for round := range rounds {
				var sums [][ledger.KeySize]byte
				for i := range 10 * pageRows {
					e, sum := entryOf(round*1_000_000 + i)
					rows.add(sum, e)
					sums = append(sums, sum)
				}
				if n := rows.pagesInUse(); n > 11 {
					t.Fatalf("round %d: %d pages for the rows of 10", round, n)
				}
				order(sums)
				for _, sum := range sums {
					rows.remove(sum)
				}
				if n := rows.pagesInUse(); n != 1 || rows.len() != 0 {
					t.Fatalf("round %d: %d pages for %d rows", round, n, rows.len())
				}
			}
			if len(rows.pages) > 12 {
				t.Errorf("%d places of pages", len(rows.pages))
			}
		})
	}
}

// Rows that go before their page is full left that page behind, with no row to free it.
func TestPagesThatAreEmptiedWhileOpen(t *testing.T) {
	rows := newRows()
	for i := range 20 * pageRows {
		e, sum := entryOf(i)
		rows.add(sum, e)
		rows.remove(sum)
	}
	if rows.pagesInUse() != 1 || len(rows.pages) > 2 {
		t.Errorf("%d pages in %d places for no row", rows.pagesInUse(), len(rows.pages))
	}
}

// Owners that are gone are forgotten with their last row, and the numbers are given out again.
func TestOwnersAreForgotten(t *testing.T) {
	var rows = newRows()
	for i := range 1000 {
		o := &owner{id: fmt.Sprint(i), fate: live}
		rows.join(o)
		var sums [][ledger.KeySize]byte
		for j := range 3 {
			e, sum := entryOf(10*i + j)
			rows.own(rows.add(sum, e), o)
			sums = append(sums, sum)
		}
		rows.own(rows.get(sums[0]), nil)
		o.fate = left
		rows.forget(o)
		if rows.ownerOf(rows.get(sums[1])) != o || rows.ownerOf(rows.get(sums[0])) != nil {
			t.Fatal("a row has lost its owner")
		}
		next := &owner{id: "next", fate: live}
		rows.join(next)
		rows.own(rows.get(sums[1]), next)
		rows.remove(sums[2])
		next.fate = dead
		rows.remove(sums[1])
	}
	if len(rows.owners) > 4 {
		t.Errorf("%d places of owners for none", len(rows.owners))
	}
}

// Rows against a map, in random order: ids, scopes, owners and what few rows have stay with their row.
func TestRowsAgainstAMap(t *testing.T) {
	type want struct {
		id, scope string
		owner     *owner
		result    string
	}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		rows, all := newRows(), map[[ledger.KeySize]byte]*want{}
		var owners []*owner
		for i := range 3 {
			o := &owner{id: fmt.Sprint(i), fate: live}
			rows.join(o)
			owners = append(owners, o)
		}
		for range 30_000 {
			e, sum := entryOf(rng.IntN(4000))
			w := all[sum]
			switch {
			case w == nil:
				if rows.get(sum) != nil {
					t.Fatal("a row that was removed is there")
				}
				r := rows.add(sum, e)
				all[sum] = &want{id: string(e.Key.ID), scope: e.Key.Scope}
				if r.rich || r.owner != 0 || r.state != 0 || r.token != 0 {
					t.Fatalf("a new row is not empty: %+v", r)
				}
			case rng.IntN(3) == 0:
				rows.remove(sum)
				delete(all, sum)
			case rng.IntN(2) == 0:
				w.owner = owners[rng.IntN(len(owners))]
				rows.own(rows.get(sum), w.owner)
			case rng.IntN(2) == 0:
				w.result = fmt.Sprint(rng.Int())
				rows.extra(rows.get(sum)).result = []byte(w.result)
			default:
				w.result = ""
				rows.plain(rows.get(sum))
			}
		}
		if rows.len() != len(all) {
			t.Errorf("%d rows, want %d", rows.len(), len(all))
		}
		rich, owned := 0, 0
		for sum, w := range all {
			r := rows.get(sum)
			got := want{string(rows.id(r)), rows.scopeOf(r), rows.ownerOf(r), string(rows.rest(r).result)}
			if got != *w {
				t.Fatalf("row %+v, want %+v", got, *w)
			}
			if r.rich {
				rich++
			}
			if w.owner != nil {
				owned++
			}
		}
		named := 0
		for _, o := range owners {
			named += o.rows
		}
		if rich != len(rows.more) || owned != named {
			t.Errorf("%d rows have more, %d are kept; %d are owned, %d counted", rich, len(rows.more), owned, named)
		}
	}
}

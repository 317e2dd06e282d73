package memory

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

func keyOf(n int) (ledger.Key, driver.Key) {
	k := ledger.Key{Scope: fmt.Sprint("scope ", n%3), ID: fmt.Appendf(nil, "%0*d", 1+n%40, n)}
	return k, k.Sum()
}

// Pages go with their last row, in whatever order rows go: a ledger that lives for long is as large as what it holds.
func TestPagesAreFreed(t *testing.T) {
	rounds := 2
	if os.Getenv("ACKLEDGER_LONG") != "" {
		rounds = 5
	}
	for name, order := range map[string]func(sums []driver.Key){
		"oldest first": func([]driver.Key) {},
		"newest first": slices.Reverse[[]driver.Key],
		"random": func(sums []driver.Key) {
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(sums), func(i, j int) { sums[i], sums[j] = sums[j], sums[i] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows := newRows()
			for round := range rounds {
				var sums []driver.Key
				for i := range 10 * pageRows {
					k, sum := keyOf(round*1_000_000 + i)
					rows.add(sum, k.Scope, k.ID)
					sums = append(sums, sum)
				}
				if n := len(rows.pages); n > 11 {
					t.Fatalf("round %d: %d pages for the rows of 10", round, n)
				}
				order(sums)
				for _, sum := range sums {
					rows.remove(sum)
				}
				if n := len(rows.pages); n != 1 || len(rows.at) != 0 {
					t.Fatalf("round %d: %d pages for %d rows", round, n, len(rows.at))
				}
			}
		})
	}
}

// Rows that go before their page is full left that page behind, with no row to free it.
func TestPagesThatAreEmptiedWhileOpen(t *testing.T) {
	rows := newRows()
	for i := range 20 * pageRows {
		k, sum := keyOf(i)
		rows.add(sum, k.Scope, k.ID)
		rows.remove(sum)
	}
	if len(rows.pages) != 1 {
		t.Errorf("%d pages for no row", len(rows.pages))
	}
}

// Rows against a map, in random order: ids, scopes, owners and what few rows have stay with their row.
func TestRowsAgainstAMap(t *testing.T) {
	type want struct {
		id, scope string
		owner     driver.OwnerID
		result    string
	}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		rows, all := newRows(), map[driver.Key]*want{}
		for range 30_000 {
			k, sum := keyOf(rng.IntN(4000))
			w := all[sum]
			switch {
			case w == nil:
				if rows.get(sum) != nil {
					t.Fatal("a row that was removed is there")
				}
				r := rows.add(sum, k.Scope, k.ID)
				all[sum] = &want{id: string(k.ID), scope: k.Scope}
				if _, some := rows.more[sum]; some || r.owner != 0 || r.state != 0 || r.token != 0 {
					t.Fatalf("a new row is not empty: %+v", r)
				}
			case rng.IntN(3) == 0:
				rows.remove(sum)
				delete(all, sum)
			case rng.IntN(2) == 0:
				w.owner = driver.OwnerID(1 + rng.IntN(3))
				rows.get(sum).owner = w.owner
			case rng.IntN(2) == 0:
				w.result = fmt.Sprint(rng.Int())
				rows.more[sum] = extra{result: []byte(w.result)}
			default:
				w.result = ""
				delete(rows.more, sum)
			}
		}
		if len(rows.at) != len(all) {
			t.Errorf("%d rows, want %d", len(rows.at), len(all))
		}
		some := 0
		for sum, w := range all {
			r := rows.get(sum)
			got := want{string(rows.id(r)), rows.names[r.scope], r.owner, string(rows.more[sum].result)}
			if got != *w {
				t.Fatalf("row %+v, want %+v", got, *w)
			}
			if w.result != "" {
				some++
			}
		}
		if some != len(rows.more) {
			t.Errorf("%d rows have more, %d are kept", some, len(rows.more))
		}
	}
}

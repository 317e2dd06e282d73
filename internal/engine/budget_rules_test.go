package engine

import "testing"

// What is archived while the ledger is asked counts beside its answer; what was archived before that does not count twice.
func TestBudgetCountsOnce(t *testing.T) {
	b := budget{limit: 100}
	if !b.meet("a") || b.meet("a") || !b.stops || b.over != "a" {
		t.Fatalf("a scope of which nothing is known: %+v", b)
	}
	b.ask("a")
	if b.answered("a", 40); b.stops {
		t.Fatalf("40 of 100: %+v", b)
	}
	b.spend("a", 30)
	b.ask("a")
	b.spend("a", 20)
	b.answered("a", 70)
	if n := b.scopes["a"].bytes(); n != 90 || b.stops {
		t.Errorf("%d bytes, want 90: %+v", n, b)
	}
	if b.spend("a", 10); !b.stops {
		t.Errorf("100 of 100: %+v", b)
	}
	b.ask("a")
	if b.answered("a", 99); b.stops {
		t.Errorf("there is room again: %+v", b)
	}
}

// Each scope has its own budget. One that is full is told rather than one of which nothing is known.
func TestBudgetOfScopes(t *testing.T) {
	b := budget{limit: 100}
	for _, scope := range []string{"a", "b", "c"} {
		b.meet(scope)
	}
	b.answered("a", 90)
	b.answered("b", 100)
	if !b.stops || b.over != "b" {
		t.Errorf("%+v", b)
	}
	if b.answered("b", 99); !b.stops || b.over != "c" {
		t.Errorf("%+v", b)
	}
	if b.answered("c", 0); b.stops || b.over != "" {
		t.Errorf("%+v", b)
	}
	b.spend("unknown", 1000)
	if none := (budget{}); none.meet("a") || b.stops {
		t.Errorf("%+v, %+v", none, b)
	}
}

package flow

import "testing"

// What is archived while the ledger is asked counts beside its answer; what was archived before that does not count twice.
func TestBudgetCountsOnce(t *testing.T) {
	b := budget{limit: 100}
	if !b.meet("a") || b.meet("a") || !b.stops || b.over != "a" {
		t.Fatalf("a scope of which nothing is known: %+v", b)
	}
	b.ask("a", 0)
	if b.answered("a", 40); b.stops {
		t.Fatalf("40 of 100: %+v", b)
	}
	b.spend("a", 30)
	b.ask("a", 0)
	b.spend("a", 20)
	b.answered("a", 70)
	if n := b.scopes["a"].bytes(); n != 90 || b.stops {
		t.Errorf("%d bytes, want 90: %+v", n, b)
	}
	if b.spend("a", 10); !b.stops {
		t.Errorf("100 of 100: %+v", b)
	}
	b.ask("a", 0)
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

// What is on its way to the archive when the ledger is asked stays counted until it has arrived.
func TestBudgetCountsWhatIsOnItsWay(t *testing.T) {
	b := budget{limit: 100}
	b.meet("a")
	b.answered("a", 0)
	b.spend("a", 60)
	b.ask("a", 40)
	if b.answered("a", 20); b.scopes["a"].bytes() != 60 || b.stops {
		t.Errorf("20 are archived and 40 on their way: %+v", b.scopes["a"])
	}
	if b.spend("a", 40); !b.stops {
		t.Errorf("20 are archived and 80 on their way: %+v", b.scopes["a"])
	}
	b.ask("a", 0)
	if b.answered("a", 90); b.scopes["a"].bytes() != 90 || b.stops {
		t.Errorf("90 are archived, 10 were given up: %+v", b.scopes["a"])
	}
}

package flow

// FairConfig is what a fair rule is built of.
type FairConfig struct {
	// Places is how many items with a name are in flight at most.
	Places int
	// Share is how many of them have one name at most.
	Share int
	// Weights says of how many items of a name come in its turn; of names that are not in it, one does.
	Weights map[string]int
	// Name is whose the item is. Names do not change. An item without one is free.
	Name func(*Item) string
}

// fair is a rule: the items of many names share the places of one worker, in turns.
type fair struct {
	FairConfig
	placed int
	named  map[string]*tenant
	turns  queue[*tenant] // those of whom one waits and may have a place, in turn, and some of whom none does any more
}

// tenant is a name with items in hand.
type tenant struct {
	weight int
	placed int
	line   line // those that wait
	given  int  // places in this turn
	listed bool // in fair.turns
}

// Fair is a rule: at most Places items with a name are in flight, at most Share of one name. Those that wait get places in turns of their
// names, each as many in its turn as it has weight (weighted round robin; Katevenis, Sidiropoulos and Courcoubetis, 1991). So a name with
// few items waits for one turn of each other, however many items these have.
func Fair(c FairConfig) Rule { return &fair{FairConfig: c, named: map[string]*tenant{}} }

// Admit implements Rule.
func (r *fair) Admit(it *Item) bool {
	name := r.Name(it)
	if name == "" {
		return true
	}
	t := r.named[name]
	if t == nil {
		t = &tenant{weight: max(r.Weights[name], 1), line: newLine()}
		r.named[name] = t
	}
	if r.placed < r.Places && t.placed < r.Share {
		r.place(t)
		return true
	}
	t.line.push(it)
	r.list(t)
	return false
}

func (r *fair) place(t *tenant) {
	r.placed++
	t.placed++
}

// list gives a tenant a turn behind the others, if it needs one and may have it.
func (r *fair) list(t *tenant) {
	if !t.listed && t.line.len() > 0 && t.placed < r.Share {
		t.listed, t.given = true, 0
		r.turns.push(t)
	}
}

// Next implements Rule.
func (r *fair) Next() *Item {
	for r.placed < r.Places && r.turns.len() > 0 {
		t := r.turns.pop()
		t.listed = false
		if t.line.len() == 0 || t.placed >= r.Share {
			continue
		}
		it := t.line.pop()
		r.place(t)
		if t.given++; t.given < t.weight {
			t.listed = true
			r.turns.pushFront(t)
		} else {
			r.list(t)
		}
		return it
	}
	return nil
}

// Leave implements Rule.
func (r *fair) Leave(it *Item) {
	name := r.Name(it)
	if name == "" {
		return
	}
	t := r.named[name]
	if !t.line.leave(it) {
		r.placed--
		t.placed--
	}
	if t.placed+t.line.len() == 0 {
		delete(r.named, name)
	}
	r.list(t)
	if r.turns.len() > 2*len(r.named)+64 { // while no place comes free nobody takes out who waits no more
		r.turns.filter(func(t *tenant) bool { t.listed = t.line.len() > 0; return t.listed })
	}
}

// Empty implements Rule.
func (r *fair) Empty() bool { return len(r.named) == 0 && r.placed == 0 && r.turns.len() == 0 }

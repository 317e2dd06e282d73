package flow

import (
	"maps"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// order decides whether operators have paused a worker. It is pure: no lock, no clock, no I/O.
type order struct {
	home   []string       // the worker's scopes, as far as they are known when it starts
	hold   []ledger.Pause // as the ledger said last
	met    map[string]bool
	latest string       // the scope that was met last: mostly the next one, too
	by     ledger.Pause // that stops the worker
	stops  bool         // there is one: nothing starts
}

// meet takes in the scope of what comes, and says whether that stops the worker.
func (o *order) meet(scope string) bool {
	if len(o.hold) == 0 || scope == o.latest {
		return false
	}
	o.latest = scope
	stopped := o.stops
	return o.note(map[string]bool{scope: true}) && !stopped
}

// note keeps which paused scopes are the worker's, for as long as they are paused, and decides.
func (o *order) note(scopes map[string]bool) bool {
	o.by, o.stops = ledger.Pause{}, false
	for _, p := range o.hold {
		switch {
		case scopes[p.Scope]:
			if o.met == nil {
				o.met = map[string]bool{}
			}
			o.met[p.Scope] = true
		case p.Scope != "" && !o.met[p.Scope] && !slices.Contains(o.home, p.Scope):
			continue
		}
		if !o.stops {
			o.by, o.stops = p, true
		}
	}
	return o.stops
}

// said takes in the pauses that hold, and the scopes of what is in hand. It says whether the worker is stopped.
func (o *order) said(hold []ledger.Pause, inHand map[string]bool) bool {
	o.hold, o.latest = hold, ""
	maps.DeleteFunc(o.met, func(scope string, _ bool) bool {
		return !slices.ContainsFunc(hold, func(p ledger.Pause) bool { return p.Scope == scope })
	})
	return o.note(inHand)
}

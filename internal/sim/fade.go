package sim

import (
	"context"
	"iter"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// mustFade checks what the ledger keeps of a world that is over, when all its processes are gone.
func (w *world) mustFade() {
	w.queue = nil // nothing happens any more
	w.quiet(2 * window)
	w.mustHaveDissolved()
	rest := 2 * window // what was dissolved has a window of its own
	if w.parks() && w.cfg.Keys > 0 {
		rest += ledger.MaxPark // what waited in a lane is known for as long as those before it might have waited
	}
	w.quiet(rest)
	w.mustHaveForgotten()
	w.quiet(90 * 24 * time.Hour)
	w.mustBeBare()
}

// mustHaveDissolved checks that nothing lies in a range any more.
func (w *world) mustHaveDissolved() {
	for m, rec := range w.records() {
		if rec.In != nil && rec.In.Until.IsZero() {
			w.breaks(m, "what owners left that are gone is dissolved: %s lies in the range from %d to %d", m, rec.In.From, rec.In.To)
		}
	}
}

// mustHaveForgotten checks that what has succeeded is known no more.
func (w *world) mustHaveForgotten() {
	for m, rec := range w.records() {
		if rec.State == ledger.Succeeded {
			w.breaks(m, "what has succeeded is forgotten when its window is over: %s is known", m)
		}
	}
}

// mustBeBare checks that the ledger has nothing but the owner that asks.
func (w *world) mustBeBare() {
	stats, err := w.ledger.Stats(context.Background())
	if err != nil || len(stats.Scopes) > 0 || w.ledger.Len() > 0 || stats.Owners != (ledger.OwnerStats{Left: 1}) {
		w.breaks(none, "in the end nothing is left: %d rows, %+v, %v", w.ledger.Len(), stats, err)
	}
}

// records are what the ledger has of messages.
func (w *world) records() iter.Seq2[message, *ledger.Record] {
	return func(yield func(message, *ledger.Record) bool) {
		for _, m := range w.facts.all() {
			rec, err := w.ledger.Get(context.Background(), w.facts.of(m).key)
			if err == nil && !yield(m, &rec) {
				return
			}
		}
	}
}

// quiet lets time pass in the ledger, with an owner that beats and leaves, and has it swept.
func (w *world) quiet(d time.Duration) {
	w.now += d
	o, err := w.ledger.Join(context.Background(), lease)
	for range 4 {
		w.now += w.seconds(lease / 2)
		if err == nil {
			_, err = o.Beat(context.Background())
		}
	}
	for range 2 { // what the first one makes rows of, the second one sees
		if err == nil {
			_, err = w.ledger.Sweep(context.Background(), ledger.MaintainConfig{})
		}
	}
	if err == nil {
		err = o.Leave(context.Background())
	}
	if err != nil {
		w.breaks(none, "the ledger can be kept in order: %v", err)
	}
}

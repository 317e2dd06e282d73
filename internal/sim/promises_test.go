package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// Each promise is told by name when it is broken, with the steps before it.
func TestBrokenPromisesAreTold(t *testing.T) {
	for promise, breaks := range map[string]func(w *world, p, other *process, d delivery){
		"two live owners never run a message at once": func(w *world, p, other *process, d delivery) {
			w.begins(p, &running{p, p.sess}, d, 1)
			w.begins(other, &running{other, other.sess}, d, 2)
		},
		"fencing tokens only grow": func(w *world, p, _ *process, d delivery) {
			r := &running{p, p.sess}
			w.begins(p, r, d, 2)
			w.ends(r, d, false)
			w.begins(p, r, d, 1)
		},
		"messages of an ordering key run in order": func(w *world, p, _ *process, d delivery) {
			w.begins(p, &running{p, p.sess}, part(w).delivery(4, 4), 1)
		},
		"nothing begins once the lease is known to be lost": func(w *world, p, _ *process, d delivery) {
			w.begins(p, &running{p, &session{}}, d, 1)
		},
		"the handlers of a lost lease are cancelled": func(w *world, p, _ *process, _ delivery) {
			p.chunks[&flow.Dispatch{}] = &chunk{running: &running{p, p.sess}}
			w.mustHaveEnded(p, p.sess)
		},
		"what is acknowledged is finished": func(w *world, _, _ *process, d delivery) {
			w.mustBeTerminal(d, "is acknowledged")
		},
		"settlements keep the order of their key": func(w *world, _, _ *process, d delivery) {
			w.mustBeInOrder(&flow.Batch{Items: []flow.Settlement{{Item: &flow.Item{Of: part(w).delivery(4, 4)}, Kind: ledger.Succeed}}})
		},
		"the committed offset only grows": func(w *world, p, _ *process, d delivery) {
			m := &member{process: p}
			part(w).owner, part(w).committed = m, 7
			w.broker.(*cluster).commit(part(w), m, part(w).generation, 6)
		},
		"what is committed is finished": func(w *world, p, _ *process, d delivery) {
			m := &member{process: p}
			part(w).owner = m
			w.broker.(*cluster).commit(part(w), m, part(w).generation, 1)
		},
	} {
		t.Run(promise, func(t *testing.T) {
			w := newWorld(Config{Workers: 2, Partitions: 1, Messages: 10, Keys: 4, Concurrency: 1})
			var both []*process
			for i := range 2 {
				k := &worker{world: w, number: i}
				k.start()
				sess := &session{ledgerUntil: time.Hour}
				owner, err := w.ledger.Join(context.Background(), lease)
				if err != nil {
					t.Fatal(err)
				}
				sess.owner = ledger.Ungroup(owner)
				k.process.sess = sess
				both = append(both, k.process)
			}
			w.step("a step")
			breaks(w, both[0], both[1], part(w).delivery(4, 0))
			if w.broken == nil || !strings.HasPrefix(w.broken.Promise, promise) || !strings.Contains(w.broken.Error(), "a step") {
				t.Errorf("%+v", w.broken)
			}
		})
	}
}

func part(w *world) *partition { return w.broker.(*cluster).parts[0] }

// A world that does not come to its end is told, with what is left.
func TestEndlessWorldsAreTold(t *testing.T) {
	w := newWorld(Config{Workers: 0, Partitions: 1, Messages: 1})
	if _, err := w.run(); err == nil || !strings.Contains(err.Error(), "partition 0 of nobody is committed up to 0 of 1") {
		t.Errorf("%v", err)
	}
}

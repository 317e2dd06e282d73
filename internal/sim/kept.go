package sim

import (
	"context"

	"github.com/ackledger/ackledger/ledger"
)

// mustBeOne checks in the end what the ledger keeps of logs: finished messages side by side lie in one segment, and no two overlap.
func (w *world) mustBeOne() {
	var last *ledger.Neighbours
	var log ledger.Position
	for _, m := range w.facts.all() {
		key := w.facts.of(m).key
		if key.Pos == nil {
			continue
		}
		if key.Pos.Log != log.Log || key.Pos.Epoch != log.Epoch {
			log, last = *key.Pos, nil
		}
		rec, err := w.ledger.Get(context.Background(), key)
		if err != nil || rec.In == nil || rec.In.Until.IsZero() {
			continue
		}
		if last != nil && *last != *rec.In && rec.In.From <= last.To {
			w.breaks(m, "what is finished side by side is kept as one: %s lies in %d to %d, behind %d to %d", m, rec.In.From, rec.In.To, last.From, last.To)
		}
		last = rec.In
	}
}

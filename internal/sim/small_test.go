package sim

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/model"
)

// shapeOf is a world of the shape of one that the model goes through whole: as many workers and messages, the same broker, the same
// kinds of trouble. How often there is trouble is drawn here, and counted there.
func shapeOf(m *model.Config) Config {
	c := Config{
		Workers: m.Workers, Partitions: 1, Messages: len(m.Messages), Concurrency: 1, InTx: m.Tx, Park: m.Park, LimitStarts: m.Park,
		Published: m.DeadLetters, Watched: m.Watched, Parks: m.Parks, Pace: 5 * time.Millisecond, Calm: 20 * time.Second,
	}
	if m.Broker == model.Queue {
		c.Visibility = 2 * time.Second
	}
	happens := func(often int, kinds ...kind) {
		for _, k := range kinds {
			if often > 0 {
				c.Moods[k] = 20
			}
		}
	}
	for _, k := range m.Messages {
		switch k {
		case model.Flaky:
			happens(1, failing, retried)
		case model.Killer:
			happens(1, deadly, slow)
		}
	}
	for _, extra := range m.Copies {
		if happens(1, copied); extra.Other {
			happens(1, forged)
		}
	}
	happens(m.Losses, requestLost, answerLost)
	happens(m.Lates, callLate)
	happens(m.Crashes+m.Leases+m.Exits, mishap, slow)
	happens(m.Dups, copied, slow)
	happens(m.Rebalances, revocation, unnoticed)
	happens(m.Replays+m.Moves, redriven)
	return c
}

// Worlds of the shapes that the model goes through, played on the code that runs, keep the same promises.
func TestWorldsOfTheModel(t *testing.T) {
	t.Parallel()
	const seeds = 200
	for _, m := range model.Small() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			runs, kills := 0, 0
			for seed := range uint64(seeds) {
				c := shapeOf(&m)
				c.Seed = seed
				r, err := Run(c)
				if err != nil {
					t.Fatal(err)
				}
				runs, kills = runs+r.Runs, kills+r.Kills
			}
			if least := seeds * len(m.Messages); runs < least || kills == 0 && m.Crashes+m.Leases+m.Exits > 0 {
				t.Errorf("too little happened: %d runs of at least %d, %d processes killed", runs, least, kills)
			}
		})
	}
}

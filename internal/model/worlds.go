package model

// Small are the worlds that are gone through whole. The simulator plays worlds of their shapes, too, on the code that runs.
func Small() []Config {
	return []Config{
		{Name: "queue", Workers: 1, Messages: []Kind{Flaky}, Losses: 2, Crashes: 1, Lates: 1},
		{Name: "queue, two workers", Workers: 2, Messages: []Kind{Flaky}, Losses: 1, Leases: 1},
		{Name: "queue, copies", Workers: 2, Messages: []Kind{Innocent}, Copies: []Copy{{}}, Dups: 1},
		{Name: "queue, another body", Workers: 1, Messages: []Kind{Flaky}, Copies: []Copy{{Other: true}}, Losses: 1, Attempts: 1, DeadLetters: true},
		{Name: "queue, transactions", Workers: 1, Messages: []Kind{Flaky}, Tx: true, Losses: 1, Lates: 1, Attempts: 1},
		{Name: "queue, parked", Workers: 1, Messages: []Kind{Innocent}, Park: true, Crashes: 1, Exits: 1},
		{Name: "log", Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Losses: 1, Rebalances: 2, Lates: 1},
		{Name: "log, two messages", Broker: Log, Workers: 2, Messages: []Kind{Innocent, Innocent}, Rebalances: 1},
		{Name: "replay, two at once", Workers: 1, Messages: []Kind{Innocent}, Replays: 2, Moves: 1},
		{Name: "replay in place", Workers: 1, Messages: []Kind{Flaky}, Attempts: 1, Replays: 1, InPlace: true, FromArchive: true},
		{Name: "parked retries", Workers: 1, Messages: []Kind{Flaky}, Parks: true, Losses: 1, Crashes: 1},
		{Name: "parked retries, two workers", Workers: 2, Messages: []Kind{Flaky}, Parks: true, Leases: 1, Dups: 1},
		{Name: "parked retries, log", Broker: Log, Workers: 2, Messages: []Kind{Flaky}, Parks: true, Rebalances: 1, Lates: 1},
		{Name: "killer", Workers: 1, Messages: []Kind{Killer, Innocent}, Crashed: []int{2, 2}},
		{Name: "no clock", Watched: true, Workers: 1, Messages: []Kind{Flaky}, Losses: 1, Crashes: 1, Lates: 1},
		{Name: "no clock, two workers", Watched: true, Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Lates: 1},
		{Name: "no clock, transactions", Watched: true, Workers: 1, Messages: []Kind{Flaky}, Tx: true, Crashes: 1, Lates: 1, Attempts: 1},
		{Name: "no clock, log", Watched: true, Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Rebalances: 1, Lates: 1},
	}
}

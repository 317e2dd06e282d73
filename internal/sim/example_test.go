package sim_test

import (
	"fmt"

	"github.com/ackledger/ackledger/internal/sim"
)

func ExampleRun() {
	cfg := sim.Drawn(7) // of any kind
	cfg.Partitions, cfg.Messages, cfg.Moods = 2, 30, sim.Config{}.Moods
	r, err := sim.Run(cfg)
	fmt.Println(r.Messages, "messages,", err)
	// Output: 60 messages, <nil>
}

package main

import (
	"context"
	"fmt"
	"time"
)

// overdueAfter is how long what is parked may be due before it is worth a word.
const overdueAfter = 10 * time.Minute

// visitParked looks for what is parked and due, and not taken.
func visitParked(ctx context.Context, l any, f *findings) {
	const check = "parked"
	all, err := countParked(ctx, l)
	if err != nil {
		f.add(unknown, check, "what is parked could not be counted: "+err.Error(), "")
		return
	}
	if all == nil {
		f.add(good, check, "this ledger parks no messages: long retries wait in the workers' memory", "")
		return
	}
	n, late := int64(0), 0
	for scope, s := range sortedParked(all) {
		if n += s.Messages; s.Overdue > overdueAfter {
			late++
			f.add(warning, check, fmt.Sprintf("%s messages of %s are parked, and one has been due for %s: no worker of the scope takes them",
				count(s.Messages), text(scope), short(s.Overdue)),
				"start workers of the scope, see that they are ready and not paused, and that their Options.NoParking is not set")
		}
	}
	if late == 0 {
		f.add(good, check, count(n)+" messages are parked, and none has been due for long", "")
	}
}

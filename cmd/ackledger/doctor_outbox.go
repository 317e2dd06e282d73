package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// What is worth a word of an outbox.
const (
	outboxUntaken = time.Minute      // nobody took a lane for so long: relays take one within a second or two
	outboxOld     = 10 * time.Minute // a message waits for so long
)

// visitOutbox looks at what was published and is not sent: what nobody relays, and what waits although somebody does.
func visitOutbox(ctx context.Context, l opened, f *findings) {
	const check = "outbox"
	box, ok := l.(ledger.Outbox)
	if !ok {
		return
	}
	all, err := box.OutboxStats(ctx)
	if errors.Is(err, ledger.ErrNoOutbox) {
		return
	}
	if err != nil {
		f.add(unknown, check, err.Error(), "see the error")
		return
	}
	if len(all) == 0 {
		f.add(good, check, "nothing waits to be sent", "")
	}
	for i := range all {
		s := &all[i]
		text := fmt.Sprintf("%s messages for target %q wait to be sent, the oldest for %s", count(s.Waiting), s.Target, short(s.Oldest))
		switch {
		case s.Untaken > outboxUntaken:
			f.add(problem, check, fmt.Sprintf("%s: for %s nobody has relayed them", text, short(s.Untaken)),
				"run a worker whose Options.Relay names the target, or one of package outbox")
		case s.Oldest > outboxOld:
			f.add(warning, check, fmt.Sprintf("%s; %s of them were refused", text, count(s.Failing)),
				"`ackledger list --outbox` shows the errors; if there are none, the target is away or the relays are too slow: see their logs")
		default:
			f.add(good, check, text, "")
		}
	}
}

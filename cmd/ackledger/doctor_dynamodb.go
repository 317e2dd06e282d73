package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ackledger/ackledger/ledger/dynamodb"
)

// visitTable looks at how a table of DynamoDB is set up. The ledger is open, so its keys, indexes and replicas fit.
func visitTable(ctx context.Context, t *target, table string, f *findings) {
	client, err := t.cloud.tables(ctx)
	if err != nil {
		f.add(unknown, "tables", err.Error(), "see the error")
		return
	}
	s, err := dynamodb.Inspect(ctx, client, table)
	if err != nil {
		f.add(unknown, "tables", err.Error(), "ask with a role that may DescribeTable and DescribeTimeToLive")
		return
	}
	gradeTable(table, &s, f)
}

func gradeTable(table string, s *dynamodb.Setup, f *findings) {
	const active = "ACTIVE"
	usable := s.Status == active
	text := fmt.Sprintf("the table %s of DynamoDB is %s", table, s.Status)
	if s.Replicas > 0 {
		text += fmt.Sprintf(", with %d replicas in other regions, strongly consistent", s.Replicas)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Indexes)) {
		if state := s.Indexes[name]; state != active {
			usable = false
			text += fmt.Sprintf(", its index %s %s", name, state)
		}
	}
	if usable {
		f.add(good, "tables", text, "")
	} else {
		f.add(problem, "tables", text, "wait until it is ACTIVE; workers stand still meanwhile, and lists lack what an index lacks")
	}
	if s.OnDemand {
		f.add(good, "capacity", "it is paid by request", "")
	} else {
		f.add(note, "capacity", "its capacity is provisioned: what is above it is throttled, and workers go slower", "watch ThrottledRequests, or switch to on-demand")
	}
	if s.TTL {
		f.add(good, "ttl", "what is over goes by itself", "")
	} else {
		f.add(warning, "ttl", "TTL is off: what is over goes by the sweep alone, which is paid for", "run `ackledger migrate`, which switches it on")
	}
	switch {
	case s.Recovery == nil:
		f.add(note, "recovery", "whether it can be restored to a moment was not said", "ask with a role that may DescribeContinuousBackups")
	case !*s.Recovery:
		f.add(warning, "recovery", "it cannot be restored to a moment: point-in-time recovery is off", "run `ackledger migrate`, which switches it on")
	default:
		f.add(good, "recovery", "it can be restored to any moment of the last 35 days", "")
	}
	if !s.Protected {
		f.add(note, "protection", "whoever may delete tables can delete it at once", "switch deletion protection on")
	}
}

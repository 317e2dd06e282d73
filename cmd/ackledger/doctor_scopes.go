package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// visitScopes looks for a source that is consumed under more than one name. The consumers of a queue share its messages, so
// whoever has another name does again what came back; groups of a topic have all of its messages each.
func visitScopes(s *ledger.Stats, f *findings) {
	const check = "names"
	consumers := map[string][]string{}
	for i := range s.Scopes {
		if source, consumer, ok := replay.ParseScope(s.Scopes[i].Scope); ok {
			consumers[source] = append(consumers[source], consumer)
		}
	}
	double := 0
	for _, source := range slices.Sorted(maps.Keys(consumers)) {
		names := consumers[source]
		if len(names) < 2 {
			continue
		}
		double++
		slices.Sort(names)
		text := fmt.Sprintf("%s is consumed under %d names: %s", source, len(names), strings.Join(names[:min(len(names), 5)], ", "))
		if strings.HasPrefix(source, "arn:") {
			f.add(warning, check, text+": what one has done, the others do again when it is delivered again",
				"give all workers of the queue one Config.Name; a worker that was renamed knows nothing that was done under the old name")
		} else {
			f.add(note, check, text, "none if each is a consumer group that wants all messages; a group that was renamed knows nothing that was done under the old name")
		}
	}
	if double == 0 {
		f.add(good, check, "no source is consumed under two names, as the last pass of the sweep saw them", "")
	}
}

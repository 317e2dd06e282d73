package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// weighTimeout bounds the weighing of an archive of any size. Without a deadline of ours it has one that workers need.
const weighTimeout = time.Hour

// deadLetters counts the archived deliveries of one scope and kind.
type deadLetters struct {
	Scope     string `json:"scope"`
	Kind      string `json:"kind"`
	Failed    int64  `json:"failed"` // their message still is
	Pending   int64  `json:"pending"`
	Succeeded int64  `json:"succeeded"`
	Gone      int64  `json:"gone"`     // the archive alone is left
	Replayed  int64  `json:"replayed"` // at least once, as far as operators said so
	Renewed   int64  `json:"renewed"`  // of the failed: renewed, and not run since
}

// countDeadLetters reads the archive without bodies.
func countDeadLetters(ctx context.Context, op ledger.Operator) ([]deadLetters, error) {
	type name struct {
		scope string
		kind  ledger.FailureKind
	}
	counted := map[name]*deadLetters{}
	for d, err := range op.DeadLetters(ctx, ledger.Filter{}) {
		if err != nil {
			return nil, err
		}
		n := name{d.Key.Scope, d.Kind}
		c := counted[n]
		if c == nil {
			c = &deadLetters{Scope: text(n.scope), Kind: text(string(n.kind))}
			counted[n] = c
		}
		switch d.Status.State {
		case ledger.Failed:
			c.Failed++
		case ledger.Pending:
			c.Pending++
		case ledger.Succeeded:
			c.Succeeded++
		default:
			c.Gone++
		}
		if !d.Replayed.IsZero() {
			c.Replayed++
		}
		if replay.Renewed(&d) {
			c.Renewed++
		}
	}
	out := make([]deadLetters, 0, len(counted))
	for _, c := range slices.SortedFunc(maps.Values(counted), func(a, b *deadLetters) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Kind, b.Kind))
	}) {
		out = append(out, *c)
	}
	return out, nil
}

// archivedBytes is about what one scope has in the archive, as consumer.Options.ArchiveBudget counts it.
type archivedBytes struct {
	Scope string `json:"scope"`
	Bytes int64  `json:"bytes"`
}

// weighArchive weighs the archive, scope by scope. Those of which nothing is archived are left out.
func weighArchive(ctx context.Context, l opened) ([]archivedBytes, error) {
	ctx, cancel := context.WithTimeout(ctx, weighTimeout)
	defer cancel()
	scopes, err := l.Scopes(ctx)
	if err != nil {
		return nil, err
	}
	var out []archivedBytes
	for _, scope := range scopes {
		n, err := l.ArchivedBytes(ctx, scope, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			out = append(out, archivedBytes{text(scope), n})
		}
	}
	return out, nil
}

func printDeadLetters(out io.Writer, list []deadLetters, bytes []archivedBytes) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ndead letters\tfailed\tpending\tsucceeded\tgone\treplayed\trenewed\t  scope")
	for _, c := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", c.Kind, count(c.Failed), count(c.Pending), count(c.Succeeded),
			count(c.Gone), count(c.Replayed), count(c.Renewed), c.Scope)
	}
	fmt.Fprintln(w, "\narchived\t  scope")
	for _, a := range bytes {
		fmt.Fprintf(w, "%s\t  %s\n", size(a.Bytes), a.Scope)
	}
	return w.Flush()
}

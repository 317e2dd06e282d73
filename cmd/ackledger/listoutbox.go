package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
)

// queuedJSON is a message of the outbox for programs.
type queuedJSON struct {
	Num     int64           `json:"num"`
	Target  string          `json:"target"`
	ID      string          `json:"id"`
	Key     []byte          `json:"key,omitempty"` // in base64
	At      *time.Time      `json:"at"`
	Tries   int             `json:"tries"`
	Due     *time.Time      `json:"due,omitempty"`
	Error   string          `json:"error,omitempty"`
	Bytes   int             `json:"bytes"`
	Content *deadLetterBody `json:"content,omitempty"` // asked for
}

func newQueued(q *ledger.Queued) queuedJSON {
	out := queuedJSON{Num: q.Num, Target: text(q.Target), ID: text(q.ID), Key: q.Key, At: stamp(q.At), Tries: q.Tries, Due: stamp(q.Due),
		Error: text(q.Error), Bytes: q.Size}
	if q.Body != nil || q.Headers != nil {
		out.Content = newContent(&ledger.Archive{Body: q.Body, Headers: q.Headers})
	}
	return out
}

const queuedHead = "written\ttarget\ttries\tdue\tbytes\tkey\tid\tlast error"

func queuedLine(q *ledger.Queued) string {
	due, last := "now", "-"
	if !q.Due.IsZero() {
		due = q.Due.UTC().Format(time.RFC3339)
	}
	if q.Error != "" {
		last = lastError([]ledger.AttemptError{{Error: q.Error}})
	}
	key := "-"
	if len(q.Key) > 0 {
		key = text(string(q.Key))
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s", q.At.UTC().Format(time.RFC3339), text(q.Target), q.Tries, due, q.Size, key, text(q.ID), last)
}

// outbox lists what waits to be sent, in the order in which it was written.
func (l *list) outbox(ctx context.Context, op ledger.Operator, out io.Writer) error {
	box, ok := op.(ledger.Outbox)
	if !ok {
		return ledger.ErrNoOutbox
	}
	return show(out, l, queued(ctx, box, l.body), queuedHead, queuedLine, newQueued)
}

// queued reads an outbox page by page.
func queued(ctx context.Context, box ledger.Outbox, bodies bool) iter.Seq2[ledger.Queued, error] {
	return func(yield func(ledger.Queued, error) bool) {
		for after := int64(0); ; {
			page, err := box.ListOutbox(ctx, "", after, listPage, bodies)
			if err != nil {
				yield(ledger.Queued{}, err)
				return
			}
			for _, q := range page {
				if after = q.Num; !yield(q, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
		}
	}
}

// onlyOutbox refuses filters beside --outbox: what waits to be sent is no message of a scope.
func onlyOutbox(cmd *cobra.Command) error {
	for _, name := range []string{"scope", "error", "id", "offsets", "since", "until", "kind", "header", "key", "state", "stuck", "renewed"} {
		if cmd.Flags().Changed(name) {
			return usage("--outbox lists all that waits: not with --%s", name)
		}
	}
	return nil
}

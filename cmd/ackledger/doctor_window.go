package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs"
)

const (
	// recently is how old what tells of a worker's window may be: it may have been started with another one since.
	recently = 24 * time.Hour
	// someRows of a scope tell of it.
	someRows = 20
)

// visitTarget looks at where Options.DeadLetter sends, and returns how long a copy may lie there.
func (d *doctor) visitTarget(ctx context.Context, f *findings) time.Duration {
	if d.deadLetter == "" {
		return 0
	}
	const check = "dead letters"
	where := text(d.deadLetter)
	keeps, err := d.targetKeeps(ctx)
	switch {
	case err == nil && keeps <= ledger.MaxWindow/2:
		f.add(good, check, where+" keeps them for "+short(keeps), "")
		return keeps
	case err == nil || errors.Is(err, consumer.ErrUnbounded):
		f.add(warning, check, where+" may keep them for ever, or does not say how long: copies may come back from there for as long",
			"set Config.Window and Config.AllowShortWindow to say how long finished messages are recognised, or give it a retention")
	default:
		f.add(problem, check, where+": "+err.Error(), "check its name, and sqs:GetQueueUrl and sqs:GetQueueAttributes on a queue, Describe and DescribeConfigs on a topic")
	}
	return 0
}

// targetKeeps asks the target as a worker does.
func (d *doctor) targetKeeps(ctx context.Context) (time.Duration, error) {
	kind, name, _ := strings.Cut(d.deadLetter, ":")
	var target interface {
		consumer.DeadLetterer
		consumer.Retainer
	}
	if kind == "sqs" {
		client, url, err := d.queue(ctx, name)
		if err == nil {
			target, err = sqs.NewDeadLetterQueue(client, url)
		}
		if err != nil {
			return 0, err
		}
	} else {
		client, err := d.brokers.client()
		if err != nil {
			return 0, err
		}
		defer client.Close()
		if target, err = kafka.NewDeadLetterTopic(client, name); err != nil {
			return 0, err
		}
	}
	if _, err := target.Source(ctx); err != nil {
		return 0, err
	}
	return target.Retention(ctx)
}

// visitWindow compares for how long a message may come again with how long the ledger recognises the youngest ones of the
// source: look says that of a scope, zero if there are none.
func (d *doctor) visitWindow(ctx context.Context, op ledger.Operator, prefix, name string, need time.Duration,
	look func(context.Context, ledger.Operator, string) (time.Duration, error), f *findings,
) {
	if op == nil {
		return
	}
	const patience = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	scopes, err := op.Scopes(ctx)
	if err != nil {
		f.add(unknown, name, "the ledger's scopes: "+err.Error(), "see the error")
		return
	}
	const unseen = "workers check it when they start; look again once they have finished messages"
	known := false
	for _, scope := range scopes {
		if !strings.HasPrefix(scope, prefix) {
			continue
		}
		known = true
		window, err := look(ctx, op, scope)
		switch {
		case err != nil:
			f.add(unknown, name, "the window of "+text(scope)+": "+err.Error(), "see the error")
		case window == 0:
			f.add(note, name, text(scope)+" has had no message in the last day: its window was not seen", unseen)
		case window < need.Truncate(time.Second):
			f.add(problem, name, fmt.Sprintf("%s keeps finished messages for %s, but one may come again for %s: it would run twice",
				text(scope), short(window), short(need)), "restart the workers, which read the retention when they start; if Options.Window is set, remove it")
		default:
			says := fmt.Sprintf("%s recognises messages for %s", text(scope), short(window))
			if d.deadLetter == "" {
				says += " (--dead-letter says where Options.DeadLetter sends: that was not looked at)"
			}
			f.add(good, name, says, "")
		}
	}
	if !known {
		f.add(note, name, "the ledger has never seen a worker of it: no window was compared", unseen)
	}
}

// windowOf is the shortest window of some rows of a scope that were claimed within a day; zero: there is none. A row is kept for its window
// at least. What was parked or archived is kept for longer, and says nothing of the others.
func windowOf(ctx context.Context, op ledger.Operator, scope string) (window time.Duration, err error) {
	for m, err := range op.Messages(ctx, ledger.Filter{Scope: scope, From: time.Now().Add(-recently), Limit: someRows}) {
		if err != nil {
			return 0, err
		}
		if kept := m.Expiry.Sub(m.At).Round(time.Second); m.Parked == nil && (window == 0 || kept < window) {
			window = kept
		}
	}
	return window, nil
}

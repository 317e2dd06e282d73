package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	maxRetention = 14 * 24 * time.Hour // of any queue (developer guide, "Amazon SQS message quotas")
	maxMessage   = 1 << 20             // bytes of any message, attributes included (the same)
	traceBytes   = 1 << 10             // what the trace header adds to that, at most
	groupBytes   = 128                 // of a MessageGroupId, at most
	spareCount   = 10                  // receives beside attempts and crashes: shutdowns, expired handles
	unredriven   = "the queue has no redrive policy: a message that the ledger cannot archive comes back until its retention is over"
)

// queue is what Run reads of the queue before it begins.
type queue struct {
	arn       string
	scope     string        // of the ledger: consumer's name and queue
	lanes     *engine.Lanes // of its groups; nil: they are never parked
	fifo      bool
	retention time.Duration
	maxBytes  int
	redrive   *redrive      // nil: none
	target    time.Duration // for which Options.DeadLetter keeps messages
	unbounded string        // why that has no bound; empty: it has
	window    time.Duration
	warnings  []string
}

// redrive is the queue's RedrivePolicy.
type redrive struct {
	Target string      `json:"deadLetterTargetArn"`
	Count  json.Number `json:"maxReceiveCount"` // a number, or one in quotes

	max       int
	retention time.Duration // of the dead-letter queue
}

// deadline is when SQS forgets a message, less a margin in which it can still be settled; zero: not known.
func (q *queue) deadline(sent time.Time) time.Time {
	if sent.IsZero() {
		return time.Time{}
	}
	return sent.Add(q.retention - min(5*time.Minute, q.retention/10))
}

// readQueue reads the queue's attributes, and those of its dead-letter queue. What cannot heal is returned as it is, in
// the words of the service.
func (w *Worker) readQueue(ctx context.Context) (*queue, error) {
	out, err := attributesOf(ctx, w.client, w.url, types.QueueAttributeNameAll)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", w.url, err)
	}
	q, err := parseQueue(out.Attributes)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", w.url, err)
	}
	w.askTarget(ctx, q)
	if q.redrive == nil {
		return q, nil
	}
	if q.redrive.retention, err = w.deadRetention(ctx, q.redrive.Target); err != nil {
		if !kindOf(err).final() {
			return nil, fmt.Errorf("dead-letter queue %s: %w", q.redrive.Target, err)
		}
		q.redrive.retention = maxRetention
		q.warn("dead-letter queue %s cannot be read, its retention counts as %s: %v", q.redrive.Target, maxRetention, err)
	}
	return q, nil
}

// askTarget asks how long dead letters stay where Options.DeadLetter sends them.
func (w *Worker) askTarget(ctx context.Context, q *queue) {
	var err error
	q.target, err = engine.TargetRetention(ctx, &w.set.Options)
	switch {
	case err == nil:
	case errors.Is(err, consumer.ErrUnbounded):
		q.unbounded = err.Error()
	default:
		q.warn("how long dead letters stay where they go is not known, and not part of the window: %v", err)
	}
}

// deadRetention reads the retention of a queue that is named by its ARN.
func (w *Worker) deadRetention(ctx context.Context, arn string) (time.Duration, error) {
	account, name, ok := splitARN(arn)
	if !ok {
		return maxRetention, nil
	}
	url, err := urlOf(ctx, w.client, account, name)
	if err != nil {
		return 0, err
	}
	out, err := attributesOf(ctx, w.client, url, types.QueueAttributeNameAll)
	if err != nil {
		return 0, err
	}
	keeps, _ := retentionOf(out.Attributes)
	return keeps, nil
}

// splitARN reads account and name of arn:partition:sqs:region:account:name.
func splitARN(arn string) (account, name string, ok bool) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[5] == "" {
		return "", "", false
	}
	return parts[4], parts[5], true
}

// retentionOf reads for how long a queue keeps messages: SQS's longest, and false, if that cannot be read.
func retentionOf(attributes map[string]string) (time.Duration, bool) {
	n, err := strconv.Atoi(attributes[string(types.QueueAttributeNameMessageRetentionPeriod)])
	if err != nil || n <= 0 || n > int(maxRetention/time.Second) {
		return maxRetention, false
	}
	return time.Duration(n) * time.Second, true
}

// parseQueue reads what GetQueueAttributes answers. What compatible services leave out counts as SQS's maximum.
func parseQueue(attributes map[string]string) (*queue, error) {
	q := &queue{arn: attributes[string(types.QueueAttributeNameQueueArn)], maxBytes: maxMessage}
	if _, _, ok := splitARN(q.arn); !ok {
		return nil, fmt.Errorf("its ARN must have six parts, is %q", q.arn)
	}
	q.fifo = strings.HasSuffix(q.arn, ".fifo")
	var ok bool
	if q.retention, ok = retentionOf(attributes); !ok {
		q.warn("the queue's MessageRetentionPeriod cannot be read and counts as %s", maxRetention)
	}
	if n, err := strconv.Atoi(attributes[string(types.QueueAttributeNameMaximumMessageSize)]); err == nil && n > 0 {
		q.maxBytes = n
	}
	policy := attributes[string(types.QueueAttributeNameRedrivePolicy)]
	if policy == "" {
		return q, nil
	}
	r := &redrive{retention: maxRetention}
	if err := json.Unmarshal([]byte(policy), r); err != nil {
		return nil, fmt.Errorf("its RedrivePolicy is not readable: %w", err)
	}
	count, err := r.Count.Int64()
	if err != nil {
		return nil, fmt.Errorf("its RedrivePolicy is not readable: maxReceiveCount: %w", err)
	}
	r.max, q.redrive = int(count), r
	return q, nil
}

func (q *queue) warn(format string, args ...any) {
	q.warnings = append(q.warnings, fmt.Sprintf(format, args...))
}

// adopt checks the queue against the settings and the ledger: what could break a promise is refused by name, what is
// unwise is a warning.
func (w *Worker) adopt(q *queue) error {
	q.scope = scopeOf(q.arn, w.set.Name)
	if len(q.scope) > ledger.MaxScope {
		return fmt.Errorf("sqs: queue's ARN and Config.Name: must be at most %d bytes together, are %d", ledger.MaxScope, len(q.scope))
	}
	if have, need := w.ledger.Limits().Archive, q.maxBytes+traceBytes+groupBytes; have < need {
		return fmt.Errorf("sqs: queue %s: its MaximumMessageSize is %d, so the ledger must archive at least %d bytes of a failed "+
			"message (Limits.Archive), its limit is %d", q.arn, q.maxBytes, need, have)
	}
	dead := q.target
	if q.redrive == nil {
		q.warn(unredriven)
	} else {
		dead = max(dead, q.redrive.retention)
		if low := w.set.Attempts + ledger.CrashLimit + spareCount; q.redrive.max < low {
			q.warn("the queue's maxReceiveCount should be at least %d (Attempts, %d crashes and %d to spare), is %d: a message may "+
				"be dead-lettered by SQS before its handler has had all attempts", low, ledger.CrashLimit, spareCount, q.redrive.max)
		}
	}
	if whole := (backoff.Policy{Base: w.set.BackoffBase, Max: w.set.BackoffMax}).Whole(w.set.Attempts); q.retention < whole {
		q.warn("the queue keeps messages for %s, and the waits between %d attempts take up to %s together: SQS may delete a message before "+
			"its handler has had all attempts. Raise the queue's MessageRetentionPeriod", q.retention, w.set.Attempts, whole)
	}
	if err := w.adoptWindow(q, q.retention+dead); err != nil {
		return err
	}
	w.queue = q
	return nil
}

// adoptWindow sets how long finished messages are recognised, and what is bound to it. need is how long a message may come:
// from the queue, and afresh from where dead letters lie.
func (w *Worker) adoptWindow(q *queue, need time.Duration) error {
	q.window = w.set.Window
	switch {
	case q.unbounded != "" && (q.window == 0 || !w.set.AllowShortWindow):
		return fmt.Errorf("sqs: queue %s: Options.DeadLetter: %s: set Config.Window and Config.AllowShortWindow to say how long "+
			"finished messages are recognised", q.arn, q.unbounded)
	case q.unbounded != "":
		q.warn("Config.Window is %s, but %s", q.window, q.unbounded)
	case q.window == 0:
		q.window = need
	case q.window >= need:
	case !w.set.AllowShortWindow:
		return fmt.Errorf("sqs: queue %s: Config.Window: must be at least %s (retention of the queue and of where dead letters lie), "+
			"is %s; Config.AllowShortWindow accepts less", q.arn, need, q.window)
	default:
		q.warn("Config.Window is %s, but a message may come for %s", q.window, need)
	}
	if w.set.givenKeep != 0 && w.set.givenKeep < q.window {
		return fmt.Errorf("sqs: queue %s: Config.Keep: must be at least the window of %s, is %s", q.arn, q.window, w.set.givenKeep)
	}
	w.set.Window = q.window
	if w.set.givenKeep == 0 {
		w.set.Keep = max(consumer.DefaultKeep, q.window)
	}
	return nil
}

// lookForNames warns of other consumers of the queue that the ledger knows, as of the last pass of its sweep. It keeps nobody
// from working: a ledger that does not answer is seen with the first claim.
func (w *Worker) lookForNames(ctx context.Context) {
	l, ok := w.ledger.(ledger.Inspector)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := l.Stats(ctx)
	if err != nil {
		w.queue.warn("whether the queue is consumed under another name as well is not known: %v", err)
		return
	}
	for i := range s.Scopes {
		name, of := strings.CutPrefix(s.Scopes[i].Scope, scopeOf(w.queue.arn, ""))
		if of && name != w.set.Name {
			w.queue.warn("the ledger knows the queue's messages under the name %q too, and Config.Name is %q: what was done under one "+
				"name is done again under the other when it is delivered again; it is forgotten with the window", name, w.set.Name)
			return // of a thousand names one says it
		}
	}
}

// scopeOf joins the queue and the consumer's name so that no two pairs look alike: an ARN has no slash.
func scopeOf(arn, name string) string { return "sqs:" + arn + "/" + name }

// groupLanes begins the names of the lanes in which groups are parked.
const groupLanes = "group"

// lookForGroups has the ledger asked about the group of each message, if groups of the queue may be parked. Where some are, or that
// cannot be read, the setting is as if it were on: nothing runs ahead of what is parked.
func (w *Worker) lookForGroups(ctx context.Context) {
	if !w.queue.fifo {
		return
	}
	asks := w.set.ParkGroups
	if l, ok := w.ledger.(ledger.Parking); ok && !asks {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		const counts = "and Config.ParkGroups is off: it counts as on for this worker, so that nothing runs ahead of them. Set it on all workers of the queue"
		switch lanes, _, err := l.ParkedLanes(ctx, w.queue.scope, []byte(groupLanes+"/"), 1); {
		case err != nil:
			asks = true
			w.queue.warn("whether message groups of the queue are parked in the ledger is not known (%v), "+counts, err)
		case len(lanes) > 0:
			asks = true
			w.queue.warn("message groups of the queue are parked in the ledger, " + counts)
		}
	}
	if asks {
		w.queue.lanes = engine.NewSharedLanes(w.queue.scope, groupLanes)
	}
}

// learn reads the queue until it is read; what cannot heal is an error at once.
func (w *Worker) learn(ctx context.Context) error {
	for n := 1; ; n++ {
		q, err := w.readQueue(ctx)
		if err == nil {
			w.well(doLearn)
			if err := w.adopt(q); err != nil {
				return err
			}
			w.lookForGroups(ctx)
			w.lookForNames(ctx)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if kindOf(errors.Unwrap(err)).final() {
			return fmt.Errorf("sqs: %w", err)
		}
		w.trouble(doLearn, err)
		engine.Sleep(ctx, retryDelay(n))
	}
}

package replay_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// renewals counts what was renewed and has not run since.
func (q *queues) renewals() (n int) {
	q.t.Helper()
	for d, err := range q.ledger.DeadLetters(q.t.Context(), ledger.Filter{}) {
		if err != nil {
			q.t.Fatal(err)
		}
		if replay.Renewed(&d) {
			n++
		}
	}
	return n
}

// A replay with fresh keys was killed between the renewal and the send, and a person then redrove the queue with the console:
// the copies have the token from before, and are acknowledged without being run. Only the archive has the messages then, and
// nothing said so. They are found there, and run once under the renewed generation, however often they are sent.
func TestConsoleRedriveAfterAnUnsentRenewal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*replay.Config){
		"fresh keys": func(c *replay.Config) { c.FreshKeys = true },
		"mended":     func(c *replay.Config) { c.Mend, c.Body = true, []byte("order 0000, mended") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, want, left := newQueues(t, false), "order 0000", 0
			q.fail(numbered(1))
			q.replay(q.fromQueue(), &cutTarget{Target: q.toSource()}, func(c *replay.Config) {
				if change(c); c.Mend {
					// The copy has another body than the row now: a mismatch, which is a dead letter again.
					c.Filter.IDs, want, left = [][]byte{q.onlyID()}, string(c.Body), 1
				}
			})
			if n := q.renewals(); n != 1 {
				t.Errorf("%d are renewed and not run, want 1", n)
			}
			q.server.ExpireVisibility(q.names[1])
			from, to := q.arn(q.names[1]), q.arn(q.names[0])
			if _, err := q.client.StartMessageMoveTask(t.Context(), &awssqs.StartMessageMoveTaskInput{SourceArn: &from, DestinationArn: &to}); err != nil {
				t.Fatal(err)
			}
			q.worker()
			eventually(t, "the copy is acknowledged", func() bool {
				return q.server.Counts(q.names[0]).Depth() == 0 && q.server.Counts(q.names[1]).Depth() == left
			})
			if n := q.renewals(); q.book.count() != 0 || n != 1 {
				t.Fatalf("%d ran, %d are renewed and not run, want 0 and 1", q.book.count(), n)
			}
			for range 2 {
				if report := q.replay(replay.Renewals(q.ledger), q.toSource()); report.Replayed > 1 || report.Read > 1 {
					t.Errorf("%+v", report)
				}
			}
			eventually(t, "it is handled", func() bool { return q.book.count() > 0 && q.server.Counts(q.names[0]).Depth() == 0 })
			q.book.eachOnce(t, []string{want})
			if s := q.status(string(q.onlyID())); s.State != ledger.Succeeded || s.Generation != 1 || q.renewals() != 0 {
				t.Errorf("%+v, %d are renewed and not run", s, q.renewals())
			}
		})
	}
}

// onlyID is the id of the one message that failed.
func (q *queues) onlyID() []byte {
	q.t.Helper()
	for d, err := range q.ledger.DeadLetters(q.t.Context(), ledger.Filter{}) {
		if err != nil {
			q.t.Fatal(err)
		}
		return d.Key.ID
	}
	q.t.Fatal("nothing failed")
	return nil
}

// What was not renewed, was purged, or failed again after its renewal is none.
func TestRenewed(t *testing.T) {
	status := ledger.Status{State: ledger.Failed, Generation: 1, Token: 4, Delivery: []byte("d")}
	letter := func(change func(*ledger.DeadLetter)) *ledger.DeadLetter {
		d := &ledger.DeadLetter{Status: status}
		d.Delivery, d.Token = []byte("d"), 4
		change(d)
		return d
	}
	for name, c := range map[string]struct {
		change func(*ledger.DeadLetter)
		want   bool
	}{
		"renewed": {func(*ledger.DeadLetter) {}, true},
		"mended": {func(d *ledger.DeadLetter) {
			d.Delivery, d.Status.Delivery, d.Generation = acts.RenewedDelivery(4), acts.RenewedDelivery(4), 1
		}, true},
		"failed since":       {func(d *ledger.DeadLetter) { d.Generation = 1 }, false},
		"of another failure": {func(d *ledger.DeadLetter) { d.Delivery = []byte("before") }, false},
		"claimed":            {func(d *ledger.DeadLetter) { d.Status.State = ledger.Pending }, false},
		"purged":             {func(d *ledger.DeadLetter) { d.Purged = time.Now() }, false},
	} {
		if got := replay.Renewed(letter(c.change)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// bodySpy counts the bodies that are read.
type bodySpy struct {
	ledger.Operator
	asked, listed atomic.Int64
}

func (s *bodySpy) Get(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	rec, err := s.Operator.Get(ctx, key)
	for _, a := range rec.Archived {
		if a.Body != nil {
			s.asked.Add(1)
		}
	}
	return rec, err
}

func (s *bodySpy) DeadLetters(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		for d, err := range s.Operator.DeadLetters(ctx, f) {
			if d.Body != nil {
				s.listed.Add(1)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// A body may be 50 MB: a replay reads those that it sends, and no others.
func TestRenewalsReadNoOtherBodies(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail(numbered(4))
	key := ledger.Key{}
	for d, err := range q.ledger.DeadLetters(t.Context(), ledger.Filter{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		key = d.Key
	}
	if _, err := q.ledger.Renew(t.Context(), ledger.Renewal{Key: key, Token: 1, By: by}); err != nil {
		t.Fatal(err)
	}
	spy := &bodySpy{Operator: q.ledger}
	dry := func(c *replay.Config) { c.DryRun = true }
	if report := replayAll(t, spy, q.fromQueue(), q.toSource(), dry); report.Read != 4 {
		t.Errorf("from the queue: %+v", report)
	}
	if n := spy.asked.Load() + spy.listed.Load(); n != 0 {
		t.Errorf("from the queue: %d archived bodies were read, want 0", n)
	}
	if report := replayAll(t, spy, replay.Renewals(spy), q.toSource()); report.Read != 1 || report.Replayed != 1 {
		t.Errorf("of renewals: %+v", report)
	}
	if asked, listed := spy.asked.Load(), spy.listed.Load(); asked != 0 || listed != 1 {
		t.Errorf("of renewals: %d and %d archived bodies were read, want 0 and 1", asked, listed)
	}
}

package sqs

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// The handles of a FIFO group expire while its head is in a handler, and all of it is received again before the handler
// fails. The worker took the head's new copy for the old one, let go of that, and ran the rest of the group before it.
func TestGroupReceivedAgainKeepsItsOrder(t *testing.T) {
	s := newSite(t, ".fifo", 50)
	b := newBook()
	entered, fail := make(chan struct{}, 1), make(chan struct{})
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		b.add(m)
		if string(m.Body) == "g:0" && b.count("g:0") == 1 {
			entered <- struct{}{}
			<-fail
			return errors.New("the first attempt fails")
		}
		return nil
	}, nil)
	s.send("g:0", "g:1", "g:2")
	<-entered
	remove := s.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Code: sqstest.CodeInternal, Times: -1})
	eventually(t, "no poll is open", func() bool { return s.srv.Counts(s.name).Polls == 0 })
	s.srv.ExpireVisibility(s.name)
	eventually(t, "the group is let go of", func() bool { _, all := r.table.lanes(); return all == 1 })
	remove()
	eventually(t, "all of the group is received again", func() bool {
		again := 0
		for _, m := range s.srv.Queue(s.name).Messages {
			if m.Receives >= 2 {
				again++
			}
		}
		return again == 3
	})
	close(fail)
	eventually(t, "all are handled", func() bool { return b.len() == 3 })
	s.empty()
	r.end()
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := []string{"g:0", "g:0", "g:1", "g:2"}; !slices.Equal(b.list, want) {
		t.Errorf("handled in the order %v, want %v", b.list, want)
	}
}

// A group lapses while a message of it is on its way to the engine, which is then told to let go of what it does not have
// yet. The message waited for a handler, extended all the time, and SQS gave nobody the rest of its group.
func TestWhatLapsesOnItsWayToTheEngineIsLetGoOf(t *testing.T) {
	s := newSite(t, ".fifo", 50)
	b := newBook()
	c := steady()
	var w *Worker
	var lapse atomic.Bool
	c.KeyFunc = func(m *consumer.Message) (string, error) {
		if lapse.Swap(false) {
			w.Pause()
			var drops []*visibility.Hold
			w.table.use(func(v *visibility.Table) { _, drops = v.Plan(w.table.now()+time.Hour, true, 0) })
			w.drop(drops)
		}
		return m.ID, nil
	}
	lapse.Store(true)
	w = s.worker(b.handle, c)
	s.send("g:0")
	r := runWorker(t, w)
	eventually(t, "the message is received", func() bool { return s.srv.Queue(s.name).Messages[0].Receives == 1 })
	r.pollsNoMore()
	eventually(t, "it is let go of", func() bool { _, all := w.table.lanes(); return all == 0 })
	w.Resume()
	eventually(t, "it is handled", func() bool { return b.len() == 1 })
	s.empty()
	r.end()
}

package engine_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// Finish implements engine.Sink.
func (w *stormWorker) Finish(done []engine.Finished) {
	s := w.storm
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range done {
		if f.Stretch == nil {
			w.finished(f.Item.Ref.(*offering), f.Item.Key, f.Verdict)
			continue
		}
		s.whole += f.N
		r := f.Stretch.Records.(*stormRecords)
		for i := range f.N {
			w.finished(r.offers[i], r.log.key(r.offsets[i]), f.Verdict)
		}
	}
}

func (w *stormWorker) finished(o *offering, key ledger.Key, v engine.Verdict) {
	s := w.storm
	if o.told {
		s.t.Errorf("message %s was finished twice", o.id)
	}
	if !o.passed.IsZero() && !o.passed.Equal(time.Now()) {
		s.t.Errorf("message %s was in hand for %v after one that came later in lane %s had begun", o.id, time.Since(o.passed), o.lane)
	}
	o.told = true
	w.order[o.lane] = slices.DeleteFunc(w.order[o.lane], func(p *offering) bool { return p == o })
	delete(s.out, o)
	if !v.Ack || w.killed {
		return
	}
	if rec, err := s.l.Get(context.Background(), key); err != nil || rec.State == ledger.Pending {
		s.t.Errorf("message %s was acknowledged while its row is %v, %v", o.id, rec.State, err)
	}
	s.acked[o.id] = true
}

// pends says whether a message is not terminal. One that is, the engine may have let go of in this moment.
func (s *storm) pends(id string) bool {
	rec, err := s.l.Get(context.Background(), s.key(id))
	return err != nil || rec.State == ledger.Pending
}

// begins checks that nothing that a worker was given before in the same lane is in its hands. What was dropped may be let go of
// in this moment.
func (w *stormWorker) begins(id string) {
	lane := w.storm.lane(id)
	for _, o := range w.order[lane] {
		switch {
		case lane == "" || o.id == id:
			return
		case o.ok || !w.storm.pends(o.id) || !slices.ContainsFunc(w.order[lane], func(o *offering) bool { return o.id == id }):
		case o.dropped && (o.passed.IsZero() || o.passed.Equal(time.Now())):
			o.passed = time.Now()
		default:
			w.storm.t.Errorf("message %s runs before %s, which came before it in lane %s", id, o.id, lane)
			return
		}
	}
}

// ended notes that a handler succeeded.
func (w *stormWorker) ended(id string) {
	w.storm.finished[id]++
	for _, o := range w.order[w.storm.lane(id)] {
		o.ok = o.ok || o.id == id
	}
}

// lane orders half of the messages.
func (s *storm) lane(id string) string {
	if n := id[len(id)-1]; n < '5' && !s.together {
		return id[:1] + string(n)
	}
	return ""
}

// check looks at what is left when all is over.
func (s *storm) check() {
	t := s.t
	pass(2 * time.Minute)
	if left := s.pending(); len(left) > 0 {
		for _, w := range s.workers {
			t.Logf("%s: load %+v, open %v", w.net.owner(), w.Load(), w.Open())
		}
		rec, _ := s.l.Get(t.Context(), s.key(left[0]))
		t.Errorf("%d messages never ended: %v; the first: %+v", len(left), left, rec)
	}
	for _, w := range s.workers {
		for _, order := range w.order {
			for _, o := range order {
				t.Errorf("message %s was never let go of; one that came later began: %v", o.id, !o.passed.IsZero())
			}
		}
		if load := w.Load(); load != (engine.Load{}) {
			t.Errorf("%s still holds: %+v", w.net.owner(), load)
		}
		if err := errors.Join(w.Drain(t.Context()), w.Close(t.Context())); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	for _, id := range s.ids {
		rec, err := s.l.Get(t.Context(), s.key(id))
		if err != nil || rec.Owner != "" || rec.State == ledger.Pending {
			t.Errorf("message %s: row %v of %q, %v", id, rec.State, rec.Owner, err)
			continue
		}
		if rec.Attempts > s.failures[id] {
			t.Errorf("message %s: %d attempts counted, the handler failed %d times", id, rec.Attempts, s.failures[id])
		}
		if rec.State == ledger.Succeeded && s.finished[id] == 0 {
			t.Errorf("message %s succeeded and no handler did", id)
		}
		if rec.State == ledger.Failed && !s.terminal(id) && rec.Crashes < ledger.CrashLimit {
			t.Errorf("message %s failed: %+v", id, rec)
		}
		if rec.State == ledger.Failed && (len(rec.Archived) != 1 || string(rec.Archived[0].Body) != "body of "+id) {
			t.Errorf("message %s: %d archived", id, len(rec.Archived))
		}
	}
}

package web

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

const (
	sampleEvery = 2 * time.Second  // the ledger is asked no more often, however many look
	rateOver    = 30 * time.Second // workers report with their beats, so rates are over some of these
	history     = 10 * time.Minute
	maxSamples  = int(history / sampleEvery)
	maxCharts   = 50 // scopes that have a history
)

// sampler asks the ledger how it does, for all viewers together, and only while there is one: who comes first after sampleEvery asks.
type sampler struct {
	mu    sync.Mutex
	tried time.Time
	last  *sample // nil: the last try failed
	err   error
	past  []counted // oldest first
}

// sample is how everything was at one moment.
type sample struct {
	At      time.Time // by this process's clock
	Scopes  []string
	Stats   *ledger.Stats
	Workers []ledger.WorkerStatus
	Pauses  []ledger.Pause
	Parked  map[string]ledger.ParkedStats
	Rates   map[string]rates // by scope
	Charts  map[string][]float64
}

// counted is what is kept of a sample.
type counted struct {
	at     time.Time
	owners map[string]counts
	rates  map[string]float64 // of what ended, by scope
}

type counts struct {
	scope                       string
	ended, failed, retried, dup int64
}

// rates are of one scope, in a second.
type rates struct{ Ended, Failed, Retried, Duplicates float64 }

// sample returns one that is at most sampleEvery old, or the error of the last try: viewers of a ledger that does not answer do not
// wait for it one after the other.
func (u *UI) sample(ctx context.Context) (*sample, error) {
	s := &u.sampler
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.tried) >= sampleEvery {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout) // it is for others, too
		defer cancel()
		if s.last, s.err = u.ask(ctx); s.err == nil {
			s.add(s.last)
		}
		s.tried = time.Now()
	}
	return s.last, s.err
}

// ask makes a sample.
func (u *UI) ask(ctx context.Context) (*sample, error) {
	next := &sample{At: time.Now()}
	var err error
	if next.Scopes, err = u.op.Scopes(ctx); err != nil {
		return nil, err
	}
	if u.stats != nil {
		stats, err := u.stats.Stats(ctx)
		if err != nil {
			return nil, err
		}
		next.Stats = &stats
	}
	if p, ok := u.op.(ledger.ParkingOperator); ok {
		next.Parked, err = p.CountParked(ctx)
		if _, parksNot := errors.AsType[*ledger.InvalidError](err); err != nil && !parksNot {
			return nil, err
		}
	}
	if u.board != nil {
		if next.Workers, err = u.board.Workers(ctx); err != nil {
			return nil, err
		}
		if next.Pauses, err = u.board.Pauses(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(next.Workers, func(a, b ledger.WorkerStatus) int {
		return cmp.Or(cmp.Compare(a.Report.Scope, b.Report.Scope), cmp.Compare(a.Fate, b.Fate), cmp.Compare(a.Owner, b.Owner))
	})
	return next, nil
}

// add reckons rates from the difference to an earlier sample.
func (s *sampler) add(next *sample) {
	now := counted{at: next.At, owners: map[string]counts{}, rates: map[string]float64{}}
	for i := range next.Workers {
		w := &next.Workers[i]
		r := &w.Report
		now.owners[w.Owner] = counts{r.Scope, r.Succeeded + r.Failed, r.Failed, r.Retried, r.Duplicates}
	}
	s.past = slices.DeleteFunc(s.past, func(c counted) bool { return now.at.Sub(c.at) > history })
	next.Rates = map[string]rates{}
	if before := s.before(now.at); before != nil {
		next.Rates = between(before, &now)
	}
	for scope, r := range next.Rates {
		if len(now.rates) < maxCharts {
			now.rates[scope] = r.Ended
		}
	}
	s.past = append(s.past, now)
	if more := len(s.past) - maxSamples; more > 0 {
		s.past = slices.Delete(s.past, 0, more)
	}
	next.Charts = s.charts()
}

// before is the sample that rates are reckoned from: the oldest of the last rateOver.
func (s *sampler) before(now time.Time) *counted {
	for i := range s.past {
		if now.Sub(s.past[i].at) <= rateOver {
			return &s.past[i]
		}
	}
	return nil
}

// between says how fast counts grew. A worker that was not there before has no rate yet.
func between(before, now *counted) map[string]rates {
	out := map[string]rates{}
	seconds := now.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return out
	}
	per := func(is, was int64) float64 { return float64(max(is-was, 0)) / seconds }
	for owner, is := range now.owners {
		was, ok := before.owners[owner]
		if !ok {
			continue
		}
		r := out[is.scope]
		r.Ended += per(is.ended, was.ended)
		r.Failed += per(is.failed, was.failed)
		r.Retried += per(is.retried, was.retried)
		r.Duplicates += per(is.dup, was.dup)
		out[is.scope] = r
	}
	return out
}

func (s *sampler) charts() map[string][]float64 {
	out := map[string][]float64{}
	for _, c := range s.past {
		for scope := range c.rates {
			out[scope] = nil
		}
	}
	for scope := range maps.Keys(out) {
		for _, c := range s.past {
			out[scope] = append(out[scope], c.rates[scope])
		}
	}
	return out
}

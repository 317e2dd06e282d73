package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
)

// nowData is the first page.
type nowData struct {
	At      time.Time
	Counted time.Time // when Scopes were counted; zero: never
	Age     time.Duration
	Scopes  []scopeRow
	Owners  ledger.OwnerStats
	Tables  []ledger.TableStats
	Waits   int64
	Workers []workerRow
	Pauses  []ledger.Pause
	Board   bool
	Names   []string // of scopes that the viewer may pause
}

type scopeRow struct {
	ledger.ScopeStats
	Counted bool // by the last pass
	Rates   rates
	Chart   []float64
	Dedup   float64 // percent
	Paused  *ledger.Pause
	Parked  ledger.ParkedStats
}

// Permits says that the scope's rows are permits, and no messages.
func (r scopeRow) Permits() bool { return r.Scope == ledger.PermitScope }

type workerRow struct {
	ledger.WorkerStatus
	Fate   string
	Scopes []string
}

// now shows how everything does at this moment.
func (v *visit) now() error {
	p, err := v.nowPage()
	if err != nil {
		return err
	}
	return v.show(p)
}

func (v *visit) nowPage() (*page, error) {
	s, err := v.sample(v.ctx())
	if err != nil {
		return nil, err
	}
	return &page{Name: "now", Title: "Now", Live: "live", Refresh: 5, Data: v.nowData(s)}, nil
}

// nowData leaves out what the viewer may not see.
func (v *visit) nowData(s *sample) *nowData {
	d := &nowData{At: s.At, Board: v.board != nil}
	rows := map[string]*scopeRow{}
	row := func(scope string) *scopeRow {
		r := rows[scope]
		if r == nil {
			r = &scopeRow{Rates: s.Rates[scope], Chart: s.Charts[scope], Parked: s.Parked[scope]}
			r.Scope = scope
			if p, ok := ledger.PausedBy(s.Pauses, scope); ok {
				r.Paused = &p
			}
			rows[scope] = r
		}
		return r
	}
	for _, name := range s.Scopes[:min(len(s.Scopes), ledger.MaxStatScopes)] {
		row(name)
	}
	if s.Stats != nil {
		d.Counted, d.Age, d.Owners, d.Tables, d.Waits = s.Stats.At, s.Stats.Age, s.Stats.Owners, s.Stats.Tables, s.Stats.LockWaits
		for _, c := range s.Stats.Scopes {
			r := row(c.Scope)
			r.ScopeStats, r.Counted = c, true
		}
		for i := range s.Stats.Deliveries {
			c := &s.Stats.Deliveries[i]
			row(c.Scope).Dedup = 100 * c.DedupRate()
		}
	}
	for _, w := range s.Workers {
		scopes := w.Report.Scopes
		if len(scopes) == 0 {
			scopes = []string{w.Report.Scope}
		}
		for _, scope := range scopes {
			if scope != "" {
				row(scope)
			}
		}
		if !slices.ContainsFunc(scopes, func(scope string) bool { return !v.can(Read, scope) }) {
			d.Workers = append(d.Workers, workerRow{w, fateText(w.Fate, w.Lease), scopes})
		}
	}
	for scope, r := range rows {
		if v.can(Read, scope) {
			d.Scopes = append(d.Scopes, *r)
		}
		if v.board != nil && v.can(Pause, scope) {
			d.Names = append(d.Names, scope)
		}
	}
	for _, p := range s.Pauses {
		if v.can(Read, p.Scope) {
			d.Pauses = append(d.Pauses, p)
		}
	}
	slices.SortFunc(d.Scopes, func(a, b scopeRow) int { return strings.Compare(a.Scope, b.Scope) })
	slices.Sort(d.Names)
	return d
}

// fateText says what has become of an owner, whose lease lasts for so much longer. It is overdue once that is over, until a
// peer declares it dead.
func fateText(h ledger.Holder, lease time.Duration) string {
	switch {
	case h == ledger.Live && lease <= 0:
		return "overdue"
	case h == ledger.Live:
		return "live"
	case h == ledger.Left:
		return "left"
	case h == ledger.Dead:
		return "dead"
	}
	return "gone"
}

// live streams the first page.
func (v *visit) live() error {
	v.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		p, err := v.nowPage()
		if err != nil {
			if v.ctx().Err() == nil {
				v.o.Logger.Warn("web: a live page failed", zap.Error(err))
			}
			return nil // the browser comes again
		}
		html, err := v.part(p)
		if err != nil {
			return nil
		}
		if err := v.event("part", html); err != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-v.ctx().Done():
			return nil
		}
	}
}

// pause makes workers of a scope start nothing.
func (v *visit) pause() error { return v.pausing(true) }

// resume ends a pause.
func (v *visit) resume() error { return v.pausing(false) }

func (v *visit) pausing(on bool) error {
	scope := v.query.Get("scope")
	if v.r.PostForm.Has("scope") {
		var err error
		if scope, err = url.QueryUnescape(v.r.PostForm.Get("scope")); err != nil {
			return &refusal{http.StatusBadRequest, err}
		}
	}
	if v.board == nil {
		return refuse(http.StatusNotFound, "this ledger knows no pauses")
	}
	if scope == "" && v.r.PostForm.Get("all") == "" && on {
		return refuse(http.StatusBadRequest, "say which scope is to be paused, or mark all of them")
	}
	if err := v.need(Pause, scope); err != nil {
		return err
	}
	by, err := v.by()
	if err != nil {
		return err
	}
	if on {
		err = v.board.Pause(v.ctx(), scope, by)
	} else {
		_, err = v.board.Resume(v.ctx(), scope, by)
	}
	if err != nil {
		return err
	}
	v.o.Logger.Info("web: pauses changed", zap.String("scope", scope), zap.Bool("paused", on), zap.String("actor", by.Actor))
	v.sampler.forget()
	return v.to("", url.Values{})
}

// forget makes the next viewer's sample new.
func (s *sampler) forget() {
	s.mu.Lock()
	s.tried = time.Time{}
	s.mu.Unlock()
}

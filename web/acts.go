package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// formData is a form that begins a dry run.
type formData struct {
	What   string // the act, and its page
	Scope  string
	Source string // a broker's, to replay from; empty: the ledger
	Words  string
	Query  string // selects what it is about
	Filter url.Values
	Rate   string
	Errors int
}

// form shows what an act would be about.
func (v *visit) form(what, title string, a Action) error {
	f, err := filterOf(v.query, time.Now())
	if err == nil {
		err = v.need(a, f.Scope)
	}
	if err != nil {
		return err
	}
	q := filterQuery(v.query)
	d := &formData{What: what, Scope: f.Scope, Words: words(q), Query: q.Encode(), Filter: q, Errors: replay.DefaultStopAfter}
	if a == Replay {
		source, err := v.source()
		if err != nil {
			return err
		}
		if source != nil {
			d.Source, d.Words, d.Query = source.Name, wordsOf(source, q), withSource(q, source.Name)
		}
	}
	return v.show(&page{Name: "act", Title: title, Data: d})
}

func (v *visit) replayForm() error { return v.form("replay", "Replay", Replay) }

func (v *visit) reopenForm() error { return v.form("reopen", "Reopen", Reopen) }
func (v *visit) purgeForm() error  { return v.form("purge", "Purge", Purge) }

// planned is what a form asks for: a filter, and who asks.
func (v *visit) planned(a Action) (f ledger.Filter, by ledger.By, err error) {
	if f, err = filterOf(v.query, time.Now()); err == nil {
		err = v.need(a, f.Scope)
	}
	if err == nil {
		by, err = v.by()
	}
	if text := v.r.PostForm.Get("limit"); err == nil && text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil {
			err = refuse(http.StatusBadRequest, "at most: must be a number, is %q", text)
		}
	}
	return f, by, err
}

// start begins a job and shows it.
func (v *visit) start(j *job) error {
	if j.query == nil {
		j.query = filterQuery(v.query)
	}
	if j.Words == "" {
		j.Words = words(j.query)
	}
	j, err := v.begin(j)
	if err != nil {
		return err
	}
	return v.to("job", url.Values{"id": {j.ID}})
}

// replay begins the dry run of a replay, from the ledger's archive or from a broker's queue or topic.
func (v *visit) replay() error {
	f, by, err := v.planned(Replay)
	if err != nil {
		return err
	}
	from, err := v.source()
	if err != nil {
		return err
	}
	form := v.r.PostForm
	c := replay.Config{Filter: f, By: by, FreshKeys: form.Has("fresh"), Mismatched: form.Has("mismatched"), Unknown: form.Has("unknown")}
	if text := form.Get("rate"); text != "" {
		if c.Rate, err = strconv.ParseFloat(text, 64); err != nil {
			return refuse(http.StatusBadRequest, "rate: must be a number, is %q", text)
		}
	}
	if text := form.Get("errors"); text != "" {
		if c.StopAfter, err = strconv.Atoi(text); err != nil {
			return refuse(http.StatusBadRequest, "stop after: must be a number, is %q", text)
		}
	}
	if from != nil {
		return v.replayFrom(from, c)
	}
	source := replay.Archive
	if form.Has("renewed") {
		source = replay.Renewals
	}
	return v.start(v.replaying(kindReplay, Replay, v.inLedger(source), c, true))
}

// replaying is a job that replays.
func (u *UI) replaying(kind jobKind, a Action, open opener, c replay.Config, dry bool) *job {
	c.DryRun, c.StampKeys, c.Logger, c.Interval = dry, u.o.StampKeys, u.o.Logger, watchEvery
	c.Filter.Cipher = u.o.Cipher
	j := &job{Kind: kind, Scope: c.Filter.Scope, Action: a, DryRun: dry, By: c.By}
	j.run = func(ctx context.Context, j *job) error {
		if u.o.Target == nil {
			return refuse(http.StatusNotFound, "these pages know no target to replay to")
		}
		src, err := open(ctx)
		if err != nil {
			return err
		}
		dst, err := u.o.Target(ctx, c.Filter.Scope)
		if err != nil {
			return err
		}
		c.Progress = func(p replay.Progress) {
			j.set(func(s *jobState) {
				s.Done, s.Total, s.Rate, s.Left, s.Replay = p.Seen, max(p.Total, 0), p.Rate, p.Left, new(p.Report)
			})
		}
		report, err := replay.Run(ctx, u.op, src, dst, c)
		if err == nil || report.Read > 0 {
			j.set(func(s *jobState) { s.Replay = &report })
		}
		return err
	}
	if dry {
		j.next = func(by ledger.By) *job {
			c := c
			c.By = by
			return u.replaying(kind, a, open, c, false)
		}
	}
	return j
}

// reopen begins the dry run of a reopening.
func (v *visit) reopen() error {
	f, by, err := v.planned(Reopen)
	if err != nil {
		return err
	}
	return v.start(v.reopening(ledger.ReopenRequest{Filter: f, FreshKeys: v.r.PostForm.Has("fresh"), By: by, DryRun: true}))
}

func (u *UI) reopening(r ledger.ReopenRequest) *job {
	j := &job{Kind: kindReopen, Scope: r.Filter.Scope, Action: Reopen, DryRun: r.DryRun, By: r.By}
	j.run = func(ctx context.Context, j *job) error {
		r.Progress = func(p ledger.ReopenReport) { j.set(func(s *jobState) { s.Done, s.Reopen = p.Matched, &p }) }
		report, err := u.op.Reopen(ctx, r)
		if err == nil {
			j.set(func(s *jobState) { s.Done, s.Reopen = report.Matched, &report })
		}
		return err
	}
	if r.DryRun {
		j.next = func(by ledger.By) *job {
			r := r
			r.DryRun, r.By = false, by
			return u.reopening(r)
		}
	}
	return j
}

// purge begins the dry run of a purge.
func (v *visit) purge() error {
	f, by, err := v.planned(Purge)
	if err != nil {
		return err
	}
	return v.start(v.purging(ledger.PurgeRequest{Filter: f, By: by, DryRun: true}))
}

func (u *UI) purging(r ledger.PurgeRequest) *job {
	r.Filter.Cipher = u.o.Cipher
	j := &job{Kind: kindPurge, Scope: r.Filter.Scope, Action: Purge, DryRun: r.DryRun, By: r.By}
	var counted ledger.PurgeReport
	j.run = func(ctx context.Context, j *job) (err error) {
		r.Progress = func(p ledger.PurgeReport) { j.set(func(s *jobState) { s.Done, s.Purge = p.Matched, &p }) }
		if counted, err = u.op.Purge(ctx, r); err == nil {
			j.set(func(s *jobState) { s.Done, s.Purge = counted.Matched, &counted })
		}
		return err
	}
	if r.DryRun {
		j.next = func(by ledger.By) *job {
			r := r
			r.DryRun, r.By = false, by
			r.Filter.To = j.view().Purge.Last.Add(time.Microsecond) // what was archived since was not counted: it stays
			return u.purging(r)
		}
	}
	return j
}

// phrase is what must be typed to purge.
func phrase(n int64) string { return "purge " + strconv.FormatInt(n, 10) }

// carryOut does in earnest what a dry run has shown.
func (v *visit) carryOut() error {
	j, err := v.wanted()
	if err == nil {
		err = v.need(j.Action, j.Scope)
	}
	if err == nil && j.Kind == kindMend {
		err = v.need(Body, j.Scope)
	}
	if err != nil {
		return err
	}
	by, err := v.by()
	switch {
	case err != nil:
		return err
	case !j.Ready():
		return refuse(http.StatusConflict, "there is nothing to do: this was no dry run that ended well and found something")
	case strings.TrimSpace(strings.ReplaceAll(v.r.PostForm.Get("phrase"), ",", "")) != j.Phrase():
		return refuse(http.StatusBadRequest, "nothing was done: to go on, type %q", j.Phrase())
	}
	by.Reason = cmp.Or(by.Reason, j.By.Reason)
	next := j.next(by)
	next.Words, next.query, next.Diff, next.Source = j.Words, j.query, j.Diff, j.Source
	if s := j.view(); s.Purge != nil {
		next.state.Total = s.Purge.Matched
	} else if s.Reopen != nil {
		next.state.Total = s.Reopen.Matched
	}
	return v.start(next)
}

// mended begins the dry run of a replay with another body.
func (v *visit) mended(r *ledger.Record, was, is []byte, by ledger.By) error {
	c := replay.Config{Filter: ledger.Filter{Scope: r.Scope, IDs: [][]byte{r.ID}}, By: by, Mend: true, Body: is}
	j := v.replaying(kindMend, Edit, v.inLedger(replay.Archive), c, true)
	j.query = messageQuery(r.Scope, r.ID, r.Key)
	j.Words = "another body for " + operate.Text(string(r.ID)) + " of " + operate.Text(r.Scope)
	j.Diff = operate.Difference(was, is)
	return v.start(j)
}

package web

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// jobKind is what a job does.
type jobKind string

const (
	kindReplay jobKind = "replay"
	kindMend   jobKind = "mend"
	kindReopen jobKind = "reopen"
	kindPurge  jobKind = "purge"
	kindErrors jobKind = "errors" // the names of the pages that show what these find
	kindStuck  jobKind = "stuck"
	kindDoctor jobKind = "doctor"
)

// job is something that takes longer than a page may. It runs in this process, ends with it, and can be stopped at any time: what it
// does, it does message by message, so that the same job begun again goes on with the rest.
type job struct {
	ID     string
	Kind   jobKind
	Scope  string // "": all
	Action Action // that stopping it, and doing it in earnest, needs
	Words  string // what it is about, for people
	DryRun bool
	By     ledger.By
	Began  time.Time
	Diff   string // of a mended body
	Source string // a broker's, that is replayed from; empty: the ledger

	query url.Values
	run   func(context.Context, *job) error
	next  func(by ledger.By) *job // with DryRun: what is done in earnest
	stop  context.CancelFunc

	mu    sync.Mutex
	state jobState
}

// jobState is how far a job is.
type jobState struct {
	Ended   bool
	At      time.Time // of the end
	Stopped bool
	Err     string // empty: none
	Done    int64
	Total   int64 // 0: not known
	Rate    float64
	Left    time.Duration

	Replay  *replay.Report
	Reopen  *ledger.ReopenReport
	Purge   *ledger.PurgeReport
	Parked  *ledger.ParkedReport
	Grouped *grouped
	Stuck   []ledger.Listed
	More    bool // there are more than Stuck has
	Finds   []Finding
}

// Percent is for a bar; -1: it is not known.
func (s jobState) Percent() int64 {
	switch {
	case s.Ended && s.Err == "" && !s.Stopped:
		return 100
	case s.Total <= 0:
		return -1
	}
	return min(100*s.Done/s.Total, 100)
}

func (j *job) set(change func(*jobState)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.state)
}

// View is how far it is now; for templates.
func (j *job) View() jobState { return j.view() }

// Result is the page that shows what a search found.
func (j *job) Result() string { return string(j.Kind) + "?" + j.query.Encode() }

func (j *job) view() jobState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state
}

// Search says that the job only reads.
func (j *job) Search() bool { return j.Action == Read }

// Phrase is what must be typed before it is done in earnest; empty: nothing.
func (j *job) Phrase() string {
	s := j.view()
	if j.Kind != kindPurge || s.Purge == nil {
		return ""
	}
	return phrase(s.Purge.Matched - s.Purge.Left)
}

// Ready says that a dry run has ended well, and found something to do.
func (j *job) Ready() bool {
	s := j.view()
	switch {
	case !j.DryRun || !s.Ended || s.Stopped || s.Err != "" || j.next == nil:
		return false
	case s.Replay != nil:
		return s.Replay.Replayed+s.Replay.Succeeded+s.Replay.Superseded > 0
	case s.Reopen != nil:
		return s.Reopen.Matched > 0
	case s.Purge != nil:
		return s.Purge.Matched > s.Purge.Left
	case s.Parked != nil:
		return s.Parked.Matched > s.Parked.Left
	}
	return false
}

// jobs are those of this process, the latest last.
type jobs struct {
	mu   sync.Mutex
	list []*job
}

func (l *jobs) all() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *jobs) named(id string) *job {
	for _, j := range l.all() {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// lastOf is the last job of a kind that is about something.
func (l *jobs) lastOf(kind jobKind, words string) *job {
	list := l.all()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Kind == kind && list[i].Words == words {
			return list[i]
		}
	}
	return nil
}

// add registers a job. It refuses more than maxJobs that run, and a second search of a kind.
func (u *UI) add(j *job) error {
	l := &u.jobs
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.life.Err() != nil {
		return errClosed
	}
	running := 0
	for _, other := range l.list {
		if other.view().Ended {
			continue
		}
		if running++; other.Kind == j.Kind && j.Search() {
			return refuse(http.StatusTooManyRequests, "such a search runs already: its page is job %s", other.ID)
		}
	}
	if running >= maxJobs {
		return refuse(http.StatusTooManyRequests, "%d jobs run already: wait for one to end, or stop one", maxJobs)
	}
	u.runs.Add(1)
	l.list = append(l.list, j)
	for i := 0; len(l.list) > maxKept && i < len(l.list); {
		if !l.list[i].view().Ended {
			i++
			continue
		}
		l.list = slices.Delete(l.list, i, i+1)
	}
	return nil
}

// begin starts a job.
func (v *visit) begin(j *job) (*job, error) {
	j.ID, j.Began = rand.Text()[:12], time.Now()
	ctx, cancel := context.WithCancel(v.life)
	j.stop = cancel
	if err := v.add(j); err != nil {
		cancel()
		return nil, err
	}
	log := v.o.Logger.With(zap.String("job", j.ID), zap.String("kind", string(j.Kind)), zap.Bool("dry_run", j.DryRun), zap.String("actor", j.By.Actor))
	log.Info("web: a job begins", zap.String("scope", j.Scope))
	go func() {
		defer v.runs.Done()
		defer cancel()
		err := j.run(ctx, j)
		j.set(func(s *jobState) {
			s.Ended, s.At = true, time.Now()
			if s.Stopped = err != nil && ctx.Err() != nil || errors.Is(err, replay.ErrStopped); err != nil {
				s.Err = err.Error()
			}
		})
		log.Info("web: a job has ended", zap.Error(err))
	}()
	return j, nil
}

// jobData is a job's page.
type jobData struct {
	*job
	S jobState
}

// wanted is the job that the URL names, if the viewer may see it.
func (v *visit) wanted() (*job, error) {
	j := v.jobs.named(v.query.Get("id"))
	if j == nil {
		return nil, refuse(http.StatusNotFound, "there is no such job: it ended long ago, or with a process before this one")
	}
	return j, v.need(Read, j.Scope)
}

func (v *visit) jobPage(j *job) *page {
	p := &page{Name: "job", Title: "Job", Data: &jobData{j, j.view()}}
	if !j.view().Ended {
		p.Live, p.Refresh = "watch?id="+j.ID, 2
	}
	return p
}

// job shows one.
func (v *visit) job() error {
	j, err := v.wanted()
	if err != nil {
		return err
	}
	return v.show(v.jobPage(j))
}

const watchEvery = 500 * time.Millisecond

// watch streams how far a job is.
func (v *visit) watch() error {
	j, err := v.wanted()
	if err != nil {
		return err
	}
	v.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		p := v.jobPage(j)
		html, err := v.part(p)
		if err != nil {
			return nil
		}
		name := "part"
		if p.Live == "" {
			name = "end"
		}
		if err := v.event(name, html); err != nil || name == "end" {
			return nil
		}
		select {
		case <-tick.C:
		case <-v.ctx().Done():
			return nil
		}
	}
}

// jobList shows all of them.
func (v *visit) jobList() error {
	rows := []*jobData{}
	list := v.jobs.all()
	for i := len(list) - 1; i >= 0; i-- {
		if v.can(Read, list[i].Scope) {
			rows = append(rows, &jobData{list[i], list[i].view()})
		}
	}
	return v.show(&page{Name: "jobs", Title: "Jobs", Data: rows})
}

// stop ends a job between two messages.
func (v *visit) stop() error {
	j, err := v.wanted()
	if err == nil {
		err = v.need(j.Action, j.Scope)
	}
	if err != nil {
		return err
	}
	j.stop()
	return v.to("job", url.Values{"id": {j.ID}})
}

// doctorData is the page of what is wrong.
type doctorData struct {
	Job *job
	S   jobState
}

// doctor shows what the last examination found.
func (v *visit) doctor() error {
	if err := v.need(Read, ""); err != nil {
		return err
	}
	if v.o.Doctor == nil {
		return refuse(http.StatusNotFound, "there is no doctor here")
	}
	d := &doctorData{Job: v.jobs.lastOf(kindDoctor, "all")}
	if d.Job != nil {
		d.S = d.Job.view()
	}
	return v.show(&page{Name: "doctor", Title: "Doctor", Data: d})
}

const doctorTimeout = 2 * time.Minute

func (u *UI) examine(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	found, err := u.o.Doctor(ctx)
	j.set(func(s *jobState) { s.Finds, s.Done = found, int64(len(found)) })
	return err
}

package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// count counts what became of a letter: what was decided, and with Send what the target did.
func (r *runner) count(l *Letter, result *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := &r.report
	rep.Read++
	step, reason := l.decision.Step, l.decision.Reason
	text := string(reason)
	sample := true
	switch {
	case result != nil && (result.Outcome == Sent || result.Outcome == Handled):
		rep.Replayed++
		sample = false
		if l.own {
			reason = ownSent
		}
		if _, here := r.dst.(*inPlace); !here {
			rep.Targets[l.Message.Source]++
		}
	case result != nil && result.Outcome == Kept && result.Err == nil:
		rep.Left++
		step, reason = Leave, result.Reason
		text = string(reason)
	case result != nil:
		rep.Failed++
		reason, text = cmp.Or(result.Reason, sendError), string(broke)
		if result.Err != nil {
			text = result.Err.Error()
		}
	case step == Drop && reason == Succeeded:
		rep.Succeeded++
		sample = false
	case step == Drop:
		rep.Superseded++
		sample = false
	case step == Refuse:
		rep.Refused++
		if l.why != nil {
			text = l.why.Error()
		}
	case step == Mismatch:
		rep.Mismatched++
	default:
		rep.Left++
	}
	rep.Reasons[reason]++
	if sample && len(rep.Samples) < maxSamples {
		name := step.String()
		if result != nil && step == Send {
			name = "failed"
		}
		rep.Samples = append(rep.Samples, Sample{ID: l.Message.ID, Scope: l.Key.Scope, Step: name, Reason: text})
	}
}

// watch tells how far the run is until over is closed.
func (r *runner) watch(over <-chan struct{}) {
	if r.c.Progress == nil {
		return
	}
	t := time.NewTicker(r.c.Interval)
	defer t.Stop()
	var last *mark
	for {
		select {
		case now := <-t.C:
			r.c.Progress(r.progress(last, now))
			last = r.mark(now)
		case <-over:
			return
		}
	}
}

// mark is how far the run was at a time.
type mark struct {
	at               time.Time
	read, seen, sent int64
}

func (r *runner) mark(now time.Time) *mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &mark{at: now, read: r.report.Read, seen: r.seen.Load(), sent: r.report.Replayed}
}

// progress describes how far the run is; since is an earlier moment, nil: the beginning.
func (r *runner) progress(since *mark, now time.Time) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Report: r.report, Seen: r.seen.Load(), Total: r.total, Elapsed: now.Sub(r.report.Began), Left: -1}
	p.Report.Reasons, p.Report.Targets, p.Report.Samples = maps.Clone(r.report.Reasons), maps.Clone(r.report.Targets), nil
	p.Report.Warnings = slices.Clone(r.report.Warnings)
	if since == nil {
		since = &mark{at: r.report.Began}
	}
	took := now.Sub(since.at)
	if took > 0 {
		p.Rate = float64(p.Report.Read-since.read) / took.Seconds()
	}
	if p.Total >= 0 {
		p.Total = max(p.Total, p.Seen)
		p.Left = estimate(p.Total-p.Seen, p.Seen-since.seen, took)
	}
	if most := r.c.limit(); most < math.MaxInt64 {
		if left := estimate(most-p.Report.Replayed, p.Report.Replayed-since.sent, took); left >= 0 && (p.Left < 0 || left < p.Left) {
			p.Left = left
		}
	}
	return p
}

// estimate is how long the rest will take, if so many took so long; negative: not known.
func estimate(rest, done int64, took time.Duration) time.Duration {
	if done <= 0 || took <= 0 {
		return -1
	}
	return time.Duration(float64(rest) / float64(done) * float64(took))
}

package ranges

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Finished is what a store knows to be finished in one log.
type Finished struct {
	Info     Info
	Segments []Segment // in ascending order, none with Rows
}

const (
	// reopenChunk is how many offsets one transaction of a reopening looks at.
	reopenChunk = ledger.MaxAuditSpan
	// reopenLease is the lease of the owner that an operator is while it reopens.
	reopenLease = time.Minute
)

// Reopening is an operator's [ledger.Operator.Reopen], for what is held in ranges: there a message that is reopened is as if
// it had never been claimed, which is all that its broker's next delivery needs. Messages with a row are reopened before,
// as rows.
type Reopening struct {
	Request ledger.ReopenRequest
	// Join makes the owner that writes, and which leaves at the end.
	Join func(context.Context, time.Duration) (ledger.Owner, error)
	// Audit writes an audit row before each transaction; what is refused there is not done.
	Audit func(context.Context, []ledger.AuditRecord) error
	// Rows lists the messages that have a row, in whichever state, for a dry run.
	Rows func(context.Context, ledger.Filter) iter.Seq2[ledger.Listed, error]
}

// Check refuses what ranges cannot answer: the time, the generation and the errors of a single message. It comes first, so
// that what is refused changes nothing.
func (r *Reopening) Check(logs []Finished) error {
	f := &r.Request.Filter
	const held = "for messages that are held in ranges"
	switch {
	case !slices.ContainsFunc(logs, func(l Finished) bool { return len(l.Segments) > 0 }):
		return nil
	case f.Offsets == nil && len(f.IDs) == 0:
		return &ledger.InvalidError{Field: "ReopenRequest.Filter.Offsets", Bound: "a partition and offsets, or ids, " + held, Value: "unset"}
	case f.Error != "":
		return &ledger.InvalidError{Field: "ReopenRequest.Filter.Error", Bound: "unset " + held, Value: "set"}
	}
	if len(r.spans(logs)) == 0 {
		return nil
	}
	switch {
	case r.Request.FreshKeys:
		return &ledger.InvalidError{Field: "ReopenRequest.FreshKeys", Bound: "false " + held + " (a generation needs a row)", Value: "true"}
	case !f.From.IsZero() || !f.To.IsZero():
		return &ledger.InvalidError{Field: "ReopenRequest.Filter.From", Bound: "unset, like To, " + held, Value: "set"}
	}
	return nil
}

// piece is a part of a segment that the filter selects.
type piece struct {
	info     *Info
	selected Span
}

// spans are the parts of segments that the filter selects.
func (r *Reopening) spans(logs []Finished) (out []piece) {
	f := &r.Request.Filter
	for i := range logs {
		info := &logs[i].Info
		if f.Offsets != nil && !strings.HasSuffix(info.Prefix, fmt.Sprintf("-%d-", f.Offsets.Partition)) {
			continue
		}
		for _, s := range logs[i].Segments {
			if f.Offsets != nil {
				s.Span = Span{max(s.From, f.Offsets.First), min(s.To-1, f.Offsets.Last) + 1}
			}
			if s.Len() == 0 {
				continue
			}
			if len(f.IDs) == 0 {
				out = append(out, piece{info, s.Span})
				continue
			}
			for _, id := range f.IDs {
				key, ok := info.KeyOf(id)
				if _, offset := SplitSum(key.Sum()); ok && s.Has(offset) {
					out = append(out, piece{info, Span{offset, offset + 1}})
				}
			}
		}
	}
	return out
}

// Run carries out what was checked, and adds to the report. Offsets that were never delivered (compaction, control records)
// cannot be told from others, and are counted.
func (r *Reopening) Run(ctx context.Context, logs []Finished, report *ledger.ReopenReport) error {
	pieces := r.spans(logs)
	switch {
	case len(pieces) == 0:
		return nil
	case r.Request.DryRun:
		return r.count(ctx, pieces, report)
	}
	owner, err := r.Join(ctx, reopenLease)
	if err != nil {
		return err
	}
	defer func() { _ = owner.Leave(context.WithoutCancel(ctx)) }() // else it is declared dead; it holds nothing
	store, ok := ledger.Unwrap(owner).(Store)
	if !ok {
		return fmt.Errorf("ranges: %T holds no ranges", owner)
	}
	beaten := time.Now()
	for _, p := range pieces {
		for from := p.selected.From; from < p.selected.To; {
			span := Span{from, min(from+reopenChunk, p.selected.To)}
			if left := r.Request.Filter.Limit; left > 0 {
				span.To = min(span.To, span.From+max(int64(left)-report.Matched, 0))
			}
			if span.Len() == 0 {
				return nil
			}
			if time.Since(beaten) > reopenLease/4 {
				if _, err := owner.Beat(ctx); err != nil {
					return err
				}
				beaten = time.Now()
			}
			if err := r.cut(ctx, store, p.info, span, report); err != nil {
				return err
			}
			from = span.To
			if r.Request.Progress != nil {
				r.Request.Progress(*report)
			}
		}
	}
	return nil
}

// count adds to a dry run's report what a run would select. Of a message with a row the row says whether it succeeded, as long as it is there,
// and those that did were counted before.
func (r *Reopening) count(ctx context.Context, pieces []piece, report *ledger.ReopenReport) error {
	for _, p := range pieces {
		report.Matched += p.selected.Len()
	}
	f := r.Request.Filter
	for m, err := range r.Rows(ctx, ledger.Filter{Scope: f.Scope, IDs: f.IDs, Offsets: f.Offsets}) {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(pieces, func(p piece) bool { return p.has(&m) }) {
			report.Matched--
		}
	}
	if f.Limit > 0 {
		report.Matched = min(report.Matched, int64(f.Limit))
	}
	return nil
}

func (p *piece) has(m *ledger.Listed) bool {
	key, ok := p.info.KeyOf(m.ID)
	_, offset := SplitSum(key.Sum())
	return ok && key.Sum() == m.Key && p.selected.Has(offset)
}

// cut is one audited transaction.
func (r *Reopening) cut(ctx context.Context, store Store, info *Info, span Span, report *ledger.ReopenReport) error {
	detail := fmt.Sprintf("offsets %d to %d, as far as they are finished", span.From, span.To-1)
	key := ledger.KeyOfSum(info.Scope, info.ID(span.From), JoinSum(info.Log, span.From))
	err := r.Audit(ctx, []ledger.AuditRecord{{By: r.Request.By, Action: ledger.ActionReopen, Key: key, Span: span.Len(),
		State: ledger.Succeeded, Detail: detail}})
	if err != nil {
		return err
	}
	update := func(alone bool, plan func(*Facts) Change) error {
		return store.Update(ctx, []Query{{Info: *info, Span: span, Alone: alone}}, func(_ int, f *Facts) Change { return plan(f) })
	}
	var done, skipped int64
	var left bool
	cut := func(f *Facts) (c Change) {
		left = slices.ContainsFunc(f.Ranges, func(r Range) bool { return r.abandoned() })
		c, done, skipped = Cut(f, span)
		return c
	}
	if err := update(false, cut); err != nil {
		return err
	}
	report.Matched, report.Reopened = report.Matched+done, report.Reopened+done
	if skipped > 0 && left { // nobody counts any more on what InTx has put there
		if err := update(true, Abandoned); err != nil {
			return err
		}
		if err := update(false, cut); err != nil {
			return err
		}
		report.Matched, report.Reopened = report.Matched+done, report.Reopened+done
	}
	report.Matched, report.Skipped = report.Matched+skipped, report.Skipped+skipped
	return nil
}

// Cut is the plan that takes finished offsets out of their segments, and how many these are. It leaves those that have a row
// of their own, for which the segment speaks once that is gone, and skips those in a range that is still open: its owner
// counts on what InTx has put there. Of an owner that left or died, Abandoned ends the range.
func Cut(f *Facts, span Span) (c Change, cut, skipped int64) {
	c = Change{Version: f.Version, Token: f.Token, Top: f.Top}
	if f.Locked {
		return c, 0, span.Len()
	}
	for _, s := range f.Segments {
		if s.Rows || !s.Meets(span) {
			continue
		}
		var out Set
		for o := max(s.From, span.From); o < min(s.To, span.To); o++ {
			switch {
			case f.inRange(o):
				skipped++
			case !f.HasRow(o):
				out.Add(Span{o, o + 1})
			}
		}
		if out.Empty() {
			continue
		}
		cut += out.Count()
		c.Drop = append(c.Drop, s.From)
		left := max(s.Messages-out.Count(), 0)
		for kept := range out.Without(s.Span) {
			part := s
			part.Span = kept
			part.Messages = min(kept.Len(), left)
			left -= part.Messages
			c.Put = append(c.Put, part)
		}
	}
	if cut > 0 {
		c.Version++
		// A message that had a row may have had a higher token than any range, and the row is gone.
		c.Token = max(c.Token, uint64(max(f.Now.UnixMicro(), 0)))
	}
	return c, cut, skipped
}

func (f *Facts) inRange(offset int64) bool {
	return slices.ContainsFunc(f.Ranges, func(r Range) bool { return r.Has(offset) })
}

// KeyOf returns the key of the record with that id, if it is one of the log's.
func (i *Info) KeyOf(id []byte) (ledger.Key, bool) {
	rest, ok := strings.CutPrefix(string(id), i.Prefix)
	offset, err := strconv.ParseInt(rest, 10, 64)
	if !ok || err != nil || offset < 0 || strconv.FormatInt(offset, 10) != rest {
		return ledger.Key{}, false
	}
	return ledger.KeyOfSum(i.Scope, id, JoinSum(i.Log, offset)), true
}

package web

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

const (
	quickLetters = 2000 // that are grouped before somebody asks for all
	maxGroups    = 200
	buckets      = 40 // of a group's picture
	maxPattern   = 200
)

// grouped are dead letters by what they failed of.
type grouped struct {
	Rows        int64
	First, Last time.Time
	Groups      []*group
	Other       int64 // of more groups than are kept

	index map[groupKey]*group
}

type groupKey struct {
	scope, kind, pattern string
}

// group has failures that differ in numbers and names alone.
type group struct {
	Scope, Kind, Pattern string
	Example              string // part of its text, for a filter
	N                    int64
	First, Last          time.Time

	minutes map[int64]int64 // by the minute, and by more where there are many
	width   int64
}

var (
	quoted  = regexp.MustCompile(`"[^"]*"|'[^']*'|` + "`[^`]*`")
	numbers = regexp.MustCompile(`\b(?:0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F-]*\b`)
)

// pattern is a failure's text without what differs from one message to the next: what is quoted, and numbers.
func pattern(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if len(line) > 4*maxPattern { // of what is cut away nothing is looked at
		line = strings.ToValidUTF8(line[:4*maxPattern], "")
	}
	return cut(plain(numbers.ReplaceAllString(quoted.ReplaceAllString(line, "…"), "#")), maxPattern)
}

func (g *grouped) add(d *ledger.DeadLetter) {
	text := ""
	if n := len(d.Errors); n > 0 {
		text = d.Errors[n-1].Error
	}
	if g.index == nil {
		g.index, g.First = map[groupKey]*group{}, d.At
	}
	g.Rows++
	g.Last = d.At
	key := groupKey{d.Key.Scope, string(d.Kind), pattern(text)}
	one := g.index[key]
	if one == nil {
		if len(g.Groups) == maxGroups {
			g.Other++
			return
		}
		one = &group{Scope: key.scope, Kind: key.kind, Pattern: key.pattern, Example: constant(text), First: d.At, minutes: map[int64]int64{}, width: 1}
		g.index[key] = one
		g.Groups = append(g.Groups, one)
	}
	one.count(d.At)
}

func (o *group) count(at time.Time) {
	o.N++
	o.Last = at
	o.minutes[at.Unix()/60/o.width]++
	for len(o.minutes) > 1000 {
		wide := map[int64]int64{}
		for m, n := range o.minutes {
			wide[m/2] += n
		}
		o.minutes, o.width = wide, o.width*2
	}
}

// Over is how a group's count went between two times.
func (o *group) Over(first, last time.Time) []float64 {
	out := make([]float64, buckets)
	span := max(last.Sub(first), time.Minute)
	for m, n := range o.minutes {
		at := time.Unix(m*60*o.width, 0).Sub(first)
		out[min(max(int(at*buckets/(span+1)), 0), buckets-1)] += float64(n)
	}
	return out
}

// constant is the longest part of an error's text that has nothing in it which differs: what a filter by text finds all of them with.
func constant(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	rest := numbers.ReplaceAllString(quoted.ReplaceAllString(line, "\x00"), "\x00")
	longest := ""
	for part := range strings.SplitSeq(rest, "\x00") {
		if part = strings.TrimSpace(part); len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func (g *grouped) sort() {
	slices.SortFunc(g.Groups, func(a, b *group) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Pattern, b.Pattern)) })
}

// groupsData is the page of errors.
type groupsData struct {
	*listData
	Grouped *grouped
	Part    bool // not all were read
	Job     *job // that has read all, or does
}

// groups shows dead letters by what they failed of: the first ones at once, all of them when somebody asks.
func (v *visit) groups() error {
	list, f, err := v.newList("errors")
	if err != nil {
		return err
	}
	d := &groupsData{listData: list, Job: v.jobs.lastOf(kindErrors, list.Words)}
	if d.Job != nil && !v.can(Read, d.Job.Scope) {
		d.Job = nil
	}
	if d.Job != nil && d.Job.view().Grouped != nil {
		d.Grouped = d.Job.view().Grouped
		return v.show(&page{Name: "errors", Title: "Errors", Data: d})
	}
	d.Grouped = new(grouped)
	enough := time.Now().Add(v.look)
	ctx, cancel := context.WithTimeout(v.ctx(), v.look*3/2) // where the filter selects few; a call that is cut off costs a connection
	defer cancel()
	f.Cipher = v.o.Cipher
	for letter, err := range v.op.DeadLetters(ctx, f) {
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil:
			d.Part = true
		case d.Grouped.Rows == quickLetters, time.Now().After(enough):
			d.Part = true
		case v.can(Read, letter.Key.Scope):
			d.Grouped.add(&letter)
		}
		if d.Part {
			break
		}
	}
	d.Grouped.sort()
	return v.show(&page{Name: "errors", Title: "Errors", Data: d})
}

// groupAll reads all dead letters of a filter.
func (u *UI) groupAll(ctx context.Context, f ledger.Filter, j *job) error {
	g := new(grouped)
	f.Cipher = u.o.Cipher
	for d, err := range u.op.DeadLetters(ctx, f) {
		if err != nil {
			return err
		}
		if g.add(&d); g.Rows%1000 == 0 {
			j.set(func(s *jobState) { s.Done = g.Rows })
		}
	}
	g.sort()
	g.index = nil
	j.set(func(s *jobState) { s.Done, s.Grouped = g.Rows, g })
	return nil
}

// stuckData is the page of messages that wait for nothing but a copy of them.
type stuckData struct {
	*listData
	Job *job
}

// stuck shows messages that wait for nothing but a copy of them: those that a short look finds, or the last search.
func (v *visit) stuck() error {
	list, f, err := v.newList("stuck")
	if err != nil {
		return err
	}
	d := &stuckData{listData: list, Job: v.jobs.lastOf(kindStuck, list.Words)}
	if d.Job != nil && !v.can(Read, d.Job.Scope) {
		d.Job = nil
	}
	if d.Job != nil {
		if s := d.Job.view(); s.Ended {
			d.Rows, d.Cut = s.Stuck, s.More
			return v.show(&page{Name: "stuck", Title: "Stuck", Data: d})
		}
	}
	d.Rows = []ledger.Listed(nil)
	if d.Cut, err = v.large(); err != nil {
		return err
	}
	if d.Cut {
		return v.show(&page{Name: "stuck", Title: "Stuck", Data: d})
	}
	ctx, cancel := context.WithTimeout(v.ctx(), v.look*3/2)
	defer cancel()
	var rows []ledger.Listed
	for m, err := range v.op.Messages(ctx, stuckFilter(f)) {
		if err != nil && ctx.Err() == nil {
			return err
		}
		if d.Cut = err != nil || len(rows) == pageRows; d.Cut {
			break
		}
		if v.can(Read, m.Scope) {
			rows = append(rows, m)
		}
	}
	d.Rows = rows
	return v.show(&page{Name: "stuck", Title: "Stuck", Data: d})
}

const quickMessages = 100_000 // that are read before somebody asks for all

// large says that the table of messages is too large for a short look.
func (v *visit) large() (bool, error) {
	s, err := v.sample(v.ctx())
	if err != nil || s.Stats == nil {
		return false, err
	}
	return slices.ContainsFunc(s.Stats.Tables, func(t ledger.TableStats) bool { return t.Name == "message" && t.Rows > quickMessages }), nil
}

// stuckFilter keeps of a filter what messages have.
func stuckFilter(f ledger.Filter) ledger.Filter {
	return ledger.Filter{Scope: f.Scope, Stuck: true, IDs: f.IDs, Error: f.Error, From: f.From, To: f.To, Offsets: f.Offsets}
}

const maxStuck = 1000

// findStuck reads the whole table of messages.
func (u *UI) findStuck(ctx context.Context, f ledger.Filter, j *job) error {
	for m, err := range u.op.Messages(ctx, stuckFilter(f)) {
		if err != nil {
			return err
		}
		more := false
		j.set(func(s *jobState) {
			if more = len(s.Stuck) == maxStuck; more {
				s.More = true
				return
			}
			s.Stuck = append(s.Stuck, m)
			s.Done++
		})
		if more {
			break
		}
	}
	return nil
}

// search begins a job that reads much and changes nothing.
func (v *visit) search() error {
	kind := jobKind(v.query.Get("what"))
	f, err := filterOf(v.query, time.Now())
	if err == nil {
		err = v.need(Read, f.Scope)
	}
	if err != nil {
		return err
	}
	j := &job{Kind: kind, Scope: f.Scope, Action: Read, Words: words(filterQuery(v.query)), query: filterQuery(v.query)}
	switch kind {
	case kindErrors:
		j.run = func(ctx context.Context, j *job) error { return v.groupAll(ctx, f, j) }
	case kindStuck:
		j.run = func(ctx context.Context, j *job) error { return v.findStuck(ctx, f, j) }
	case kindDoctor:
		if v.o.Doctor == nil {
			return refuse(http.StatusNotFound, "there is no doctor here")
		}
		j.run = v.examine
	default:
		return refuse(http.StatusBadRequest, "there is no search %q", kind)
	}
	if _, err := v.begin(j); err != nil {
		return err
	}
	return v.to(string(kind), j.query)
}

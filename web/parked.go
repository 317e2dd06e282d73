package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

// parkedData is the page of retries that wait in the ledger.
type parkedData struct {
	*listData
	Run  string
	Drop string
}

// parker is the ledger as one that parks.
func (v *visit) parker() (ledger.ParkingOperator, error) {
	p, ok := v.op.(ledger.ParkingOperator)
	if !ok {
		return nil, refuse(http.StatusNotFound, "this ledger parks no messages")
	}
	return p, nil
}

// parkedFilter keeps of a filter what parked messages have.
func parkedFilter(f ledger.Filter) ledger.Filter {
	return ledger.Filter{Scope: f.Scope, IDs: f.IDs, Error: f.Error, Group: f.Group, From: f.From, To: f.To, Offsets: f.Offsets, Limit: f.Limit}
}

// parked lists retries that wait in the ledger, those first that are due first.
func (v *visit) parked() error {
	p, err := v.parker()
	if err != nil {
		return err
	}
	list, f, err := v.newList("parked")
	if err != nil {
		return err
	}
	d := &parkedData{listData: list, Run: "run-now?" + list.Filter.Encode(), Drop: "drop?" + list.Filter.Encode()}
	skip := 0
	if after := v.query.Get("after"); after != "" {
		if skip, err = strconv.Atoi(after); err != nil || skip < 0 || skip > maxParked {
			return refuse(http.StatusBadRequest, "after: not the place of a page")
		}
	}
	var rows []ledger.ParkedMessage
	place := 0
	for m, err := range p.ParkedMessages(v.ctx(), parkedFilter(f)) {
		if err != nil {
			return err
		}
		if len(rows) == pageRows {
			d.Next = parkedAfter(d.Filter, place)
			break
		}
		if place++; place > skip && v.can(Read, m.Key.Scope) {
			rows = append(rows, m)
		}
	}
	d.Rows = rows
	return v.show(&page{Name: "parked", Title: "Parked", Data: d})
}

// maxParked is how many parked messages can be turned over: each page reads those before it.
const maxParked = 20_000

// parkedAfter is the page behind so many; empty: there is none so far.
func parkedAfter(filter url.Values, place int) string {
	if place > maxParked {
		return ""
	}
	q := maps.Clone(filter)
	q.Set("after", strconv.Itoa(place))
	return "parked?" + q.Encode()
}

func (v *visit) runNowForm() error { return v.form("run-now", "Run now", RunNow) }

func (v *visit) dropForm() error { return v.form("drop", "Drop", Drop) }

func (v *visit) runNow() error { return v.changeParked(RunNow, ledger.ActionRunNow) }

func (v *visit) drop() error { return v.changeParked(Drop, ledger.ActionDrop) }

// changeParked begins the dry run of a change of what is parked.
func (v *visit) changeParked(a Action, action ledger.Action) error {
	p, err := v.parker()
	if err != nil {
		return err
	}
	f, by, err := v.planned(a)
	if err != nil {
		return err
	}
	return v.start(changingParked(p, a, ledger.ParkedRequest{Filter: parkedFilter(f), Action: action, By: by, DryRun: true}))
}

func changingParked(p ledger.ParkingOperator, a Action, r ledger.ParkedRequest) *job {
	j := &job{Kind: jobKind(a), Scope: r.Filter.Scope, Action: a, DryRun: r.DryRun, By: r.By}
	j.run = func(ctx context.Context, j *job) error {
		r.Progress = func(p ledger.ParkedReport) { j.set(func(s *jobState) { s.Done, s.Parked = p.Matched, &p }) }
		report, err := p.ChangeParked(ctx, r)
		if err == nil {
			j.set(func(s *jobState) { s.Done, s.Parked = report.Matched, &report })
		}
		return err
	}
	if r.DryRun {
		j.next = func(by ledger.By) *job {
			r := r
			r.DryRun, r.By = false, by
			return changingParked(p, a, r)
		}
	}
	return j
}

// parkedDue says when a parked message runs.
func parkedDue(s ledger.Status) string {
	switch {
	case s.State != ledger.Pending:
		return stateText(s.State)
	case s.Holder == ledger.Live:
		return "runs"
	case s.DueIn <= 0:
		return "now"
	}
	return "in " + operate.Short(s.DueIn)
}

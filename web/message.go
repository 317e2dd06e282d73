package web

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

// messageData is the page of one message.
type messageData struct {
	*ledger.Record
	Link     string // names it, for links and forms
	Only     string // selects it alone
	Status   ledger.Status
	Holder   string
	Letters  []letterView
	Timeline []moment
	Audit    []ledger.AuditRecord
	Mendable bool
}

// letterView is an archived delivery.
type letterView struct {
	*ledger.ArchiveRecord
	Link string // names it, for forms
	Note string // why its body cannot be shown
}

// moment is something that happened to a message.
type moment struct {
	At   time.Time
	What string
	Text string
	Bad  bool
}

const maxAudit = 200 // rows of one message that are shown

// message shows one message, or the ones of several scopes that an id may mean.
func (v *visit) message() error {
	scope, id := v.query.Get("scope"), []byte(v.query.Get("id"))
	if scope != "" {
		if err := v.need(Read, scope); err != nil {
			return err
		}
	}
	if len(id) == 0 {
		return v.show(&page{Name: "find", Title: "Find a message"})
	}
	if v.query.Get("key") != "" {
		r, err := v.record(false)
		if err != nil {
			return err
		}
		return v.showMessage(r)
	}
	found, err := v.op.Find(ledger.WithoutBodies(v.ctx()), scope, id)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(r ledger.Record) bool { return !v.can(Read, r.Scope) })
	switch len(found) {
	case 0:
		return refuse(http.StatusNotFound, "the ledger knows nothing of %s that you may see", operate.Text(string(id)))
	case 1:
		return v.showMessage(&found[0])
	}
	return v.show(&page{Name: "find", Title: "Find a message", Data: found})
}

// record looks up the message that the URL names, by its key.
func (v *visit) record(bodies bool) (*ledger.Record, error) {
	scope, id := v.query.Get("scope"), []byte(v.query.Get("id"))
	sum, err := hex.DecodeString(v.query.Get("key"))
	if err != nil || len(sum) != ledger.KeySize || scope == "" || checks.ID(id) != nil {
		return nil, refuse(http.StatusBadRequest, "the link does not name a message")
	}
	if err := v.need(Read, scope); err != nil {
		return nil, err
	}
	ctx := v.ctx()
	if !bodies {
		ctx = ledger.WithoutBodies(ctx)
	}
	r, err := v.op.Get(ctx, ledger.KeyOfSum(scope, id, [ledger.KeySize]byte(sum)))
	if err != nil && (!errors.Is(err, ledger.ErrNotFound) || len(r.Archived)+len(r.Past) == 0) {
		return nil, err
	}
	if r.Scope != "" && r.Scope != scope || slices.ContainsFunc(r.Archived, func(a ledger.ArchiveRecord) bool { return a.Key.Scope != scope }) {
		return nil, refuse(http.StatusBadRequest, "the link names another scope than the message's own")
	}
	r.Scope, r.ID, r.Key = scope, id, [ledger.KeySize]byte(sum)
	return &r, nil
}

func (v *visit) showMessage(r *ledger.Record) error {
	key := r.MessageKey()
	d := &messageData{Record: r, Link: messageQuery(r.Scope, r.ID, r.Key).Encode(),
		Only: url.Values{"scope": {r.Scope}, "id": {string(r.ID)}}.Encode()}
	status, err := v.op.Status(v.ctx(), []ledger.Key{key})
	if err != nil {
		return err
	}
	d.Status = status[0]
	if d.Holder = "nobody"; d.Status.Holder != ledger.Nobody {
		d.Holder = fateText(d.Status.Holder, d.Status.HeldFor)
	}
	for i := range r.Archived {
		a := &r.Archived[i]
		view := letterView{ArchiveRecord: a, Link: d.Link + "&delivery=" + hex.EncodeToString(a.Delivery)}
		switch {
		case !a.Purged.IsZero():
			view.Note = "purged"
		case a.Sealed() && v.o.Cipher == nil:
			view.Note = "sealed by the workers' cipher"
		}
		d.Letters = append(d.Letters, view)
	}
	for a, err := range v.op.Audits(v.ctx(), ledger.AuditFilter{Key: &key, Limit: maxAudit}) {
		if err != nil {
			return err
		}
		d.Audit = append(d.Audit, a)
	}
	d.Timeline = timeline(d)
	d.Mendable = r.State == ledger.Failed && len(r.Archived) > 0
	return v.show(&page{Name: "message", Title: "Message", Data: d})
}

// timeline is all that has a time, the oldest first.
func timeline(d *messageData) (all []moment) {
	add := func(at time.Time, bad bool, what, format string, args ...any) {
		if !at.IsZero() {
			all = append(all, moment{at, what, fmt.Sprintf(format, args...), bad})
		}
	}
	failed := func(list []ledger.AttemptError) {
		for _, e := range list {
			if !slices.ContainsFunc(all, func(m moment) bool { return m.At.Equal(e.At) && m.What == fmt.Sprintf("attempt %d", e.Attempt) }) {
				add(e.At, true, fmt.Sprintf("attempt %d", e.Attempt), "%s: %s", e.Kind, e.Error)
			}
		}
	}
	r := d.Record
	for _, p := range r.Past {
		add(p.At, false, "earlier life", "%s, token %d, %d attempts, %d crashes; kept until %s", p.State, p.Token, p.Attempts, p.Crashes,
			p.Until.UTC().Format(time.RFC3339))
	}
	for i := range d.Letters {
		a := d.Letters[i].ArchiveRecord
		add(a.SentAt, false, "sent", "to %s", operate.Text(a.Source))
		failed(a.Errors)
		add(a.At, true, "dead letter", "%s after %d attempts, token %d", a.Kind, a.Attempts, a.Token)
		add(a.Replayed, false, "replayed", "delivery %s", operate.Text(string(a.Delivery)))
		add(a.Purged, false, "purged", "delivery %s", operate.Text(string(a.Delivery)))
	}
	if r.In == nil {
		add(r.At, false, "first claim", "token %d now, %d attempts, %d crashes", r.Token, r.Attempts, r.Crashes)
	} else {
		add(r.In.Since, false, "first claim", "with the offsets %d to %d of its log", r.In.From, r.In.To-1)
		add(r.In.Until, false, "finished", "with the offsets %d to %d of its log", r.In.From, r.In.To-1)
	}
	failed(r.Errors)
	for _, s := range r.Steps {
		add(s.At, s.Failed, "step", "%s, %s", operate.Text(s.Name), operate.Size(int64(s.Size)))
	}
	for i := range d.Audit {
		a := &d.Audit[i]
		add(a.At, false, string(a.Action), "by %s: %s %s", operate.Text(a.By.Actor), a.By.Reason, a.Detail)
	}
	if r.State == ledger.Pending {
		add(r.Due, false, "due", "its next attempt")
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return slices.Compact(all)
}

package web

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

// listData is a page of a list.
type listData struct {
	Filter url.Values
	Words  string
	Kinds  []ledger.FailureKind
	Scopes []string
	States []string // that a message may be in
	Rows   any
	Next   string            // of the next page; empty: there is none
	First  string            // of the first; empty: this is it
	Cut    bool              // the time was up before the end
	Begin  map[string]string // forms of acts on what is selected
}

// newList is a list without rows.
func (v *visit) newList(name string) (*listData, ledger.Filter, error) {
	f, err := filterOf(v.query, time.Now())
	if err == nil && f.Scope != "" { // of all, what the viewer may see is shown
		err = v.need(Read, f.Scope)
	}
	if err != nil {
		return nil, f, err
	}
	q := filterQuery(v.query)
	d := &listData{Filter: q, Words: words(q), Kinds: operate.Kinds, States: []string{"pending", "succeeded", "failed"}, Begin: map[string]string{}}
	if v.query.Has("after") {
		d.First = name + "?" + q.Encode()
	}
	for _, act := range []string{"replay", "purge", "errors"} {
		d.Begin[act] = act + "?" + q.Encode()
	}
	scopes, err := v.op.Scopes(v.ctx())
	d.Scopes = slices.DeleteFunc(scopes, func(s string) bool { return !v.can(Read, s) })
	return d, f, err
}

// deadData is a page of dead letters.
type deadData struct {
	*listData
	Oldest bool         // they come first
	Turned string       // the other way round
	Others []sourceLink // brokers' queues and topics to replay from
}

// dead lists dead letters.
func (v *visit) dead() error {
	list, f, err := v.newList("dead")
	if err != nil {
		return err
	}
	d := &deadData{listData: list, Oldest: v.query.Get("order") == oldest, Others: v.links(list.Filter)}
	turned := maps.Clone(d.Filter)
	if f.Newest = !d.Oldest; d.Oldest {
		if d.First != "" {
			d.First = "dead?" + ordered(d.Filter).Encode()
		}
	} else {
		turned = ordered(turned)
	}
	d.Turned = "dead?" + turned.Encode()
	rows, next, err := v.letters(f, v.query.Get("after"))
	if d.Cut = errors.Is(err, context.DeadlineExceeded); err != nil && !d.Cut {
		return err
	}
	if d.Rows = rows; next != "" {
		q := maps.Clone(d.Filter)
		if d.Oldest {
			q = ordered(q)
		}
		q.Set("after", next)
		d.Next = "dead?" + q.Encode()
	}
	return v.show(&page{Name: "dead", Title: "Dead letters", Data: d})
}

const oldest = "oldest"

// ordered asks for the oldest first.
func ordered(q url.Values) url.Values {
	q = maps.Clone(q)
	q.Set("order", oldest)
	return q
}

// letters reads a page behind a mark. Of what was archived at the very time of the mark, what the list brings up to the named one was
// shown; if the named one is gone, all of that time is shown again. When the time is up, next is where the list was.
func (v *visit) letters(f ledger.Filter, after string) (rows []ledger.DeadLetter, next string, err error) {
	var from mark
	found := after == ""
	if !found {
		if from, err = readMark(after); err != nil {
			return nil, "", err
		}
		if f.Newest {
			f.To = from.at.Add(time.Microsecond) // stores keep no less
		} else {
			f.From = from.at
		}
	}
	f.Cipher = v.o.Cipher
	all := f // that is read, so that the place is known when the time is up
	all.Error, all.Group, all.HeaderName, all.HeaderValue, all.Body = "", "", "", "", f.NeedsBody()
	if err := f.Check(); err != nil {
		return nil, "", err
	}
	for d, err := range v.op.DeadLetters(v.ctx(), all) {
		if len(rows) == pageRows && (err != nil || found || !d.At.Equal(from.at)) {
			return rows, markOf(&rows[pageRows-1]), nil
		}
		if err != nil {
			return rows, next, err
		}
		if !v.can(Read, d.Key.Scope) {
			continue
		}
		if next = markOf(&d); !found && from.names(&d) {
			rows, found = rows[:0], true
			continue
		}
		kept, err := f.Keep(v.ctx(), &d)
		if err != nil {
			return rows, next, err
		}
		if kept && len(rows) < pageRows {
			rows = append(rows, d)
		}
	}
	return rows, "", nil
}

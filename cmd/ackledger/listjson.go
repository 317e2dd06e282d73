package main

import (
	"cmp"
	"encoding/hex"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// message is a message for programs. Ids and scopes are as `text` shows them.
type message struct {
	Scope       string     `json:"scope"`
	ID          string     `json:"id"`
	Key         string     `json:"key,omitempty"` // the stored bytes, in hexadecimal digits
	State       string     `json:"state"`         // "gone": only its archive or past is left
	Fingerprint string     `json:"fingerprint,omitempty"`
	Token       uint64     `json:"token"`
	Generation  int        `json:"generation"`
	Attempts    int        `json:"attempts"`
	Crashes     int        `json:"crashes"`
	Owner       string     `json:"owner,omitempty"`
	Holder      string     `json:"holder,omitempty"`
	Free        *bool      `json:"free,omitempty"` // pending ones: it waits for nothing but a copy of it
	At          *time.Time `json:"at,omitempty"`
	Due         *time.Time `json:"due,omitempty"`
	Expiry      *time.Time `json:"expiry,omitempty"`
	Errors      []failure  `json:"errors,omitempty"`
	ResultBytes int        `json:"result_bytes,omitempty"`
	In          *segment   `json:"in,omitempty"`
}

// segment says what a message is held together with, which has no row of its own.
type segment struct {
	From  int64      `json:"from"`
	To    int64      `json:"to"`
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

type failure struct {
	Attempt int        `json:"attempt"`
	Kind    string     `json:"kind"`
	Error   string     `json:"error"`
	At      *time.Time `json:"at,omitempty"`
}

// deadLetter is an archived delivery for programs.
type deadLetter struct {
	Scope      string          `json:"scope"`
	ID         string          `json:"id"`
	Delivery   string          `json:"delivery"`
	Kind       string          `json:"kind"`
	State      string          `json:"state,omitempty"` // of its message, now
	Superseded bool            `json:"superseded,omitempty"`
	Renewed    bool            `json:"renewed,omitempty"` // and has not run since
	Token      uint64          `json:"token"`
	Generation int             `json:"generation"`
	Attempts   int             `json:"attempts"`
	Source     string          `json:"source"`
	Group      string          `json:"group,omitempty"`
	Sent       *bool           `json:"sent,omitempty"` // to the dead-letter target; a mismatch is archived before, so that it is not known
	SentAt     *time.Time      `json:"sent_at,omitempty"`
	At         *time.Time      `json:"at,omitempty"`
	Expiry     *time.Time      `json:"expiry,omitempty"`
	Replayed   *time.Time      `json:"replayed,omitempty"`
	Purged     *time.Time      `json:"purged,omitempty"`
	Errors     []failure       `json:"errors,omitempty"`
	Content    *deadLetterBody `json:"content,omitempty"` // asked for
}

// deadLetterBody has bytes in base64; null is not empty.
type deadLetterBody struct {
	Sealed  bool            `json:"sealed,omitempty"`   // by the workers' cipher
	LeftOut *ledger.LeftOut `json:"left_out,omitempty"` // the body was too large to be archived, or a batch to be unpacked
	Body    []byte          `json:"body"`
	Headers []ledger.Header `json:"headers"`
}

// stamp is a time for programs; none is left out.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func newFailures(list []ledger.AttemptError) []failure {
	var out []failure
	for _, e := range list {
		out = append(out, failure{Attempt: e.Attempt, Kind: string(e.Kind), Error: e.Error, At: stamp(e.At)})
	}
	return out
}

func newRecord(r *ledger.Record) message {
	m := message{
		Scope: text(r.Scope), ID: text(string(r.ID)), Key: hex.EncodeToString(r.Key[:]), State: stateText(r.State), Token: r.Token,
		Generation: r.Generation, Attempts: r.Attempts, Crashes: r.Crashes, Owner: r.Owner, At: stamp(r.At), Due: stamp(r.Due),
		Expiry: stamp(r.Expiry), Errors: newFailures(r.Errors), ResultBytes: len(r.Result),
	}
	if !r.Fingerprint.IsZero() {
		m.Fingerprint = hex.EncodeToString(r.Fingerprint[:])
	}
	if r.In != nil {
		m.In = &segment{From: r.In.From, To: r.In.To, Since: stamp(r.In.Since), Until: stamp(r.In.Until)}
	}
	return m
}

func newMessage(l *ledger.Listed) message {
	m := newRecord(&l.Record)
	if l.State == ledger.Pending {
		m.Holder, m.Free = holderText(&l.Status), new(l.Status.Free())
	}
	return m
}

func newArchived(r *ledger.ArchiveRecord) deadLetter {
	out := deadLetter{
		Scope: text(r.Key.Scope), ID: text(string(r.Key.ID)), Delivery: text(string(r.Delivery)), Kind: string(r.Kind),
		Token: r.Token, Generation: r.Generation, Attempts: r.Attempts, Source: text(r.Source), Group: text(r.Group),
		SentAt: stamp(r.SentAt), At: stamp(r.At), Expiry: stamp(r.Expiry), Replayed: stamp(r.Replayed), Purged: stamp(r.Purged),
		Errors: newFailures(r.Errors),
	}
	if r.Sent || r.Kind != ledger.KindMismatch {
		out.Sent = new(r.Sent)
	}
	return out
}

func newDeadLetter(d *ledger.DeadLetter) deadLetter {
	out := newArchived(&d.ArchiveRecord)
	out.State, out.Superseded, out.Renewed = stateText(d.Status.State), d.Superseded, replay.Renewed(d)
	if d.Body != nil || d.Headers != nil {
		out.Content = newContent(&d.Archive)
	}
	return out
}

func newContent(a *ledger.Archive) *deadLetterBody {
	c := &deadLetterBody{Sealed: a.Sealed(), Body: a.Body}
	if left, ok := a.LeftOut(); ok {
		c.LeftOut = &left
		a.UnmarkLeftOut()
	}
	c.Headers = a.Headers
	return c
}

var holders = map[ledger.Holder]string{ledger.Live: "live", ledger.Left: "left", ledger.Dead: "dead"}

// holderText says who holds a message. An owner is overdue once its lease is over, until a peer declares it dead.
func holderText(s *ledger.Status) string {
	if s.Holder == ledger.Live && s.HeldFor <= 0 {
		return "overdue"
	}
	return cmp.Or(holders[s.Holder], "nobody")
}

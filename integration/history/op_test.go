package history_test

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// kind is what a call does.
type kind string

const (
	doJoin    kind = "join"
	doClaim   kind = "claim"
	doSettle  kind = "settle"
	doBeat    kind = "beat"
	doLeave   kind = "leave"
	doDeclare kind = "declare" // what a peer's beat does with an overdue owner, at a moment of the test's choice
	doReopen  kind = "reopen"
	doRenew   kind = "renew"
	doGet     kind = "get"
	theEnd    kind = "end" // no call: all that were answered have been
)

// never is when a call returns whose answer is not known.
const never = int64(math.MaxInt64)

// allKeys is the key of calls that are about an owner.
const allKeys = -1

// op is one call for one message, or about one owner. A batch of three entries is three of them, with the same times.
type op struct {
	Client       int
	Call, Return int64 // nanoseconds of a clock that all processes of the machine share
	Limit        int64 // how long it was allowed to take
	Lease        int64 `json:",omitempty"` // join, beat
	Kind         kind
	Owner        string // who calls; with declare, whose end it is; with join, whom it made
	Key          int
	// Void: the call failed in a way that must have changed nothing.
	Void   bool `json:",omitempty"`
	unsure bool // its own error says that it may have happened

	Delivery   int               `json:",omitempty"` // claim, settle with Fail
	Stamp      uint64            `json:",omitempty"`
	Solo, Park bool              `json:",omitempty"`
	Settle     ledger.SettleKind `json:",omitempty"`
	Token      uint64            `json:",omitempty"` // of the ticket; with renew, the guard
	From       string            `json:",omitempty"` // whose ticket it is
	Mismatch   bool              `json:",omitempty"` // the ticket's
	Count      bool              `json:",omitempty"`
	Fresh      bool              `json:",omitempty"`
	After      time.Duration     `json:",omitempty"`
	Result     string            `json:",omitempty"` // empty: none

	Lost    bool    `json:",omitempty"` // ErrLost; with renew, ErrChanged
	Done    bool    `json:",omitempty"` // reopen: it was
	Skipped bool    `json:",omitempty"` // reopen
	Got     *answer `json:",omitempty"` // claim
	Row     *view   `json:",omitempty"` // get

	owner     int    // number of Owner in its part of the history
	from      int    // of From
	partial   bool   // what was written before the caller was told that it is lost, if anything was
	contended bool   // something else may have held the row locked
	repeated  bool   // in a range, its owner may go by what the ticket was settled as before
	leaving   bool   // its owner was asked to leave meanwhile, in vain: while it is, it is lost to its own process
	mixed     bool   // claim: the message may have been reopened after it was read, and before its archive was
	filed     uint16 // reopen: the deliveries of mismatches that may have been archived during it
}

// answer is what a claim said.
type answer struct {
	Answer     ledger.Answer
	Token      uint64
	Attempt    int
	Crashes    int
	Generation int
	Errors     int
	Wait       time.Duration
	Suspect    bool
	Uncertain  bool
	TookOver   bool
	State      ledger.State
	Result     string
}

// view is what a reader saw of a row.
type view struct {
	State                                  ledger.State // 0: no row
	Owner                                  string
	Token                                  uint64
	Attempts, Crashes, Generation, Archive int
	Result                                 string
	holder                                 int
}

func (o *op) unknown() bool { return o.Return == never }

// open says whether it is not known what the call did.
func (o *op) open() bool { return o.unknown() || o.partial }

// locks says whether the call may hold its message's row locked for a moment.
func (o *op) locks() bool { return o.Key != allKeys && o.Kind != doGet }

// String shows the call for people.
func (o *op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "c%d %s", o.Client, o.Kind)
	if o.Owner != "" {
		fmt.Fprintf(&b, " %s", o.Owner)
	}
	if o.Key != allKeys {
		fmt.Fprintf(&b, " key %d", o.Key)
	}
	switch o.Kind {
	case doClaim:
		fmt.Fprintf(&b, " delivery %d", o.Delivery)
		note(&b, o.Stamp != 0, " stamp %d", o.Stamp)
		note(&b, o.Solo, " solo")
		note(&b, o.Park, " park")
	case doSettle:
		fmt.Fprintf(&b, " %v token %d", o.Settle, o.Token)
		note(&b, o.From != o.Owner, " (ticket of %s)", o.From)
		note(&b, o.Mismatch, " (mismatch)")
		note(&b, o.Settle == ledger.Fail, " delivery %d", o.Delivery)
		note(&b, o.Count, " counted")
		note(&b, o.After > 0, " after %v", o.After)
		note(&b, o.Result != "", " result %s", o.Result)
	case doRenew:
		fmt.Fprintf(&b, " token %d", o.Token)
	case doReopen:
		note(&b, o.Fresh, " fresh keys")
	}
	b.WriteString(" -> ")
	b.WriteString(o.outcome())
	return b.String()
}

func note(b *strings.Builder, when bool, format string, args ...any) {
	if when {
		fmt.Fprintf(b, format, args...)
	}
}

func (o *op) outcome() string {
	switch {
	case o.Void:
		return "refused"
	case o.partial:
		return "lost, perhaps after a part of it"
	case o.unknown():
		return "unknown"
	case o.Lost:
		return "lost"
	case o.Got != nil:
		return o.Got.String()
	case o.Row != nil:
		return fmt.Sprintf("%+v", *o.Row)
	case o.Kind == doReopen:
		return fmt.Sprintf("done %t skipped %t", o.Done, o.Skipped)
	}
	return "ok"
}

// String shows the answer for people.
func (a *answer) String() string {
	var b strings.Builder
	b.WriteString(a.Answer.String())
	note(&b, a.Token != 0, " token %d", a.Token)
	note(&b, a.Attempt != 0, " attempt %d", a.Attempt)
	note(&b, a.Crashes != 0, " crashes %d", a.Crashes)
	note(&b, a.Generation != 0, " generation %d", a.Generation)
	note(&b, a.Errors != 0, " errors %d", a.Errors)
	note(&b, a.Wait != 0, " wait %v", a.Wait)
	note(&b, a.Suspect, " suspect")
	note(&b, a.Uncertain, " uncertain")
	note(&b, a.TookOver, " took over")
	note(&b, a.State != 0, " %v", a.State)
	note(&b, a.Result != "", " result %s", a.Result)
	return b.String()
}

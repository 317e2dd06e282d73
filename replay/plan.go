package replay

import "github.com/ackledger/ackledger/ledger"

// Step is what becomes of one dead letter. The zero value leaves it where it is.
type Step uint8

// The steps.
const (
	Leave    Step = iota // nothing is done: another run will see
	Send                 // it is sent again, or handled in place, and then removed from its source
	Drop                 // it is done with: removed from its source
	Refuse               // it is not sent without being asked for, or cannot be: it stays
	Mismatch             // it is no copy of what has its id: it stays, and is sent on request as a message of its own
)

// String returns the step in the vocabulary of logs and reports.
func (s Step) String() string {
	if int(s) < len(steps) {
		return steps[s]
	}
	return "invalid"
}

var steps = [...]string{Leave: "leave", Send: "send", Drop: "drop", Refuse: "refuse", Mismatch: "mismatch"}

// Reason says why, in words that a report counts by.
type Reason string

// The reasons of [Plan], and of targets.
const (
	Failed     Reason = "failed"
	Abandoned  Reason = "pending, and nobody's"
	New        Reason = "never seen by its consumer"
	Forgotten  Reason = "it failed once, and the ledger has no row of it any more: whether it succeeded since is not known"
	Succeeded  Reason = "succeeded already"
	Unproved   Reason = "its place in the log succeeded, with which body is not known any more"
	Superseded Reason = "superseded: a later dead letter of its message takes its place"
	Live       Reason = "a live worker has it"
	Backoff    Reason = "it waits for its next attempt"
	OtherBody  Reason = "another body is known under its id"
	Mended     Reason = "its body was mended since: the ledger's archive has the new one"
	Behind     Reason = "behind one of its group or key that failed or is left"
	Sealed     Reason = "it is sealed by the workers' cipher, which this run does not have"
	Astray     Reason = "its archive record names another source than its scope"
	LeftOut    Reason = "it was too large to be archived with its body, which is in the log"
	Keyless    Reason = "its stamp is signed, and this run has no keys: no worker would take its copy for what it is"
	Unsigned   Reason = "no key of this run has signed its stamp, and the ledger does not know its message with this body"
	Unvouched  Reason = "its consumer has never seen it with this body, and only it says where it came from: anybody may have put it there"
	Stranger   Reason = "it has no stamp of its own body: whose copy it is is not known"
)

// Case is what is known of one dead letter when it is decided upon.
type Case struct {
	// Identified says that the dead letter names its message: by a stamp of its own body, by the id that SQS kept when it
	// moved the message, or because the ledger archived it.
	Identified bool
	// Archived says that it comes from the ledger's archive, which nobody can forge, and where nothing is removed.
	Archived bool
	// Vouched says that not the letter alone says where it came from and what it is: the broker does (Letter.Moved), or the
	// ledger, which knows it.
	Vouched bool
	// Superseded says that a later letter of the message is archived: of another failure, or a mended one.
	Superseded bool
	// Kind is why it failed; empty: not known.
	Kind ledger.FailureKind
	// Token is the failing claim's; 0: not known.
	Token       uint64
	Fingerprint ledger.Fingerprint
	Status      ledger.Status // of its message
	// Proved says that the message is known to have had this body: needed of a succeeded one whose row has been folded
	// away, so that its fingerprint is not known any more.
	Proved bool
	// Renewals is how often the row's last failure was renewed (ledger.Renewal): its token grew by as many since, and that is
	// no later failure.
	Renewals uint64
	// Mended says that the message is known to have failed with this body, which was mended since (ledger.Renewal).
	Mended bool
	// Unknown says that the caller takes messages that the ledger does not know, or not any more.
	Unknown bool
}

// Decision is what [Plan] says.
type Decision struct {
	Step   Step
	Reason Reason
	// Token is, with Send, the one for the copy's stamp.
	Token uint64
}

// Plan decides about one dead letter. It is pure: no clock, no chance, no I/O. Whatever it says may be late by the time it
// is done; then the claim table (ledger.Decide) makes the copy harmless.
func Plan(c Case) Decision {
	d := planLetter(c)
	if d.Step == Send && !c.Vouched && !c.Unknown {
		return Decision{Step: Refuse, Reason: Unvouched}
	}
	return d
}

func planLetter(c Case) Decision {
	s := c.Status
	switch {
	case !c.Identified:
		return Decision{Step: Mismatch, Reason: Stranger}
	case c.Kind == ledger.KindMismatch:
		return Decision{Step: Mismatch, Reason: OtherBody}
	case c.Archived && (c.Superseded || s.State != 0 && c.Token != 0 && c.Token < s.Token && s.State != ledger.Pending && !s.Fingerprint.Agrees(c.Fingerprint)):
		return Decision{Step: Drop, Reason: Superseded}
	case s.State == 0 && c.Token != 0 && !c.Unknown:
		return Decision{Step: Refuse, Reason: Forgotten}
	case s.State == 0:
		return Decision{Step: Send, Reason: New, Token: c.Token}
	case !s.Fingerprint.IsZero() && !s.Fingerprint.Agrees(c.Fingerprint) && c.Mended:
		if s.State == ledger.Succeeded {
			return Decision{Step: Drop, Reason: Succeeded}
		}
		return Decision{Step: Leave, Reason: Mended}
	case !s.Fingerprint.IsZero() && !s.Fingerprint.Agrees(c.Fingerprint):
		return Decision{Step: Mismatch, Reason: OtherBody}
	}
	return planRow(c)
}

// planRow decides by the state of a message whose body this is.
func planRow(c Case) Decision {
	switch s := c.Status; s.State {
	case ledger.Succeeded:
		if s.Fingerprint.IsZero() && !c.Proved {
			return Decision{Step: Leave, Reason: Unproved}
		}
		return Decision{Step: Drop, Reason: Succeeded}
	case ledger.Failed:
		if c.Token != 0 && c.Token+c.Renewals < s.Token {
			return Decision{Step: Drop, Reason: Superseded}
		}
		return Decision{Step: Send, Reason: Failed, Token: s.Token}
	case ledger.Pending:
		switch {
		case s.Free():
			return Decision{Step: Send, Reason: Abandoned, Token: s.Token}
		case s.Holder == ledger.Live && s.HeldFor > 0:
			return Decision{Step: Leave, Reason: Live}
		}
		return Decision{Step: Leave, Reason: Backoff}
	}
	return Decision{} // no state that is known: leave it
}

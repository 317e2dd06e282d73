package sim

import (
	"context"
	"errors"

	"github.com/ackledger/ackledger/ledger"
)

// answered is what the ledger must have counted of its answers ([ledger.Stats]). What it counted of a torn call is not known.
type answered struct {
	ledger.Answered
	perhaps int64 // releases of which it is not known whether they lay in a range, and so are counted back
	unsure  bool
}

// claims notes the answers to a claim.
func (a *answered) claims(answers []ledger.Claim) {
	for i := range answers {
		if answers[i].Answer == ledger.Busy {
			continue
		}
		a.Decided++
		if answers[i].Answer == ledger.Done {
			a.Duplicates++
		}
		if answers[i].First {
			a.First++
		}
	}
}

// whole notes messages that were claimed as one range.
func (a *answered) whole(messages int) {
	a.Decided += int64(messages)
	a.First += int64(messages)
}

// back notes a message that was given back as if never claimed; sure says that it lay in a range.
func (a *answered) back(sure bool) {
	if sure {
		a.First--
	} else {
		a.perhaps++
	}
}

// mustCountAnswers checks what the ledger has counted of its answers.
func (w *world) mustCountAnswers() {
	stats, err := w.ledger.Stats(context.Background())
	want, is := &w.answers, stats.Answered
	for _, l := range w.ledgers {
		more, bad := l.Stats(context.Background())
		err = errors.Join(err, bad)
		is.Decided, is.Duplicates, is.First = is.Decided+more.Answered.Decided, is.Duplicates+more.Answered.Duplicates, is.First+more.Answered.First
	}
	low := want.First - want.perhaps
	if err != nil || !want.unsure && (is.Decided != want.Decided || is.Duplicates != want.Duplicates || is.First < low || is.First > want.First) {
		w.breaks(none, "the ledger counts its answers: %+v, %v, not %+v, of which %d are perhaps not the first", is, err, want.Answered, want.perhaps)
	}
}

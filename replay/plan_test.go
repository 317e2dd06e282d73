package replay_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"pgregory.net/rapid"
)

var (
	this  = ledger.BodyFingerprint([]byte("this body"))
	other = ledger.BodyFingerprint([]byte("another body"))
)

// letter is a dead letter with a stamp of its own body, that failed under token 3.
func letter(s ledger.Status, change ...func(*replay.Case)) replay.Case {
	c := replay.Case{Identified: true, Vouched: true, Token: 3, Fingerprint: this, Status: s}
	for _, f := range change {
		f(&c)
	}
	return c
}

func row(s ledger.State, token uint64, f ledger.Fingerprint) ledger.Status {
	return ledger.Status{State: s, Token: token, Fingerprint: f}
}

func TestPlan(t *testing.T) {
	stranger := func(c *replay.Case) { c.Identified = false }
	mismatch := func(c *replay.Case) { c.Kind = ledger.KindMismatch }
	alone := func(c *replay.Case) { c.Vouched = false }
	unstamped := func(c *replay.Case) { c.Token = 0 }
	archived := func(c *replay.Case) { c.Archived = true }
	later := func(c *replay.Case) { c.Superseded = true }
	unknown := func(c *replay.Case) { c.Unknown = true }
	proved := func(c *replay.Case) { c.Proved = true }
	held := func(s ledger.Status, h ledger.Holder, rest, due time.Duration) ledger.Status {
		s.Holder, s.HeldFor, s.DueIn = h, rest, due
		return s
	}
	pending := row(ledger.Pending, 4, this)
	for name, c := range map[string]struct {
		in   replay.Case
		want replay.Decision
	}{
		"failed with this token":               {letter(row(ledger.Failed, 3, this)), replay.Decision{Step: replay.Send, Reason: replay.Failed, Token: 3}},
		"failed, moved by SQS":                 {letter(row(ledger.Failed, 3, this), unstamped), replay.Decision{Step: replay.Send, Reason: replay.Failed, Token: 3}},
		"failed under a lower token":           {letter(row(ledger.Failed, 1, this)), replay.Decision{Step: replay.Send, Reason: replay.Failed, Token: 1}},
		"superseded":                           {letter(row(ledger.Failed, 4, this)), replay.Decision{Step: replay.Drop, Reason: replay.Superseded}},
		"succeeded":                            {letter(row(ledger.Succeeded, 4, this)), replay.Decision{Step: replay.Drop, Reason: replay.Succeeded}},
		"succeeded with another body":          {letter(row(ledger.Succeeded, 4, other)), replay.Decision{Step: replay.Mismatch, Reason: replay.OtherBody}},
		"succeeded, body not known any more":   {letter(row(ledger.Succeeded, 0, ledger.Fingerprint{})), replay.Decision{Step: replay.Leave, Reason: replay.Unproved}},
		"succeeded, body proved":               {letter(row(ledger.Succeeded, 0, ledger.Fingerprint{}), proved), replay.Decision{Step: replay.Drop, Reason: replay.Succeeded}},
		"failed with another body":             {letter(row(ledger.Failed, 3, other)), replay.Decision{Step: replay.Mismatch, Reason: replay.OtherBody}},
		"pending with another body":            {letter(row(ledger.Pending, 3, other)), replay.Decision{Step: replay.Mismatch, Reason: replay.OtherBody}},
		"pending, nobody's":                    {letter(pending), replay.Decision{Step: replay.Send, Reason: replay.Abandoned, Token: 4}},
		"pending, of a dead owner":             {letter(held(pending, ledger.Dead, 0, 0)), replay.Decision{Step: replay.Send, Reason: replay.Abandoned, Token: 4}},
		"pending, lease over, nobody said so":  {letter(held(pending, ledger.Live, 0, 0)), replay.Decision{Step: replay.Send, Reason: replay.Abandoned, Token: 4}},
		"pending, live":                        {letter(held(pending, ledger.Live, time.Second, 0)), replay.Decision{Step: replay.Leave, Reason: replay.Live}},
		"pending, in backoff":                  {letter(held(pending, ledger.Nobody, 0, time.Second)), replay.Decision{Step: replay.Leave, Reason: replay.Backoff}},
		"pending, claimed without fingerprint": {letter(row(ledger.Pending, 4, ledger.Fingerprint{})), replay.Decision{Step: replay.Send, Reason: replay.Abandoned, Token: 4}},
		"pending, and it alone says what":      {letter(row(ledger.Pending, 4, ledger.Fingerprint{}), alone), replay.Decision{Step: replay.Refuse, Reason: replay.Unvouched}},
		"no row, moved by SQS unseen":          {letter(ledger.Status{}, unstamped), replay.Decision{Step: replay.Send, Reason: replay.New}},
		"no row, and it alone says what":       {letter(ledger.Status{}, unstamped, alone), replay.Decision{Step: replay.Refuse, Reason: replay.Unvouched}},
		"no row, taken on request":             {letter(ledger.Status{}, unstamped, alone, unknown), replay.Decision{Step: replay.Send, Reason: replay.New}},
		"no row any more":                      {letter(ledger.Status{}), replay.Decision{Step: replay.Refuse, Reason: replay.Forgotten}},
		"no row any more, taken on request":    {letter(ledger.Status{}, unknown), replay.Decision{Step: replay.Send, Reason: replay.New, Token: 3}},
		"a mismatch by kind":                   {letter(row(ledger.Failed, 3, this), mismatch), replay.Decision{Step: replay.Mismatch, Reason: replay.OtherBody}},
		"no identity":                          {letter(row(ledger.Failed, 3, this), stranger), replay.Decision{Step: replay.Mismatch, Reason: replay.Stranger}},
		"archived, and again later":            {letter(row(ledger.Failed, 5, this), archived, later), replay.Decision{Step: replay.Drop, Reason: replay.Superseded}},
		"archived, its body mended since":      {letter(row(ledger.Failed, 5, other), archived), replay.Decision{Step: replay.Drop, Reason: replay.Superseded}},
		"not archived, forged to fit a row":    {letter(row(ledger.Failed, 5, other)), replay.Decision{Step: replay.Mismatch, Reason: replay.OtherBody}},
		"archived, pending with another body":  {letter(row(ledger.Pending, 5, other), archived), replay.Decision{Step: replay.Mismatch, Reason: replay.OtherBody}},
		"a state that this program knows not":  {letter(row(ledger.State(9), 3, this)), replay.Decision{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := replay.Plan(c.in); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// anyCase draws everything that Plan may be asked.
func anyCase(t *rapid.T) replay.Case {
	fingerprint := rapid.SampledFrom([]ledger.Fingerprint{{}, this, other})
	return replay.Case{
		Identified: rapid.Bool().Draw(t, "identified"), Vouched: rapid.Bool().Draw(t, "vouched"), Archived: rapid.Bool().Draw(t, "archived"),
		Superseded: rapid.Bool().Draw(t, "superseded"), Unknown: rapid.Bool().Draw(t, "unknown"), Proved: rapid.Bool().Draw(t, "proved"),
		Kind:  rapid.SampledFrom([]ledger.FailureKind{"", ledger.KindExhausted, ledger.KindMismatch}).Draw(t, "kind"),
		Token: rapid.Uint64Range(0, 5).Draw(t, "token"), Fingerprint: this,
		Status: ledger.Status{
			State: ledger.State(rapid.IntRange(0, 4).Draw(t, "state")), Token: rapid.Uint64Range(0, 5).Draw(t, "row token"),
			Fingerprint: fingerprint.Draw(t, "row fingerprint"), Holder: ledger.Holder(rapid.IntRange(0, 4).Draw(t, "holder")),
			HeldFor: time.Duration(rapid.IntRange(-1, 1).Draw(t, "held for")), DueIn: time.Duration(rapid.IntRange(-1, 1).Draw(t, "due in")),
		},
	}
}

// What holds of every decision, whatever the case.
func TestPlanNeverDoesHarm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCase(t)
		d, s := replay.Plan(c), c.Status
		disagrees := !s.Fingerprint.IsZero() && !s.Fingerprint.Agrees(c.Fingerprint)
		if d.Step == replay.Send {
			switch {
			case !c.Vouched && !c.Unknown:
				t.Fatalf("sent, though only it says what it is: %+v", c)
			case s.State == ledger.Succeeded:
				t.Fatalf("sent, though it succeeded: %+v", c)
			case s.State == ledger.Pending && !s.Free():
				t.Fatalf("sent, though somebody has it: %+v", c)
			case s.State != 0 && disagrees:
				t.Fatalf("sent, though it is another body: %+v", c)
			case !c.Identified || c.Kind == ledger.KindMismatch:
				t.Fatalf("sent under an identity that is not its own: %+v", c)
			case s.State == ledger.Failed && (d.Token != s.Token || c.Token != 0 && c.Token < s.Token):
				t.Fatalf("sent for another failure than the row's: %+v, %+v", c, d)
			}
		}
		if d.Step == replay.Drop && !c.Archived { // gone from its queue
			done := s.State == ledger.Succeeded && (s.Fingerprint.Agrees(c.Fingerprint) || s.Fingerprint.IsZero() && c.Proved)
			later := s.State == ledger.Failed && s.Token > c.Token && c.Token != 0 && s.Fingerprint.Agrees(c.Fingerprint) ||
				s.State == ledger.Failed && s.Token > c.Token && c.Token != 0 && s.Fingerprint.IsZero()
			if !done && !later || !c.Identified || c.Kind == ledger.KindMismatch {
				t.Fatalf("dropped, and nothing else has it: %+v", c)
			}
		}
	})
}

// Every failed message of a known body is sent, or a later failure of it is: none is forgotten.
func TestPlanForgetsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCase(t)
		c.Identified, c.Vouched, c.Superseded, c.Kind = true, true, false, ledger.KindExhausted
		c.Status.Fingerprint = this
		free := c.Status.State == ledger.Pending && c.Status.Free()
		failed := c.Status.State == ledger.Failed && (c.Token == 0 || c.Token >= c.Status.Token)
		if d := replay.Plan(c); (free || failed) && d.Step != replay.Send {
			t.Fatalf("%+v: %+v", c, d)
		}
	})
}

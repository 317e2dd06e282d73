package response_test

import (
	"errors"
	"testing"

	"github.com/ackledger/ackledger/internal/response"
	"github.com/ackledger/ackledger/ledger"
)

// Answers of the ledger.
var (
	run       = ledger.Claim{Answer: ledger.Run}
	busy      = ledger.Claim{Answer: ledger.Busy}
	mismatch  = ledger.Claim{Answer: ledger.Mismatch}
	spent     = ledger.Claim{Answer: ledger.Spent, Crashes: ledger.CrashLimit}
	succeeded = ledger.Claim{Answer: ledger.Done, Outcome: ledger.Outcome{State: ledger.Succeeded}}
	failed    = ledger.Claim{Answer: ledger.Done, Outcome: ledger.Outcome{State: ledger.Failed}}
	pending   = ledger.Claim{Answer: ledger.Done, Outcome: ledger.Outcome{State: ledger.Pending}}
)

func heard(said ...ledger.Claim) *response.Call {
	c := &response.Call{}
	for i := range said {
		c.Hear(&said[i])
	}
	return c
}

// Who was not run is told what the ledger has, or why nothing was done.
func TestNotRun(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		said                 []ledger.Claim
		ack, meets, declined bool
		want                 response.Response
	}{
		"a success":                           {said: []ledger.Claim{busy, succeeded}, ack: true, want: response.Stored},
		"a failure":                           {said: []ledger.Claim{failed}, ack: true, want: response.Stored},
		"crashes":                             {said: []ledger.Claim{spent}, ack: true, want: response.Crashed},
		"crashes, and it runs again":          {said: []ledger.Claim{spent, pending}, ack: true, want: response.Crashed},
		"another body":                        {said: []ledger.Claim{mismatch}, ack: true, want: response.Mismatch},
		"another body, given back":            {said: []ledger.Claim{mismatch}, declined: true, want: response.Mismatch},
		"another body in this process":        {meets: true, declined: true, want: response.Mismatch},
		"a success, and another body":         {said: []ledger.Claim{succeeded}, ack: true, meets: true, want: response.Stored},
		"declined":                            {said: []ledger.Claim{busy}, declined: true, want: response.InProgress},
		"given back":                          {said: []ledger.Claim{busy}, want: response.Unavailable},
		"given back, though it was to be run": {said: []ledger.Claim{run}, want: response.Unavailable},
	} {
		if got := heard(x.said...).NotRun(x.ack, x.meets, x.declined); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}

// Who was run is told what its function said, unless the ledger has said since what became of the request.
func TestRan(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		said                   []ledger.Claim
		ack, committed, failed bool
		want                   response.Response
	}{
		"an answer":                       {said: []ledger.Claim{run}, ack: true, want: response.Answer},
		"an answer, committed":            {said: []ledger.Claim{run}, ack: true, committed: true, failed: true, want: response.Answer},
		"a failure for good":              {said: []ledger.Claim{run}, ack: true, failed: true, want: response.Failure},
		"a failure, filed, and it runs":   {said: []ledger.Claim{run, pending}, ack: true, failed: true, want: response.Failure},
		"an error":                        {said: []ledger.Claim{run}, failed: true, want: response.Error},
		"an answer, not settled":          {said: []ledger.Claim{run}, want: response.Unknown},
		"an error behind the commit":      {said: []ledger.Claim{run}, committed: true, failed: true, want: response.Unknown},
		"another run succeeded":           {said: []ledger.Claim{run, busy, succeeded}, ack: true, failed: true, want: response.Stored},
		"others crashed":                  {said: []ledger.Claim{run, spent}, ack: true, want: response.Crashed},
		"others crashed, and it failed":   {said: []ledger.Claim{run, spent}, ack: true, failed: true, want: response.Crashed},
		"the key is another body's since": {said: []ledger.Claim{run, mismatch}, ack: true, want: response.Unknown},
	} {
		if got := heard(x.said...).Ran(x.ack, x.committed, x.failed); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}

// What was refused stays so.
func TestRefusedStays(t *testing.T) {
	t.Parallel()
	why := errors.New("refused")
	if c := heard(ledger.Claim{Err: why}, run); !errors.Is(c.Heard.Err, why) {
		t.Errorf("%+v", c.Heard)
	}
	if c := heard(busy); c.Differs() || c.Heard.Answer != ledger.Busy {
		t.Errorf("%+v", c)
	}
}

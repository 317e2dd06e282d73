package ledger_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func TestDecideCommit(t *testing.T) {
	const token = 7
	ours := &ledger.Row{State: ledger.Pending, Holder: ledger.Mine, Token: token}
	done := &ledger.Row{State: ledger.Succeeded, Token: token}
	taken := &ledger.Row{State: ledger.Pending, Holder: ledger.Live, Token: token + 1}
	theirs := &ledger.Row{State: ledger.Succeeded, Token: token + 1}
	free := &ledger.Row{State: ledger.Pending, Token: token}
	for name, c := range map[string]struct {
		rows []*ledger.Row
		want ledger.AttemptState
	}{
		"committed":                        {[]*ledger.Row{done, done}, ledger.AttemptSucceeded},
		"committed, one row out of sight":  {[]*ledger.Row{nil, done}, ledger.AttemptSucceeded},
		"committed, one reopened since":    {[]*ledger.Row{free, done}, ledger.AttemptSucceeded},
		"rolled back":                      {[]*ledger.Row{ours, ours}, ledger.AttemptOpen},
		"rolled back, one out of sight":    {[]*ledger.Row{ours, nil}, ledger.AttemptOpen},
		"rolled back, one taken over":      {[]*ledger.Row{ours, taken}, ledger.AttemptLost},
		"all taken over":                   {[]*ledger.Row{taken, theirs}, ledger.AttemptLost},
		"released, or its owner is gone":   {[]*ledger.Row{free}, ledger.AttemptLost},
		"nothing to be seen":               {[]*ledger.Row{nil, nil}, ledger.AttemptUnknown},
		"a contradiction is never a claim": {[]*ledger.Row{done, ours}, ledger.AttemptUnknown},
	} {
		tickets := make([]ledger.Ticket, len(c.rows))
		for i := range tickets {
			tickets[i] = ledger.NewTicket([ledger.KeySize]byte{byte(i)}, token)
		}
		if got := ledger.DecideCommit(tickets, func(i int) *ledger.Row { return c.rows[i] }); got != c.want {
			t.Errorf("%s: state %d, want %d", name, got, c.want)
		}
	}
}

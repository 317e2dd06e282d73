package kafka

import (
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Where a group goes on, by what the ledger says of the records below its commit: f finished, p pending, - nothing, c a copy for another
// group, s a copy of what has succeeded, x a copy of what has failed with the stamp's own token.
func TestScanConcludes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		records           string
		back              int64
		unfinished, below int64
		unseen            bool
	}{
		{"ffff", 4, 0, 0, false},
		{"fff-", 3, 1, 0, false},
		{"f-ff--", 1, 3, 0, false},
		{"fpff", 1, 1, 0, false},
		{"--ff-", 4, 1, 2, false},
		{"p---", 0, 4, 0, false}, // its owner had it in hand
		{"--p-f", 2, 2, 2, false},
		{"----", 4, 4, 0, true},
		{"", 0, 0, 0, false},
		{"cc", 2, 0, 0, false},
		{"ffcs", 4, 0, 0, false},
		{"ffcx", 3, 1, 0, false},
	} {
		at := &Committed{Group: "shipping", Offset: int64(len(c.records)), Back: int64(len(c.records))}
		s := &scan{of: at, lowest: -1, highest: -1}
		for i, what := range c.records {
			r := &kgo.Record{Offset: int64(i), LeaderEpoch: int32(i)}
			own, named, stamp := &ledger.Status{}, &ledger.Status{}, (*consumer.Stamp)(nil)
			switch what {
			case 'f':
				own.State = ledger.Succeeded
			case 'p':
				own.State = ledger.Pending
			case 'c':
				stamp = &consumer.Stamp{Group: "billing"}
			case 's':
				stamp, named.State = &consumer.Stamp{}, ledger.Succeeded
			case 'x':
				stamp, named.State, named.Token = &consumer.Stamp{Token: 7}, ledger.Failed, 7
			}
			s.note(r, own, named, stamp)
		}
		s.conclude()
		if at.Back != c.back || at.Unfinished != c.unfinished || at.Below != c.below || at.Unseen != c.unseen {
			t.Errorf("%s: %+v", c.records, *at)
		}
	}
}

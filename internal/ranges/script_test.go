package ranges

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

var errAway = errors.New("away")

// script is a store that answers as the test says, and notes what it was asked.
type script struct {
	Store
	openErr, updateErr, rowsErr error
	facts                       func(*Query) Facts // of Update; nil: none
	opened                      []Opening
	queries                     []Query
	changes                     []Change
	claimed                     []ledger.Entry
	only                        []bool
	settled                     []ledger.Settlement
}

func (s *script) Open(_ context.Context, openings []Opening) ([]bool, error) {
	s.opened = append(s.opened, openings...)
	out := make([]bool, len(openings))
	for i := range out {
		out[i] = s.openErr == nil
	}
	return out, s.openErr
}

func (s *script) Update(_ context.Context, queries []Query, plan func(int, *Facts) Change) error {
	s.queries = append(s.queries, queries...)
	if s.updateErr != nil {
		return s.updateErr
	}
	for i := range queries {
		f := Facts{}
		if s.facts != nil {
			f = s.facts(&queries[i])
		}
		if f.HasRow == nil {
			f.HasRow = func(int64) bool { return false }
		}
		s.changes = append(s.changes, plan(i, &f))
	}
	return nil
}

func (s *script) ClaimRows(_ context.Context, entries []ledger.Entry, only []bool) ([]ledger.Claim, error) {
	s.claimed, s.only = entries, only
	return make([]ledger.Claim, len(entries)), s.rowsErr
}

// Settle answers as a store without rows.
func (s *script) Settle(_ context.Context, settlements []ledger.Settlement) ([]error, error) {
	s.settled = append(s.settled, settlements...)
	errs := make([]error, len(settlements))
	for i := range errs {
		errs[i] = ledger.ErrLost
	}
	return errs, nil
}

// scripted returns an owner of a script that has one range, offsets 0 to 9 with token 1, in each of the logs.
func scripted(partitions ...string) (*script, *Owner, []Log) {
	s := &script{}
	o := NewOwner(s, ledger.DefaultLimits, new(Counts))
	var logs []Log
	for _, p := range partitions {
		_, log := recordOf(p, 0)
		logs = append(logs, log)
		o.logs[log] = &held{
			known: true, top: 10, version: 1, token: 1, used: time.Now(), past: map[uint64]past{},
			info: Info{Log: log, Scope: "scope", Prefix: "t-" + p + "-"},
			open: map[uint64]*open{1: {Range: Range{Token: 1, Span: Span{0, 10}, Messages: 10}}},
		}
	}
	s.facts = func(q *Query) Facts {
		return Facts{Version: 1, Token: 1, Top: 10, Ranges: []Range{{Token: 1, Span: Span{0, 10}, Holder: ledger.Mine, Messages: 10}}}
	}
	return s, o, logs
}

func claimOf(t *testing.T, o *Owner, entries ...ledger.Entry) []ledger.Claim {
	t.Helper()
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func entry(partition string, offset int64) ledger.Entry {
	e, _ := recordOf(partition, offset)
	return e
}

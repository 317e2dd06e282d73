package replay_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
)

// letters is a source whose letters are there already.
type letters struct {
	replay.Source
	all []*replay.Letter
}

func (*letters) String() string                          { return "letters" }
func (*letters) Address(context.Context) (string, error) { return "", nil }
func (l *letters) Count(context.Context, *ledger.Filter) (int64, error) {
	return int64(len(l.all)), nil
}
func (*letters) Removes() bool                                { return false }
func (*letters) Done(context.Context, []*replay.Letter) error { return nil }
func (*letters) Keep([]*replay.Letter)                        {}
func (*letters) Warnings() []string                           { return nil }
func (l *letters) Letters(context.Context, *ledger.Filter) iter.Seq2[*replay.Letter, error] {
	return func(yield func(*replay.Letter, error) bool) {
		for _, one := range l.all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// nowhere is a target that takes everything.
type nowhere struct{}

func (nowhere) String() string                            { return "nowhere" }
func (nowhere) Begin(context.Context, replay.Begin) error { return nil }
func (nowhere) Accept(*replay.Letter) error               { return nil }
func (nowhere) Most() int                                 { return 500 }
func (nowhere) End(context.Context) error                 { return nil }
func (nowhere) Send(_ context.Context, some []*replay.Letter) []replay.Result {
	out := make([]replay.Result, len(some))
	for i := range out {
		out[i].Outcome = replay.Sent
	}
	return out
}

// quickLedger answers at once, and keeps nothing.
type quickLedger struct {
	*memory.Ledger
	scope string
}

func (l quickLedger) Scopes(context.Context) ([]string, error)        { return []string{l.scope}, nil }
func (quickLedger) Audit(context.Context, []ledger.AuditRecord) error { return nil }
func (quickLedger) Status(_ context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	out, empty := make([]ledger.Status, len(keys)), ledger.BodyFingerprint(nil)
	for i := range out {
		out[i] = ledger.Status{State: ledger.Failed, Token: 1, Fingerprint: empty}
	}
	return out, nil
}

// What a run adds to reading, asking and sending is few allocations for each letter: no context, no timer, and no text that
// is the same for all.
func TestAllocationsOfARun(t *testing.T) {
	const n, most = 5000, 6
	src := &letters{}
	for i := range n {
		id := fmt.Sprint("order-", i)
		stamp := consumer.NewStamp("cluster/orders", id, nil)
		stamp.Token = 1
		src.all = append(src.all, &replay.Letter{Identified: true, DeadLetter: consumer.DeadLetter{
			Message: consumer.Message{ID: id, Source: "cluster/orders", Key: []byte(id)}, Consumer: "billing", Stamp: &stamp,
		}})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	report, err := replay.Run(t.Context(), quickLedger{memory.New(), replay.Scope("cluster/orders", "billing")}, src, nowhere{},
		replay.Config{By: ledger.By{Actor: "me"}})
	runtime.ReadMemStats(&after)
	if err != nil || report.Replayed != n {
		t.Fatal(report.Text(), err)
	}
	got := float64(after.Mallocs-before.Mallocs) / n
	if got > most {
		t.Errorf("%.1f allocations a letter, at most %d", got, most)
	}
	t.Logf("%.1f allocations a letter", got)
}

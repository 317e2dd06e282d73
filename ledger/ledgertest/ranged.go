package ledgertest

import (
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// Ranged is open with every message a record of a log, which the ledger may hold in a range ([ledger.Entry.Ranged]): the
// whole suite then asks the same of ranges as of rows. Where something cannot occur in a range, the case says why and
// checks what holds instead.
func Ranged(open Open) Open {
	return func(t *testing.T) Store {
		t.Helper()
		s := open(t)
		s.Ranged = true
		return s
	}
}

// places gives the messages of a case their places in logs. Each has a log of its own, so that its tokens begin at 1,
// but for those that were joined.
type places struct {
	mu sync.Mutex
	of map[string]ledger.Position
}

const joined = "cluster topic-uuid joined"

// join makes messages neighbours in one log, unless they have their places already.
func (p *places) join(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, id := range ids {
		if _, there := p.of[id]; !there {
			p.of[id] = ledger.Position{Log: joined, Offset: int64(i), Prev: int64(i) - 1}
		}
	}
}

// key is the key of the message id, whose readable id ends in its offset.
func (p *places) key(scope, id string) ledger.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	pos, there := p.of[id]
	if !there {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id)) // cannot fail
		pos = ledger.Position{Log: "cluster topic-uuid of " + strconv.Quote(id), Offset: int64(h.Sum32() % 1000), Prev: -1}
		p.of[id] = pos
	}
	suffix := "-" + strconv.FormatInt(pos.Offset, 10)
	prefix := id
	switch {
	case strings.HasPrefix(pos.Log, joined):
		prefix = "joined"
	case len(id) <= ledger.MaxID: // what is too long stays too long
		prefix = id[:min(len(id), ledger.MaxID-len(suffix))]
	}
	return ledger.Key{Scope: scope, ID: []byte(prefix + suffix), Pos: &pos}
}

// pitfallCases are the pitfalls that hold in both modes and need neither a second process nor a sweep.
var pitfallCases = []struct {
	name string
	run  func(*testing.T, Open)
}{
	{"Pitfall01", Pitfall01},
	{"Pitfall02", Pitfall02},
	{"Pitfall03", Pitfall03},
	{"Pitfall04", Pitfall04},
	{"Pitfall05", Pitfall05},
	{"Pitfall07", Pitfall07},
	{"Pitfall08", Pitfall08},
	{"Pitfall11", Pitfall11},
	{"Pitfall12", Pitfall12},
	{"Pitfall13", Pitfall13},
	{"Pitfall15", Pitfall15},
	{"Pitfall16", Pitfall16},
	{"Pitfall17", Pitfall17},
	{"Pitfall18", Pitfall18},
	{"Pitfall19", Pitfall19},
	{"Pitfall23", Pitfall23},
	{"Pitfall26", Pitfall26},
	{"Pitfall27", Pitfall27},
	{"Pitfall30", Pitfall30},
	{"Pitfall67", Pitfall67},
	{"Pitfall71", Pitfall71},
	{"Pitfall77", Pitfall77},
	{"Pitfall79", Pitfall79},
	{"Pitfall91", Pitfall91},
	{"Pitfall94", Pitfall94},
	{"Pitfall98", Pitfall98},
	{"Pitfall100", Pitfall100},
	{"Pitfall104", Pitfall104},
	{"Pitfall109", Pitfall109},
	{"Pitfall113", Pitfall113},
	{"Pitfall114", Pitfall114},
	{"Pitfall115", Pitfall115},
}

// RunRanged is the suite of ranges: all of [Run], of [RunInTx] (if the store has it) and of the pitfalls on messages that
// are held in ranges, and the cases that only ranges have.
func RunRanged(t *testing.T, open Open) {
	open = Ranged(open)
	t.Run("Suite", func(t *testing.T) { Run(t, open) })
	t.Run("InTx", func(t *testing.T) {
		if open(t).InTx != nil {
			RunInTx(t, open)
		}
	})
	for _, c := range pitfallCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open)
		})
	}
	for _, c := range rangeCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(begin(t, open))
		})
	}
}

// RunRangedMaintain is [RunMaintain], and the pitfalls that need a sweep, on messages that are held in ranges. Each case
// needs a store of its own.
func RunRangedMaintain(t *testing.T, open Open) {
	open = Ranged(open)
	t.Run("Suite", func(t *testing.T) { RunMaintain(t, open) })
	for name, run := range map[string]func(*testing.T, Open){
		"Pitfall28": Pitfall28, "Pitfall30": SweptRetentions, "Pitfall72": Pitfall72, "Pitfall79": SweptMeanwhile,
		"Pitfall146":                  Pitfall146,
		"Pitfall148":                  Pitfall148,
		"Pitfall155":                  Pitfall155,
		"Pitfall156":                  Pitfall156,
		"Pitfall196":                  Pitfall196,
		"Pitfall203":                  Pitfall203,
		"Ranges_FailedIsNotSucceeded": rangesFailedStays, "Ranges_DroppedToken": rangesDroppedToken,
		"Ranges_TokenBetweenRows": rangesTokenBetweenRows,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open)
		})
	}
}

// RunRangedReopen is what takes an operator's rights, on messages that are held in ranges: what Reopen and a sweep do
// together, and the pitfalls of dead letters and replay.
func RunRangedReopen(t *testing.T, open Open) {
	open = Ranged(open)
	t.Run("Token", func(t *testing.T) { rangesReopenedToken(t, open) })
	for name, run := range map[string]func(*testing.T, Open){
		"Pitfall75": Pitfall75, "Pitfall76": Pitfall76, "Pitfall83": Pitfall83, "Pitfall97": Pitfall97, "Pitfall103": Pitfall103,
		"Pitfall116": Pitfall116, "Pitfall117": Pitfall117, "Pitfall149": Pitfall149, "Pitfall150": Pitfall150, "Pitfall151": Pitfall151,
		"Pitfall152": Pitfall152, "Pitfall154": Pitfall154,
	} {
		t.Run(name, func(t *testing.T) { run(t, open) })
	}
}

// RunRangedProcesses is [RunProcesses] and Pitfall86 on messages that are held in ranges.
func RunRangedProcesses(t *testing.T, open Open) {
	open = Ranged(open)
	t.Run("Suite", func(t *testing.T) { RunProcesses(t, open) })
	t.Run("Pitfall86", func(t *testing.T) { Pitfall86(t, open) })
}

package model

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// op is what happens in one step. Steps are atomic: one statement at the database, one call at the broker, or one thing
// that a process does in its memory.
type op uint8

// Things that happen by themselves in the end, in the order in which calm prefers them.
const (
	opEvaporate op = iota // a given-up statement never executes
	opRestart
	opBeat
	opNotice
	opLeave
	opJoin
	opOverdue
	opSee
	opWait
	opSeal
	opResolve
	opDue
	opLearn
	opDiscard
	opAssign
	opRead
	opSettle
	opPublish
	opAck
	opCommit // of a transaction
	opEnd    // of a handler
	opStart
	opClaim
	opOffset // Kafka: commit
	opReceive
	opFetch
	opTake // of what is parked
	opLapse
	opSweep
	opRemove // a letter from its source
	opSend
	opLook
	// Faults, and what nobody needs.
	opGhost
	opAbort
	opLetGo
	opCrash
	opExit
	opExpire
	opResurrect
	opRevoke
	opKick
	opMove
	opKillReplay
	ops
)

// Ways in which a step may go.
const (
	goes       uint8 = iota
	unheard          // the statement never arrived, and the client does not know
	unanswered       // it executed, and the client does not know
	stalls           // the client gave it up, and it may execute yet
	fails            // a handler, or a publish
	kills            // a handler kills its process
	leaves           // a handler returns while its transaction runs on
	hangs            // it was sent, and the client waits for the answer; a COMMIT that the server has not decided
	repeats          // it executes, and may do so once more
	rollsBack
	cancelled
)

// step is one step of a trace.
type step struct {
	op   op
	w, c uint8 // worker or replay; copy, message, owner or letter
	way  uint8
}

// next is a successor of a state.
type next struct {
	step  step
	state state
	fault bool
	wrong string // the promise that the step itself broke
}

// machine knows all steps of one world.
type machine struct {
	cfg    Config
	off    [guards]bool
	mutant bool
	limit  int
	kinds  [maxMessages]Kind
	gentle bool // innocents must not fail
	killed bool // processes that messages kill are as many as crashes that are counted
	calm   bool // only what leads to an end
	from   *state
	out    []next
	broken string // see next.wrong
}

func newMachine(cfg Config) *machine {
	x := &machine{cfg: cfg, limit: cfg.attempts(), gentle: cfg.harmless(), killed: cfg.countsKills(), mutant: len(cfg.Off) > 0}
	for _, g := range cfg.Off {
		x.off[g] = true
	}
	copy(x.kinds[:], cfg.Messages)
	return x
}

// steps returns all successors of a state. The slice is used again by the next call.
func (x *machine) steps(s *state) []next {
	x.from, x.out = s, x.out[:0]
	x.ownerSteps()
	x.databaseSteps()
	for w := range uint8(x.cfg.Workers) {
		p := &s.Workers[w]
		x.processSteps(w)
		if x.cfg.Broker == Log {
			x.groupSteps(w)
		}
		for c := range s.Next {
			if p.Items[c].Phase != none && p.Up == 1 {
				x.itemSteps(w, c)
			}
		}
	}
	if x.cfg.Broker == Queue {
		x.queueSteps()
	}
	x.careSteps()
	for r := range uint8(x.cfg.Replays) {
		x.replaySteps(r)
	}
	return x.out
}

// emit adds a successor: from with what change does to it.
func (x *machine) emit(o op, w, c, way uint8, change func(*state)) {
	x.add(step{o, w, c, way}, false, change)
}

// fault adds a successor that uses up a budget; none if it is used up, or in calm.
func (x *machine) fault(budget uint8, o op, w, c, way uint8, change func(*state)) {
	if x.calm || x.from.Left[budget] == 0 {
		return
	}
	x.add(step{o, w, c, way}, true, func(n *state) {
		n.Left[budget]--
		change(n)
	})
}

func (x *machine) add(st step, fault bool, change func(*state)) {
	if x.calm && st.op > opLook {
		return
	}
	x.out = append(x.out, next{step: st, state: *x.from, fault: fault})
	added := &x.out[len(x.out)-1]
	n := &added.state
	x.broken = ""
	change(n)
	added.wrong = x.broken
	if x.cfg.Broker == Queue {
		n.Assigned = 0
	}
	n.forget()
}

// see is what a statement of an owner sees of a message. id is the owner's; c the copy that it asks about.
func (x *machine) see(s *state, id, c uint8) (ledger.Row, bool) {
	r := &s.Rows[s.Copies[c].Message]
	if r.State == 0 {
		return ledger.Row{}, false
	}
	seen := ledger.Row{
		Fingerprint: bodyOf(r.Other), State: r.State, Token: uint64(r.Token), Attempts: int(r.Attempts), Crashes: int(r.Crashes),
		Archived: s.archived(c), Unseen: r.Lock != 0, Parked: r.Parked == 1,
	}
	if s.Copies[c].Own == 1 && x.off[OwnDeliveryInPlace] {
		seen.Archived = s.body(s.Copies[c].Message)
	}
	if r.Waits == 1 {
		seen.DueIn = time.Second
	}
	if r.Owner == 0 {
		return seen, true
	}
	switch o := &s.Owners[r.Owner-1]; {
	case r.Owner == id:
		seen.Holder = ledger.Mine
	case o.Fate == live && o.Overdue == 0:
		seen.Holder, seen.HeldFor = ledger.Live, time.Second
	case o.Fate == live:
		seen.Holder, seen.HeldFor = ledger.Live, -time.Second
	case o.Fate == left:
		seen.Holder = ledger.Left
	case o.Fate == dead:
		seen.Holder = ledger.Dead
	case x.cfg.Watched && !x.off[AbsentHasLeft]:
		seen.Holder = ledger.Left
	default: // its row is not there
		seen.Unseen = true
	}
	return seen, true
}

func bodyOf(other uint8) ledger.Fingerprint {
	f := ledger.Fingerprint{}
	for i := range f {
		f[i] = 1 + other
	}
	return f
}

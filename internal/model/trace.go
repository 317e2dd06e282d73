package model

import (
	"fmt"
	"strings"

	"github.com/ackledger/ackledger/ledger"
)

var opNames = [ops]string{
	opEvaporate: "a given-up statement never arrives", opRestart: "starts", opBeat: "beats", opNotice: "sees that it is lost",
	opLeave: "leaves", opJoin: "joins", opOverdue: "the lease runs out of", opSee: "sees the beat of", opWait: "has seen no other beat for a lease of", opSeal: "declares dead", opResolve: "the server decides on the transaction of",
	opDue: "due again:", opLearn: "learns that the partition is gone", opDiscard: "commits and discards the tracker", opAssign: "is given the partition",
	opRead: "reads what became of", opSettle: "settles", opPublish: "publishes", opAck: "deletes", opCommit: "commits the transaction of",
	opEnd: "ends the handler of", opStart: "starts the handler of", opClaim: "claims", opOffset: "commits offset", opReceive: "receives",
	opFetch: "fetches", opTake: "is handed what is parked,", opLapse: "visible again:", opSweep: "sweeps", opRemove: "removes letter", opSend: "sends letter",
	opLook: "looks at letter", opGhost: "a given-up statement executes, about", opAbort: "the server aborts the transaction of",
	opLetGo: "lets go of", opCrash: "CRASHES", opExit: "exits", opExpire: "visible again while held:", opResurrect: "delivered again after its deletion:",
	opRevoke: "is asked for the partition", opKick: "loses the partition unknowing", opMove: "the broker moves away", opKillReplay: "is killed with letter",
}

var wayNames = map[uint8]string{
	unheard: " (lost on the way)", unanswered: " (the answer is lost)", stalls: " (given up, on its way)", fails: " (fails)",
	kills: " (KILLS the process)", leaves: " (returns, its transaction runs on)", hangs: " (hangs)", repeats: " (it is sent twice)", rollsBack: " (rolled back)",
	cancelled: " (cancelled)",
}

// describe says what a step does, and how the message it is about stands after it.
func (x *machine) describe(s *state, n *next) string {
	st := n.step
	var b strings.Builder
	switch st.op {
	case opEvaporate, opDue, opResolve, opAbort, opLapse, opGhost, opExpire, opResurrect, opMove, opOverdue, opSweep:
	case opRemove, opSend, opLook, opKillReplay:
		fmt.Fprintf(&b, "replay %d ", st.w)
	default:
		fmt.Fprintf(&b, "worker %d ", st.w)
	}
	b.WriteString(opNames[st.op])
	switch st.op {
	case opOverdue, opSee, opWait, opSeal, opSweep, opJoin, opLeave, opBeat, opNotice, opExit:
		fmt.Fprintf(&b, " owner %d", st.c)
	case opDue, opResolve, opAbort:
		fmt.Fprintf(&b, " %s%s", message(st.c), x.rowText(&n.state, st.c))
	case opOffset, opRemove, opSend, opLook, opKillReplay:
		fmt.Fprintf(&b, " %d", st.c)
		if st.op == opSend && x.cfg.InPlace {
			b.WriteString(map[bool]string{true: ": the handler has ended", false: " to a handler"}[st.way == unanswered])
			return b.String()
		}
	case opRestart, opCrash, opLearn, opDiscard, opAssign, opRevoke, opKick:
	default:
		m := n.state.Copies[st.c].Message
		fmt.Fprintf(&b, " copy %d", st.c)
		if st.op != opReceive && st.op != opFetch {
			return b.String() + st.wayText() + x.verdictText(s, n) + ": " + message(m) + x.rowText(&n.state, m)
		}
		fmt.Fprintf(&b, " of %s", message(m))
	}
	return b.String() + st.wayText()
}

// wayText says which way a step went, where that is one of the ways.
func (st step) wayText() string {
	if st.op == opGhost || st.op == opSend {
		return ""
	}
	return wayNames[st.way]
}

// verdictText says what a settlement is.
func (x *machine) verdictText(s *state, n *next) string {
	if n.step.op != opSettle {
		return ""
	}
	it := &s.Workers[n.step.w].Items[n.step.c]
	return fmt.Sprintf(" (%v with token %d)", ledger.SettleKind(it.Kind), it.Token)
}

func message(m uint8) string { return "message " + string(rune('A'+m)) }

func (x *machine) rowText(s *state, m uint8) string {
	r := &s.Rows[m]
	if r.State == 0 {
		return " has no row"
	}
	holder := "nobody's"
	if r.Owner != 0 {
		holder = fmt.Sprintf("owner %d's", r.Owner-1)
	}
	text := fmt.Sprintf(" is %v, token %d", r.State, r.Token)
	if r.State == ledger.Pending {
		text += ", " + holder
	}
	if r.Attempts > 0 || r.Crashes > 0 {
		text += fmt.Sprintf(", attempts %d, crashes %d", r.Attempts, r.Crashes)
	}
	if r.Lock != 0 {
		text += ", locked"
	}
	return text
}

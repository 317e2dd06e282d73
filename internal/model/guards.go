package model

import "github.com/ackledger/ackledger/ledger"

// Guard is one rule that a promise rests on. Each can be taken out, to see which promise breaks.
type Guard uint8

// The guards.
const (
	// Of the claim (design §3; the numbers are the rows of its table).
	OwnerIsLive         Guard = iota // a claim writes only while its own owner is live
	ArchivedIsDone                   // 3: a delivery that is in the archive is done
	OtherBodyIsMismatch              // 4: another body under the same key is not run
	SucceededIsDone                  // 5: what succeeded is not run again
	LiveHolderIsBusy                 // 6: what a live owner has is busy for the others
	CrashesEnd                       // 7: at the crash limit a message is Spent
	ParkedIsSpent                    // 7: what may have begun is not begun again
	SuspectsAlone                    // 8: what was in two crashes runs alone
	DoubtKeepsPlace                  // 8: a suspect that may be ours keeps the next one waiting
	OwnPlaceOnly                     // 8: only what has the place for suspects is asked for alone, also what the broker has back
	OlderStampIsDone                 // 9: a copy of an older failure is done
	TokenGrows                       // 10: each take-over raises the token
	CrashesAreKept                   // 10: a redrive keeps two crashes
	DepartureIsNoCrash               // only a dead owner's take-over counts a crash
	MovedIsBusy                      // a claim that stalled writes nothing if the row moved since its snapshot

	// Of the settlement.
	SettleOwner    // the row is this owner's
	SettleToken    // it has this token
	SettleHeld     // it is pending, and somebody's: without it the token alone decides
	LostIsLost     // no row written, and none that holds: not acknowledged
	ParkKeepsWhole // a settlement that parks keeps the whole message with it
	FailArchives   // Fail files the delivery in the same statement
	Deadline       // a statement that arrives after the client gave it up changes nothing

	// Of transactions.
	FenceFirst        // COMMIT is carried out behind a fence that met its row alone
	UnknownIsOnlyRead // a COMMIT without an answer is read, not settled

	// Of owners.
	SweepUnnamed // an owner row goes only when no pending row names it
	FateIsFinal  // a beat revives nobody
	NoticeLost   // who is told that its owner is not live lets go and joins anew

	// Of owners of a ledger without a clock.
	WaitALease    // a peer declares an owner dead after the same beat for a lease
	BeatUnchanged // a declaration is on the condition that the beat is still that
	DeadWasLive   // a declaration is on the condition that the owner is live
	AskInLease    // a claim reads its row while the process' own lease runs
	AnswerInLease // what a claim is answered when that lease is over is thrown away
	AbsentHasLeft // an owner without a row is one that left

	RequestIsRepeated // without a clock, and so without locks: a COMMIT without an answer is sent again as it was, and then read

	// Of the worker.
	NeverForget        // what may be ours is asked for until that is known
	InHandOnce         // a key in hand is not asked for again
	BusyIsKept         // the zero verdict does not acknowledge
	SettleBeforeAck    // first the ledger, then the broker
	InterruptionIsFree // an attempt that we cancelled is not counted
	AttemptsEnd        // at the attempts' limit a message fails
	FinishedPrefix     // Kafka: what is committed is the finished prefix
	DiscardTracker     // Kafka: after a revoke nothing moves the partition's offset

	// Of replay (design §8).
	LookUp             // the row is asked before a letter is sent
	SendBeforeDelete   // a letter is removed after its copy was sent
	StampCarriesToken  // the copy names the failure that it is for
	AbandonedIsListed  // what a killed replay in place left is replayed
	OwnDeliveryInPlace // a replay in place is a delivery of its own

	guards
)

var guardNames = [guards]string{
	"OwnerIsLive", "ArchivedIsDone", "OtherBodyIsMismatch", "SucceededIsDone", "LiveHolderIsBusy", "CrashesEnd", "ParkedIsSpent",
	"SuspectsAlone", "DoubtKeepsPlace", "OwnPlaceOnly", "OlderStampIsDone", "TokenGrows", "CrashesAreKept", "DepartureIsNoCrash", "MovedIsBusy", "SettleOwner",
	"SettleToken", "SettleHeld", "LostIsLost", "ParkKeepsWhole", "FailArchives", "Deadline", "FenceFirst", "UnknownIsOnlyRead", "SweepUnnamed",
	"FateIsFinal", "NoticeLost", "WaitALease", "BeatUnchanged", "DeadWasLive", "AskInLease", "AnswerInLease", "AbsentHasLeft", "RequestIsRepeated",
	"NeverForget", "InHandOnce", "BusyIsKept", "SettleBeforeAck", "InterruptionIsFree", "AttemptsEnd", "FinishedPrefix", "DiscardTracker", "LookUp", "SendBeforeDelete", "StampCarriesToken",
	"AbandonedIsListed", "OwnDeliveryInPlace",
}

// String names the guard.
func (g Guard) String() string {
	if g < guards {
		return guardNames[g]
	}
	return "invalid"
}

// decide is ledger.Decide, with the guards of the claim table that are taken out.
func (x *machine) decide(r *ledger.Row, e ledger.Entry) ledger.Decision {
	if r == nil || !x.mutant {
		return ledger.Decide(r, e)
	}
	row := *r
	if x.off[ArchivedIsDone] {
		row.Archived = false
	}
	if x.off[OtherBodyIsMismatch] {
		row.Fingerprint = e.Fingerprint
	}
	if x.off[SucceededIsDone] && row.State == ledger.Succeeded {
		row.State = ledger.Pending
	}
	if x.off[LiveHolderIsBusy] && row.Holder == ledger.Live {
		row.Holder = ledger.Left
	}
	if x.off[DepartureIsNoCrash] && row.Holder == ledger.Left {
		row.Holder = ledger.Dead
	}
	if x.off[CrashesEnd] && row.Crashes >= ledger.CrashLimit-1 {
		row.Crashes = ledger.CrashLimit - 2
	}
	if x.off[OlderStampIsDone] {
		e.StampToken = 0
	}
	e.Park = e.Park && !x.off[ParkedIsSpent]
	e.Solo = e.Solo || x.off[SuspectsAlone]
	d := ledger.Decide(&row, e)
	if d.Write && x.off[TokenGrows] {
		d.Token = row.Token
	}
	if d.Renew && x.off[CrashesAreKept] {
		d.Crashes = 0
	}
	if d.Write && x.off[CrashesEnd] {
		d.Crashes += r.Crashes - row.Crashes
	}
	return d
}

// decideSettle is ledger.DecideSettle, with the guards of settlements that are taken out.
func (x *machine) decideSettle(r *ledger.Row, set ledger.Settlement) ledger.Effect {
	if r == nil || !x.mutant {
		return ledger.DecideSettle(r, set)
	}
	row := *r
	if x.off[SettleOwner] && row.State == ledger.Pending {
		row.Holder = ledger.Mine
	}
	if x.off[SettleHeld] {
		row.State, row.Holder = ledger.Pending, ledger.Mine
	}
	if x.off[SettleToken] && row.Holder == ledger.Mine {
		row.Token = set.Ticket.Token()
	}
	effect := ledger.DecideSettle(&row, set)
	if effect == ledger.EffectLost && x.off[LostIsLost] {
		return ledger.EffectHolds
	}
	return effect
}

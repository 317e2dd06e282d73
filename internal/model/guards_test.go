package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/internal/promises"
)

// needed is, for each guard, a world in which a promise breaks without it, and holds with it.
var needed = []struct {
	guard   Guard
	world   Config
	promise string // begins so
}{
	{OwnerIsLive, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1}, promiseEnd},
	{ArchivedIsDone, Config{Workers: 1, Messages: []Kind{Flaky}, Attempts: 1, Losses: 1}, promises.FinishedStays},
	{OtherBodyIsMismatch, Config{Workers: 1, Messages: []Kind{Innocent}, Copies: []Copy{{Other: true}}}, promises.AckedFinished},
	{SucceededIsDone, Config{Workers: 1, Messages: []Kind{Innocent}, Losses: 1}, promises.FinishedStays},
	{LiveHolderIsBusy, Config{Workers: 2, Messages: []Kind{Innocent}, Dups: 1}, promises.OneOwner},
	{CrashesEnd, Config{Workers: 1, Messages: []Kind{Killer}}, promises.CrashesEnd},
	{ParkedIsSpent, Config{Workers: 1, Messages: []Kind{Innocent}, Park: true, Crashes: 1}, promises.ParkedStays},
	{SuspectsAlone, Config{Workers: 1, Messages: []Kind{Killer, Innocent}, Crashed: []int{2, 3}}, promises.InnocentStays},
	{DoubtKeepsPlace, Config{
		Workers: 1, Messages: []Kind{Killer, Innocent}, Crashed: []int{2, 3}, Losses: 2,
	}, promises.InnocentStays},
	{OwnPlaceOnly, Config{
		Broker: Log, Workers: 1, Messages: []Kind{Killer, Innocent}, Crashed: []int{2, 4}, Losses: 1, Rebalances: 1,
	}, promises.InnocentStays},
	{OlderStampIsDone, Config{
		Workers: 1, Messages: []Kind{Flaky}, Attempts: 1, DeadLetters: true, Topic: true, Replays: 1,
	}, "a replay runs another failure"},
	{TokenGrows, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Dups: 1}, promises.TokensGrow},
	{CrashesAreKept, Config{
		Workers: 1, Messages: []Kind{Killer, Innocent}, Crashed: []int{5, 4}, DeadLetters: true, Replays: 1,
	}, promises.InnocentStays},
	{DepartureIsNoCrash, Config{Workers: 1, Messages: []Kind{Innocent}, Exits: 1}, promises.CrashesEnd},
	{MovedIsBusy, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Lates: 1, Rebalances: 1}, promiseEnd},
	{SettleOwner, Config{Workers: 1, Messages: []Kind{Flaky}, Losses: 1}, promises.AttemptsEnd},
	{SettleToken, Config{Workers: 2, Messages: []Kind{Innocent}, Lates: 1, Dups: 2}, promises.OneOwner},
	{SettleHeld, Config{Workers: 1, Messages: []Kind{Flaky}, Tx: true, Lates: 1}, promises.FinishedStays},
	{LostIsLost, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Dups: 1}, promises.NothingLost},
	{ParkKeepsWhole, Config{Workers: 1, Messages: []Kind{Flaky}, Parks: true}, promises.NothingLost},
	{FailArchives, Config{Workers: 1, Messages: []Kind{Flaky}, Attempts: 1}, promises.NothingLost},
	{Deadline, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Losses: 1, Rebalances: 1}, promiseEnd},
	{FenceFirst, Config{Workers: 2, Messages: []Kind{Innocent}, Tx: true, Leases: 1, Dups: 1}, promises.EffectsOnce},
	{UnknownIsOnlyRead, Config{Workers: 1, Messages: []Kind{Innocent}, Tx: true, Losses: 1}, promises.EffectsOnce},
	{SweepUnnamed, Config{Workers: 1, Messages: []Kind{Innocent}, Crashes: 1}, promiseEnd},
	{FateIsFinal, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Dups: 1}, promises.OneOwner},
	{NoticeLost, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Leases: 1}, promiseEnd},
	{WaitALease, Config{Watched: true, Workers: 2, Messages: []Kind{Innocent}, Dups: 1}, promises.OneOwner},
	{BeatUnchanged, Config{Watched: true, Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Dups: 1}, promises.OneOwner},
	{DeadWasLive, Config{Watched: true, Workers: 2, Messages: []Kind{Innocent}, Leases: 1}, promises.CrashesEnd},
	{AskInLease, Config{Watched: true, Workers: 2, Messages: []Kind{Flaky}, Leases: 1, Dups: 1}, promises.CrashesEnd},
	{AnswerInLease, Config{Watched: true, Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Lates: 1}, promises.OneOwner},
	{AbsentHasLeft, Config{Watched: true, Workers: 1, Messages: []Kind{Innocent}, Crashes: 1, Lates: 1}, promiseEnd},
	{RequestIsRepeated, Config{Watched: true, Workers: 1, Messages: []Kind{Innocent}, Tx: true, Lates: 1}, promises.EffectsOnce},
	{NeverForget, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Losses: 1, Rebalances: 1}, promiseEnd},
	{InHandOnce, Config{Workers: 1, Messages: []Kind{Innocent}, Copies: []Copy{{}}}, promises.OneOwner},
	{BusyIsKept, Config{Workers: 2, Messages: []Kind{Innocent}, Dups: 1}, promises.NothingLost},
	{SettleBeforeAck, Config{Workers: 1, Messages: []Kind{Innocent}}, promises.NothingLost},
	{InterruptionIsFree, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1}, promises.AttemptsEnd},
	{AttemptsEnd, Config{Workers: 1, Messages: []Kind{Flaky}}, promises.AttemptsEnd},
	{FinishedPrefix, Config{Broker: Log, Workers: 1, Messages: []Kind{Innocent, Innocent}}, promises.NothingLost},
	{DiscardTracker, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent, Innocent}, Rebalances: 1}, promises.OffsetGrows},
	{LookUp, Config{
		Workers: 1, Messages: []Kind{Flaky}, Attempts: 1, DeadLetters: true, Replays: 1, Moves: 1, Dups: 1,
	}, "a replay runs another failure"},
	{SendBeforeDelete, Config{Workers: 1, Messages: []Kind{Innocent}, Replays: 1, Moves: 1}, promises.NothingLost},
	{StampCarriesToken, Config{
		Workers: 1, Messages: []Kind{Flaky}, Attempts: 1, DeadLetters: true, Topic: true, Replays: 1,
	}, "a replay runs another failure"},
	{AbandonedIsListed, Config{
		Workers: 1, Messages: []Kind{Flaky}, Attempts: 1, Replays: 1, InPlace: true, FromArchive: true, Crashes: 1,
	}, promiseEnd},
	{OwnDeliveryInPlace, Config{
		Workers: 1, Messages: []Kind{Flaky}, Attempts: 1, Replays: 1, InPlace: true, FromArchive: true, Crashes: 1,
	}, "a replay in place"},
}

// neededToo are guards that are needed where the ledger has no clock as well.
var neededToo = []struct {
	guard   Guard
	world   Config
	promise string
}{
	{MovedIsBusy, Config{Workers: 2, Messages: []Kind{Innocent}, Lates: 1, Dups: 1}, promises.FinishedStays},
	{LiveHolderIsBusy, Config{Workers: 2, Messages: []Kind{Innocent}, Dups: 1}, promises.OneOwner},
	{TokenGrows, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Dups: 1}, promises.TokensGrow},
	{DepartureIsNoCrash, Config{Workers: 1, Messages: []Kind{Innocent}, Exits: 1}, promises.CrashesEnd},
	{SettleOwner, Config{Workers: 1, Messages: []Kind{Flaky}, Losses: 1}, promises.AttemptsEnd},
	{SettleToken, Config{Workers: 2, Messages: []Kind{Innocent}, Lates: 1, Dups: 2}, promises.OneOwner},
	{SettleHeld, Config{Workers: 1, Messages: []Kind{Flaky}, Tx: true, Lates: 1}, promises.EffectsOnce},
	{LostIsLost, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Dups: 1}, promises.NothingLost},
	{FailArchives, Config{Workers: 1, Messages: []Kind{Flaky}, Attempts: 1}, promises.NothingLost},
	{Deadline, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Losses: 1, Rebalances: 1}, promiseEnd}, // of the call: who gave it up reads no more
	{UnknownIsOnlyRead, Config{Workers: 1, Messages: []Kind{Innocent}, Tx: true, Losses: 1}, promises.EffectsOnce},
	{SweepUnnamed, Config{Workers: 1, Messages: []Kind{Killer}, Crashed: []int{3}}, promises.CrashesEnd},
	{FateIsFinal, Config{Workers: 2, Messages: []Kind{Innocent}, Leases: 1, Dups: 1}, promises.OneOwner},
	{NoticeLost, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Leases: 1}, promiseEnd},
	{NeverForget, Config{Broker: Log, Workers: 2, Messages: []Kind{Innocent}, Losses: 1, Rebalances: 1}, promiseEnd},
}

// try explores a world, as far as most states.
func try(world Config, promise string, most int) (Report, error) {
	checks := 50
	if promise == promiseEnd {
		checks = 1
	}
	return Explore(world, most, checks)
}

// without explores a world with a guard, in which nothing may break, and without it, where the promise must.
func without(t *testing.T, world Config, guard Guard, promise string) (whole Report, violation *Violation) {
	t.Helper()
	whole, err := try(world, promise, 3_000)
	if err != nil {
		t.Fatalf("it breaks with the guard, too: %v", err)
	}
	world.Off = []Guard{guard}
	report, err := try(world, promise, 300_000)
	violation, ok := errors.AsType[*Violation](err)
	if !ok {
		t.Fatalf("%v: nothing breaks without it: %+v %v", guard, report, err)
	}
	if !strings.HasPrefix(violation.Promise, promise) {
		t.Errorf("it breaks another promise than %q: %v", promise, err)
	}
	return whole, violation
}

// TestEveryGuardIsNeeded takes out one guard at a time: a promise breaks, in a world in which it holds otherwise.
func TestEveryGuardIsNeeded(t *testing.T) {
	tried := map[Guard]bool{}
	for _, c := range needed {
		tried[c.guard] = true
		t.Run(c.guard.String(), func(t *testing.T) {
			whole, violation := without(t, c.world, c.guard, c.promise)
			// As docs/pitfalls.md has it (internal/mutants).
			t.Logf("rule %v: %d states hold with it; without it, after %d steps: %s", c.guard, whole.States,
				len(violation.Trace)+len(violation.Recovery), violation.Promise)
		})
	}
	for g := range guards {
		if !tried[g] {
			t.Errorf("no world shows that %v is needed", g)
		}
	}
}

// The guards that a ledger with a clock has are needed without one, too.
func TestGuardsAreNeededWithoutAClock(t *testing.T) {
	for _, c := range neededToo {
		t.Run(c.guard.String(), func(t *testing.T) {
			c.world.Watched = true
			_, violation := without(t, c.world, c.guard, c.promise)
			t.Logf("%d steps: %s", len(violation.Trace)+len(violation.Recovery), violation.Promise)
		})
	}
}

// Package ledgertest is the conformance suite of ledgers: one suite for all stores, whatever they are made of. Only tests
// import it.
//
//	open := func(*testing.T) ledgertest.Store {
//		l := memory.New()
//		return ledgertest.Store{
//			Ledger:  l,
//			Get:     l.Get,
//			Declare: func(_ context.Context, id string) error { l.Declare(id); return nil },
//			Drop:    func(_ context.Context, key ledger.Key) error { l.Drop(key); return nil },
//			DropOwner: func(context.Context, string) error {
//				return nil // one that is sealed may do as little as one that is not there
//			},
//		}
//	}
//
// A store's test file opens it so, and calls:
//
//	func TestMain(m *testing.M)        { ledgertest.Main(m, openAgain) } // stores with second processes
//	func TestLedger(t *testing.T)       { ledgertest.Run(t, open) }
//	func TestInTx(t *testing.T)         { ledgertest.RunInTx(t, open) }
//	func TestProcesses(t *testing.T)    { ledgertest.RunProcesses(t, open) }
//	func TestDifferential(t *testing.T) { ledgertest.Differential(t, open, 40) }
//	func TestMaintain(t *testing.T)     { ledgertest.RunMaintain(t, open) }
//	func TestOperate(t *testing.T)      { ledgertest.RunOperate(t, open) } // Operators
//	func TestBoard(t *testing.T)        { ledgertest.RunBoard(t, open) } // Boards
//	func TestRecover(t *testing.T)      { ledgertest.RunRecover(t, open) } // Recoverers
//	func TestSteps(t *testing.T)        { ledgertest.RunSteps(t, open) } // StepReaders
//	func TestStepsOperate(t *testing.T) { ledgertest.RunStepsOperate(t, open) }
//	func TestParked(t *testing.T)       { ledgertest.RunParked(t, open) } // Parkings
//	func TestRanged(t *testing.T)       { ledgertest.RunRanged(t, open) } // stores that hold ranges
//	func TestRangedMaintain(t *testing.T)     { ledgertest.RunRangedMaintain(t, open) }
//	func TestRangedProcesses(t *testing.T)    { ledgertest.RunRangedProcesses(t, open) }
//	func TestRangedDifferential(t *testing.T) { ledgertest.Differential(t, ledgertest.Ranged(open), 40) }
//
// and gives each known fault of the field a test under its number:
//
//	func TestPitfall01_TakenAtOnce(t *testing.T) { ledgertest.Pitfall01(t, open) }
//	func TestPitfall02_ReadThenTakeOver(t *testing.T) { ledgertest.Pitfall02(t, open) }
//	func TestPitfall03_StaleOwner(t *testing.T) { ledgertest.Pitfall03(t, open) }
//	func TestPitfall04_BeatOfTheDead(t *testing.T) { ledgertest.Pitfall04(t, open) }
//	func TestPitfall05_JoinAnew(t *testing.T) { ledgertest.Pitfall05(t, open) }
//	func TestPitfall07_TwentyTakers(t *testing.T) { ledgertest.Pitfall07(t, open) }
//	func TestPitfall08_ClaimAnswerLost(t *testing.T) { ledgertest.Pitfall08(t, open) }
//	func TestPitfall11_RowGone(t *testing.T) { ledgertest.Pitfall11(t, open) }
//	func TestPitfall12_SameKeyTwice(t *testing.T) { ledgertest.Pitfall12(t, open) }
//	func TestPitfall13_OppositeOrder(t *testing.T) { ledgertest.Pitfall13(t, open) }
//	func TestPitfall15_NextDay(t *testing.T) { ledgertest.Pitfall15(t, open) }
//	func TestPitfall16_ChangedInPlace(t *testing.T) { ledgertest.Pitfall16(t, open) }
//	func TestPitfall17_FingerprintKept(t *testing.T) { ledgertest.Pitfall17(t, open) }
//	func TestPitfall18_TwoSettings(t *testing.T) { ledgertest.Pitfall18(t, open) }
//	func TestPitfall19_FailedOnce(t *testing.T) { ledgertest.Pitfall19(t, open) }
//	func TestPitfall23_Results(t *testing.T) { ledgertest.Pitfall23(t, open) }
//	func TestPitfall26_RetentionIsNotLease(t *testing.T) { ledgertest.Pitfall26(t, open) }
//	func TestPitfall27_RetryKeepsRow(t *testing.T) { ledgertest.Pitfall27(t, open) }
//	func TestPitfall28_Abandoned(t *testing.T) { ledgertest.Pitfall28(t, open) }
//	func TestPitfall30_OwnExpiry(t *testing.T) { ledgertest.Pitfall30(t, open) }
//	func TestPitfall30_SweptRetentions(t *testing.T) { ledgertest.SweptRetentions(t, open) }
//	func TestPitfall67_CrashLimit(t *testing.T) { ledgertest.Pitfall67(t, open) }
//	func TestPitfall71_AbsurdDates(t *testing.T) { ledgertest.Pitfall71(t, open) }
//	func TestPitfall72_BeatsForAWeek(t *testing.T) { ledgertest.Pitfall72(t, open) }
//	func TestPitfall75_SucceededMeanwhile(t *testing.T) { ledgertest.Pitfall75(t, open) }
//	func TestPitfall76_TwoReplays(t *testing.T) { ledgertest.Pitfall76(t, open) }
//	func TestPitfall77_LateRelease(t *testing.T) { ledgertest.Pitfall77(t, open) }
//	func TestPitfall79_PendingPastExpiry(t *testing.T) { ledgertest.Pitfall79(t, open) }
//	func TestPitfall79_SweptMeanwhile(t *testing.T) { ledgertest.SweptMeanwhile(t, open) }
//	func TestPitfall83_ReplayKilled(t *testing.T) { ledgertest.Pitfall83(t, open) }
//	func TestPitfall86_FrozenHolder(t *testing.T) { ledgertest.Pitfall86(t, open) }
//	func TestPitfall91_OddIDs(t *testing.T) { ledgertest.Pitfall91(t, open) }
//	func TestPitfall94_FingerprintDeploy(t *testing.T) { ledgertest.Pitfall94(t, open) }
//	func TestPitfall97_BugStillLives(t *testing.T) { ledgertest.Pitfall97(t, open) }
//	func TestPitfall98_MassRelease(t *testing.T) { ledgertest.Pitfall98(t, open) }
//	func TestPitfall100_BatchSizes(t *testing.T) { ledgertest.Pitfall100(t, open) }
//	func TestPitfall103_CopiesWithoutRow(t *testing.T) { ledgertest.Pitfall103(t, open) }
//	func TestPitfall104_TwoDeliveries(t *testing.T) { ledgertest.Pitfall104(t, open) }
//	func TestPitfall109_Backfill(t *testing.T) { ledgertest.Pitfall109(t, open) }
//	func TestPitfall113_SweptOwner(t *testing.T) { ledgertest.Pitfall113(t, open) }
//	func TestPitfall114_CopyGone(t *testing.T) { ledgertest.Pitfall114(t, open) }
//	func TestPitfall115_LateStatement(t *testing.T) { ledgertest.Pitfall115(t, open) }
//	func TestPitfall116_ReplayedFiveTimes(t *testing.T) { ledgertest.Pitfall116(t, open) }
//	func TestPitfall117_InPlaceReplayKilled(t *testing.T) { ledgertest.Pitfall117(t, open) }
//	func TestPitfall146_RowWithTheTokenOfARange(t *testing.T) { ledgertest.Pitfall146(t, open) }
//	func TestPitfall148_CopyOfADroppedLog(t *testing.T) { ledgertest.Pitfall148(t, open) }
//	func TestPitfall149_StartToldAtOnce(t *testing.T) { ledgertest.Pitfall149(t, open) }
//	func TestPitfall150_ReopenedBelowTheCut(t *testing.T) { ledgertest.Pitfall150(t, open) }
//	func TestPitfall151_ReopenedForTenMinutes(t *testing.T) { ledgertest.Pitfall151(t, open) }
//	func TestPitfall152_TokenBelowTheCut(t *testing.T) { ledgertest.Pitfall152(t, open) }
//	func TestPitfall154_CountedTwiceOrNot(t *testing.T) { ledgertest.Pitfall154(t, open) }
//	func TestPitfall155_RowsAndRangesOfOne(t *testing.T) { ledgertest.Pitfall155(t, open) }
//	func TestPitfall156_CopyAmongRows(t *testing.T)      { ledgertest.Pitfall156(t, open) }
//	func TestPitfall196_MetAnew(t *testing.T) { ledgertest.Pitfall196(t, open) }
//	func TestPitfall222_BroughtAgainWhileParked(t *testing.T) { ledgertest.Pitfall222(t, open) } // Parkings
//	func TestPitfall223_ParkedByARelease(t *testing.T) { ledgertest.Pitfall223(t, open) } // Parkings
//	func TestPitfall224_ParkedAndFailed(t *testing.T) { ledgertest.Pitfall224(t, open) } // Parkings
//	func TestPitfall225_ParkedAndCommitted(t *testing.T) { ledgertest.Pitfall225(t, open) } // Parkings
//
// Time in the suite is real: leases of half a second to two seconds, polled conditions, and no upper bound on a
// duration below several seconds, since test machines are noisy.
package ledgertest

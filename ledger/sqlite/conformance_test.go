package sqlite_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestMain(m *testing.M) { ledgertest.Main(m, openAgain) }

func TestLedger(t *testing.T)        { t.Parallel(); ledgertest.Run(t, open) }
func TestInTx(t *testing.T)          { t.Parallel(); ledgertest.RunInTx(t, open) }
func TestSteps(t *testing.T)         { t.Parallel(); ledgertest.RunSteps(t, open) }
func TestStepsOperate(t *testing.T)  { t.Parallel(); ledgertest.RunStepsOperate(t, open) }
func TestProcesses(t *testing.T)     { t.Parallel(); ledgertest.RunProcesses(t, open) }
func TestDifferential(t *testing.T)  { t.Parallel(); ledgertest.Differential(t, open, 40) }
func TestParked(t *testing.T)        { t.Parallel(); ledgertest.RunParked(t, open) }
func TestParkedOperate(t *testing.T) { t.Parallel(); ledgertest.RunParkedOperate(t, open) }

func TestRanged(t *testing.T)          { t.Parallel(); ledgertest.RunRanged(t, open) }
func TestRangedMaintain(t *testing.T)  { t.Parallel(); ledgertest.RunRangedMaintain(t, open) }
func TestRangedReopen(t *testing.T)    { t.Parallel(); ledgertest.RunRangedReopen(t, open) }
func TestRangedProcesses(t *testing.T) { t.Parallel(); ledgertest.RunRangedProcesses(t, open) }
func TestRangedDifferential(t *testing.T) {
	t.Parallel()
	ledgertest.Differential(t, ledgertest.Ranged(open), 60)
}

func TestPitfall01_TakenAtOnce(t *testing.T)         { t.Parallel(); ledgertest.Pitfall01(t, open) }
func TestPitfall02_ReadThenTakeOver(t *testing.T)    { t.Parallel(); ledgertest.Pitfall02(t, open) }
func TestPitfall03_StaleOwner(t *testing.T)          { t.Parallel(); ledgertest.Pitfall03(t, open) }
func TestPitfall04_BeatOfTheDead(t *testing.T)       { t.Parallel(); ledgertest.Pitfall04(t, open) }
func TestPitfall05_JoinAnew(t *testing.T)            { t.Parallel(); ledgertest.Pitfall05(t, open) }
func TestPitfall07_TwentyTakers(t *testing.T)        { t.Parallel(); ledgertest.Pitfall07(t, open) }
func TestPitfall08_ClaimAnswerLost(t *testing.T)     { t.Parallel(); ledgertest.Pitfall08(t, open) }
func TestPitfall11_RowGone(t *testing.T)             { t.Parallel(); ledgertest.Pitfall11(t, open) }
func TestPitfall12_SameKeyTwice(t *testing.T)        { t.Parallel(); ledgertest.Pitfall12(t, open) }
func TestPitfall13_OppositeOrder(t *testing.T)       { t.Parallel(); ledgertest.Pitfall13(t, open) }
func TestPitfall15_NextDay(t *testing.T)             { t.Parallel(); ledgertest.Pitfall15(t, open) }
func TestPitfall16_ChangedInPlace(t *testing.T)      { t.Parallel(); ledgertest.Pitfall16(t, open) }
func TestPitfall17_FingerprintKept(t *testing.T)     { t.Parallel(); ledgertest.Pitfall17(t, open) }
func TestPitfall18_TwoSettings(t *testing.T)         { t.Parallel(); ledgertest.Pitfall18(t, open) }
func TestPitfall19_FailedOnce(t *testing.T)          { t.Parallel(); ledgertest.Pitfall19(t, open) }
func TestPitfall23_Results(t *testing.T)             { t.Parallel(); ledgertest.Pitfall23(t, open) }
func TestPitfall26_RetentionIsNotLease(t *testing.T) { t.Parallel(); ledgertest.Pitfall26(t, open) }
func TestPitfall27_RetryKeepsRow(t *testing.T)       { t.Parallel(); ledgertest.Pitfall27(t, open) }
func TestPitfall30_OwnExpiry(t *testing.T)           { t.Parallel(); ledgertest.Pitfall30(t, open) }
func TestPitfall67_CrashLimit(t *testing.T)          { t.Parallel(); ledgertest.Pitfall67(t, open) }
func TestPitfall71_AbsurdDates(t *testing.T)         { t.Parallel(); ledgertest.Pitfall71(t, open) }
func TestPitfall77_LateRelease(t *testing.T)         { t.Parallel(); ledgertest.Pitfall77(t, open) }
func TestPitfall79_PendingPastExpiry(t *testing.T)   { t.Parallel(); ledgertest.Pitfall79(t, open) }
func TestPitfall86_FrozenHolder(t *testing.T)        { t.Parallel(); ledgertest.Pitfall86(t, open) }
func TestPitfall91_OddIDs(t *testing.T)              { t.Parallel(); ledgertest.Pitfall91(t, open) }
func TestPitfall94_FingerprintDeploy(t *testing.T)   { t.Parallel(); ledgertest.Pitfall94(t, open) }
func TestPitfall98_MassRelease(t *testing.T)         { t.Parallel(); ledgertest.Pitfall98(t, open) }
func TestPitfall100_BatchSizes(t *testing.T)         { t.Parallel(); ledgertest.Pitfall100(t, open) }
func TestPitfall104_TwoDeliveries(t *testing.T)      { t.Parallel(); ledgertest.Pitfall104(t, open) }
func TestPitfall109_Backfill(t *testing.T)           { t.Parallel(); ledgertest.Pitfall109(t, open) }
func TestPitfall113_SweptOwner(t *testing.T)         { t.Parallel(); ledgertest.Pitfall113(t, open) }
func TestPitfall114_CopyGone(t *testing.T)           { t.Parallel(); ledgertest.Pitfall114(t, open) }
func TestPitfall115_LateStatement(t *testing.T)      { t.Parallel(); ledgertest.Pitfall115(t, open) }

func TestPitfall222_BroughtAgainWhileParked(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall222(t, open)
}
func TestPitfall223_ParkedByARelease(t *testing.T)   { t.Parallel(); ledgertest.Pitfall223(t, open) }
func TestPitfall224_ParkedAndFailed(t *testing.T)    { t.Parallel(); ledgertest.Pitfall224(t, open) }
func TestPitfall252_LaneStaysParked(t *testing.T)    { t.Parallel(); ledgertest.Pitfall252(t, open) }
func TestPitfall253_LaneByArrival(t *testing.T)      { t.Parallel(); ledgertest.Pitfall253(t, open) }
func TestPitfall260_PlacesOfALane(t *testing.T)      { t.Parallel(); ledgertest.Pitfall260(t, open) }
func TestPitfall225_ParkedAndCommitted(t *testing.T) { t.Parallel(); ledgertest.Pitfall225(t, open) }

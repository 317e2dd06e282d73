package ledgertest

import "testing"

// Pitfall01: a row that was made a moment ago is not an orphan.
func Pitfall01(t *testing.T, open Open) {}

// Pitfall02: a take-over that was decided before the owner finished touches nothing.
func Pitfall02(t *testing.T, open Open) {}

// Pitfall03: an owner that outlived its lease changes nothing, and is told.
func Pitfall03(t *testing.T, open Open) {}

// Pitfall04: a beat of a dead owner says that everything is lost.
func Pitfall04(t *testing.T, open Open) {}

// Pitfall05: a worker that lost its lease takes its own row back under a new token.
func Pitfall05(t *testing.T, open Open) {}

// Pitfall07: twenty take one stale row and exactly one wins.
func Pitfall07(t *testing.T, open Open) {}

// Pitfall08: a repeated claim meets its own row.
func Pitfall08(t *testing.T, open Open) {}

// Pitfall11: a row that went between two claims is made anew, never run unlocked.
func Pitfall11(t *testing.T, open Open) {}

// Pitfall12: the same key twice in one call runs once.
func Pitfall12(t *testing.T, open Open) {}

// Pitfall13: two batches with the same keys in opposite order do not deadlock.
func Pitfall13(t *testing.T, open Open) {}

// Pitfall15: the finished message of yesterday, redelivered to two workers, is done.
func Pitfall15(t *testing.T, open Open) {}

// Pitfall16: bytes that the caller changes after a call change no row.
func Pitfall16(t *testing.T, open Open) {}

// Pitfall17: the fingerprint survives completion and take-over.
func Pitfall17(t *testing.T, open Open) {}

// Pitfall18: two workers with different settings share one ledger.
func Pitfall18(t *testing.T, open Open) {}

// Pitfall19: a redelivery after a failure runs.
func Pitfall19(t *testing.T, open Open) {}

// Pitfall23: nil, empty, NUL, invalid UTF-8 and oversized results.
func Pitfall23(t *testing.T, open Open) {}

// Pitfall26: a crash does not wedge a key for its retention.
func Pitfall26(t *testing.T, open Open) {}

// Pitfall27: a release keeps the row and its attempts.
func Pitfall27(t *testing.T, open Open) {}

// Pitfall30: the row's own expiry decides, not a later worker's setting.
func Pitfall30(t *testing.T, open Open) {}

// Pitfall67: a message that kills its owners is spent at the crash limit.
func Pitfall67(t *testing.T, open Open) {}

// Pitfall71: records dated in the year 1, in the future and in 9999.
func Pitfall71(t *testing.T, open Open) {}

// Pitfall77: a release after the success changes nothing.
func Pitfall77(t *testing.T, open Open) {}

// Pitfall79: a pending row past its expiry runs when its message comes.
func Pitfall79(t *testing.T, open Open) {}

// Pitfall86: a process frozen while it holds stalls nobody else (needs a DSN).
func Pitfall86(t *testing.T, open Open) {}

// Pitfall91: NUL, invalid UTF-8, absurd dates and a huge archive fail alone.
func Pitfall91(t *testing.T, open Open) {}

// Pitfall94: either half of a fingerprint is enough.
func Pitfall94(t *testing.T, open Open) {}

// Pitfall98: two thousand claims are released at once, uncounted, ten times.
func Pitfall98(t *testing.T, open Open) {}

// Pitfall100: batches of very different size do not deadlock.
func Pitfall100(t *testing.T, open Open) {}

// Pitfall104: two records with one business key are each archived once.
func Pitfall104(t *testing.T, open Open) {}

// Pitfall109: timestamps of 2019 are stored as they are.
func Pitfall109(t *testing.T, open Open) {}

// Pitfall113: an owner that was declared dead wakes up and claims.
func Pitfall113(t *testing.T, open Open) {}

// Pitfall114: a claim whose answer was lost and whose copy went is released.
func Pitfall114(t *testing.T, open Open) {}

// Pitfall115: a release that executes late changes nothing.
func Pitfall115(t *testing.T, open Open) {}

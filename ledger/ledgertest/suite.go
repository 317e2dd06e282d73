package ledgertest

import "testing"

// Run is the conformance suite: every row of the claim table, every settle rule, owners, and races. Each case calls
// open.
func Run(t *testing.T, open Open) {}

// RunInTx is the suite of InTx. The store has the fields InTx, Effect and Effects.
func RunInTx(t *testing.T, open Open) {}

// RunProcesses is the part with second processes, which are killed and stopped. The store has a DSN, and the test
// binary's TestMain calls [Main].
func RunProcesses(t *testing.T, open Open) {}

// Differential compares the store with an independent model on random sequences of join, claim, settle, release,
// declare and leave; steps bounds the length of a sequence.
func Differential(t *testing.T, open Open, steps int) {}

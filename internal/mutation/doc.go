// Command mutation measures the tests with changes that nobody chose: it deletes statements, negates conditions, shifts
// boundaries, returns zero values, and drops conjuncts of SQL, in a sample drawn from a seed, and says which changes no test
// sees. internal/mutants shows that the guards which somebody thought of are tested; this shows what nobody thought of.
//
//	go run ./internal/mutation -sample 200 -seed 1 ./ledger ./internal/ranges
//
// Table of contents, from the bottom up:
//   - sql.go: the conjuncts of a statement
//   - find.go: the mutants of a package's files
//   - instrument.go: one program with all mutants of a package, of which the environment picks one
//   - program.go: a package's tests, built with that; which of them reach which mutant
//   - judge.go: whether a mutant dies
//   - equivalent.go: mutants that change nothing, with why (equivalent.txt)
//   - main.go: the packages, and the table in docs/reliability.md
//
// A mutant dies if a test that reaches it fails, crashes or hangs. Tests are taken from the fastest on, for as long as the
// budget lasts. What only logs is left alone, and so are locks, whose deletion merely hangs. Mutants are compiled once for a
// package (mutant schemata: Untch, Offutt and Harrold, "Mutation analysis using mutant schemata", ISSTA 1993).
package main

// Command mutants shows that the pitfall tests guard what they say they guard. Each entry of list/*.txt names a pitfall
// (a fault that a queue consumer has shipped), the test that would catch it here, and a change of the code that takes
// the guard out. The command runs the test as the code stands (it must pass) and with the change (it must fail), and
// keeps the outcome in docs/pitfalls.md. It exits with 1 if a test passes without its guard.
//
//	go run ./internal/mutants                  # all
//	go run ./internal/mutants -only 12,15
//	go run ./internal/mutants -package ./ledger/sqlite
//
// The working tree is never touched: the changed file reaches the compiler through an overlay
// (https://pkg.go.dev/cmd/go, build flag -overlay), also in the programs that a test builds itself. A part run changes
// the rows of its own pitfalls alone.
//
// An entry, with blank lines around it:
//
//	12 One poll holds the same key twice, and both copies are run.
//	guard: the claims of one batch see each other
//	test: ./ledger/memory TestPitfall12_SameKeyTwice
//	file: ledger/memory/rows.go
//	-	text that is in the file exactly once
//	+	what stands there instead
//
// A pitfall may have an entry for each guard against it, such as those of the stores, each with a test of its own. What breaks
// without each rule of internal/model is entered by a run of all.
//
// Lines of - and + stand for whole or part lines, several for a text over several lines; no + line at all deletes. A
// guard held in two places has several file: parts. A pitfall that cannot come up by design has no file: but a
// line "design:" which says why; its test shows it and must pass. A line of # is a comment.
package main

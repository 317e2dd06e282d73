// Command fuzzing runs every fuzz target of the module, and of the modules in its folders, for some time, several at once, and
// keeps how long and how many inputs in docs/reliability.md. It goes on after a failure, and exits with 1 then; the go command
// keeps the input that failed under testdata, where it is a test from then on.
//
//	go run ./internal/fuzzing -time 30m -at-once 4
package main

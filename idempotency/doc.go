// Package idempotency does a request once, and answers its repetitions with what came of it: for HTTP handlers, Lambda events, cron
// jobs, tasks of other queues, and whoever else has a key for what is to be done.
//
//	bill := func(context.Context) (idempotency.Result, error) {
//		fmt.Println("the bills of November are sent")
//		return idempotency.Result{Body: []byte("40 bills")}, nil
//	}
//	for range 2 {
//		out, err := runner.Do(ctx, idempotency.Request{Scope: "billing", Key: "2026-11"}, bill)
//		fmt.Println(string(out.Result.Body), out.Replayed, err)
//	}
//
// [Runner.Do] runs a function under the ledger's rules. One live process runs a request, with a fencing token that only grows; a
// repetition of what succeeded gets the stored result, one of what failed for good the stored error, one of what is in progress waits.
// A function that runs in postgres.InTx or sqlite.InTx and calls [SetResult] there has its effects, its result and the success in one
// commit. A function with outside effects is at least once: it passes on consumer.ChildKey. Where the ledger does not answer nothing
// is done. [Do] is for functions with a value of any type.
//
// Its own process' crash leaves a request to whoever asks next, once the lease is over; crashes are counted, and one that kills five
// processes has failed for good.
//
// # Files
//
// Each file uses what stands below it:
//
//	value.go    values of a type instead of results
//	runner.go   the Runner: how it starts and ends
//	do.go       one request: what is asked of the ledger, and what its answers mean
//	handle.go   one run of a function, and what is stored of its end
//	filter.go   what is asked before a claim
//	audit.go    answers that are kept for operators when their rows are gone
//	lookups.go  successes that are read, not claimed
//	flights.go  what is in progress in this process
//	telemetry.go how requests are counted
//	options.go  the settings
//	results.go  how results are stored: bounded, sealed
//	spill.go    what is too large for the ledger
//	result.go   results, and their stored form
//	request.go  what makes two requests one
//	errors.go   what a caller is told
package idempotency

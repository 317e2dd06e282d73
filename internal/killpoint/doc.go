// Package killpoint names the steps of a message's way at which tests kill a worker with SIGKILL (kill -9).
//
// [At] is empty, and inlined away, unless the program is built with the tag killpoints. Then the process kills itself
// when it comes by the step that the variable [Variable] names, as often as that says:
//
//	go build -tags killpoints -o worker ./integration/chaos/worker
//	ACKLEDGER_KILLPOINT=claimed@3 ./worker    # dies at its third claim
//
// The steps are called where a worker goes from one promise to the next: internal/engine, sqs and kafka.
// A recovery after a restore comes by the same ones, where it sets a group's offsets back.
package killpoint

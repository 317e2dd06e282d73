// Package replay brings dead letters back, each once.
//
//	target, err := replay.InPlace(mended, &replay.InPlaceOptions{Options: consumer.Options{Name: "shop"}})
//	if err != nil {
//		log.Fatal(err)
//	}
//
//	report, err := replay.Run(ctx, l, replay.Archive(l), target, replay.Config{By: ledger.By{Actor: "ann", Reason: "bug 42 is mended"}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	fmt.Println("replayed:", report.Replayed, "succeeded already:", report.Succeeded)
//
// A dead letter is a message that failed for good: the ledger's row of it is failed, its whole body is in the ledger's
// archive, and perhaps a copy of it is in a dead-letter queue or topic. [Run] reads dead letters from a [Source] and hands
// them to a [Target]:
//
//	source                                   target
//	Archive: the ledger itself               sqs.NewReplayTarget: back to the queue they came from
//	sqs.NewReplaySource: a dead-letter queue kafka.NewReplayTarget: back to the topic they came from
//	kafka.NewReplaySource: a dead-letter topic  InPlace: through the handler, in this process
//
// The ledger is authoritative. For each dead letter, its message's own row decides ([Plan]), at the moment of the send:
//
//	row                                       what happens
//	another body                              left: a mismatch, sent on request, as a message of its own
//	succeeded                                 dropped: it is done
//	failed again since, under a higher token  dropped: that failure has a dead letter of its own
//	pending: a live owner, or in backoff      left: it is being worked on
//	failed, or pending and nobody's           sent with its stamp, and only then removed from the source
//
// The copy carries the stamp of its message, with the token of the failing claim. So it meets its own row, however often it
// is sent: one failure is run again once, work that succeeded is not done again, and two replays of one queue at once, or
// one that is killed at any line and started again, do no harm. Nothing is ever between two places: the row stays failed
// until a worker claims the copy. That is why no run has a state file.
//
// Where there is an order (a FIFO group, a Kafka key), nothing overtakes what failed or is refused: what is behind it is left.
//
// A run is of what was there when it began: if the bug still lives, it ends, and does not chase its own failures.
//
// The package knows no broker; packages sqs and kafka have the sources and targets.
package replay

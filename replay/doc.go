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
// A dead letter is a message that failed for good. The ledger's row of it is failed, its whole body is in the ledger's archive,
// and a copy of it may be in a dead-letter queue or topic. [Run] reads dead letters from a [Source] and hands them to a
// [Target]:
//
//	source                                   target
//	Archive: the ledger itself               sqs.NewReplayTarget: back to the queue they came from
//	sqs.NewReplaySource: a dead-letter queue kafka.NewReplayTarget: back to the topic they came from
//	kafka.NewReplaySource: a dead-letter topic  InPlace: through the handler, in this process
//
// The ledger is authoritative. For each dead letter, its message's own row decides, at the moment of the send. [Plan] has all
// cases; these are the main ones:
//
//	row                                       what happens
//	another body                              left: a mismatch, sent on request, as a message of its own
//	succeeded                                 dropped: it is done
//	superseded: a letter has a higher token   dropped: that one takes its place
//	pending: a live owner, or in backoff      left: it is being worked on
//	failed, or pending and nobody's           sent with its stamp, and only then removed from the source
//
// The copy carries the stamp of its message, with the token of the failing claim. So the copy meets its own row, however often
// it is sent. One failure is run again once, and work that succeeded is not done again. Two replays of one queue at once do no
// harm, and neither does a replay that is killed at any line and started again.
//
// Nothing is ever between two places, because the row stays failed until a worker claims the copy. So no run needs a state
// file.
//
// Where there is an order (a FIFO group, a Kafka key), nothing overtakes a letter that failed or is refused. The letters behind
// it are left.
//
// A run handles what was there when it began. If the bug still lives, the run ends, and does not chase its own failures.
//
// The package knows no broker; packages sqs and kafka have the sources and targets.
package replay

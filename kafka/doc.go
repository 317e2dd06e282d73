// Package kafka consumes topics of Apache Kafka through a ledger: an offset is committed only once the ledger is
// terminal for every record below it.
//
//	l := memory.New() // in production postgres.New or sqlite.Open
//	w, err := kafka.NewWorker([]kgo.Opt{
//		kgo.SeedBrokers(brokers...),
//		kgo.ConsumerGroup("billing"),
//		kgo.ConsumeTopics("orders"),
//	}, l, consumer.HandlerFunc(charge), nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	err = w.Run(ctx) // until ctx is done: then it drains, and commits
//
// examples/kafka-worker is a whole program, which drains at a signal.
//
// # Who is authoritative
//
// The ledger is authoritative for whether a message is finished. When a record is delivered again, the worker asks the
// ledger, and does not run a finished record a second time. The group's coordinator is authoritative for who reads a
// partition.
//
// The worker's offset trackers say how far the committed offset may go. A tracker lives as long as one assignment of a
// partition, and the next assignment builds a new one from what is delivered. So a commit that is late, or lost, costs
// redeliveries that the ledger answers, and nothing else.
//
//	delivered ──▶ tracker ──▶ engine: claim, handle, settle ──▶ tracker: finished
//	                 │                                              │
//	                 └── span limit: the partition pauses           └── one committer: the finished prefix, while the
//	                                                                    partition is ours
//
// # Identity
//
// A record's identity is its cluster, its topic's id, partition, leader epoch and offset, within the scope of its group. So a
// topic that is deleted and created again, or a log that was truncated, has new messages. The readable form of the identity is
// topic-partition-offset. A stamp ([consumer.Stamp]) or Options.KeyFunc replaces it.
//
// # What the ledger keeps
//
// Offsets are dense, so the ledger holds what succeeds in ranges of offsets. A range says of each of its records that it
// succeeded, and between which times. A record that fails, is retried, or has a result, a stamp or a key of its own has a row.
// With [AuditRows] each record has a row, with its own time. Both promise the same, and workers of both kinds may share a group.
//
// A range does not know the fingerprints of what succeeded in it. A copy whose stamp names such a record counts as that record,
// whatever the copy's body. With a row the copy's body would be compared, and a different one archived as a mismatch. Stamps of
// ours name records that failed, and these have rows. Where producers may forge stamps, use AuditRows.
//
// Each commit carries the ids of ledger, cluster and topic as metadata. A commit without them, made by an operator or another
// consumer, counts as it stands.
//
// # Rebalances
//
// Both group protocols are served: classic (cooperative-sticky by default), and KIP-848 with kgo.ServerSideBalancer on
// Kafka 4.3 or newer. When a partition goes to another member, the worker does this in order:
//
//  1. It takes nothing more in from the partition.
//  2. It releases what was not started.
//  3. It lets what runs end (Config.RevokeDrain).
//  4. It commits the finished prefix.
//
// From then on this worker does not move the partition's offset. What finishes later changes the ledger alone.
//
// # Share groups
//
// [NewShareWorker] is for share groups (KIP-932), which have neither partitions of their own nor order: see [ShareWorker].
//
// # Who else reads the group
//
// All members of a group must be workers of this package, with one ledger. Another consumer would commit past records that
// the ledger does not know as finished.
//
// # Files
//
// Each file uses what stands below it:
//
//	share.go          a share group's Run
//	sharepoll.go      takes a share group's records in
//	sharekeep.go      renews, accepts and releases
//	shareworker.go    the worker of a share group: its state, its health
//	sharelag.go       how many records a share group has not decided
//	shareanswers.go   what the brokers answer, and what waits for it
//	sharetable.go     the records in hand, under a lock; package locks decides
//	sharehidden.go    hides records from what the client would accept by itself
//	sharesettings.go  the settings of that worker, and what the brokers say of the group
//	run.go            Run: builds the client, starts what is below, drains, and leaves the group
//	telemetry.go      the lag as a metric, and the client's own log
//	watch.go          looks at the topics now and then, for those that were deleted and created again
//	prepare.go        what is asked, and refused, before anything is consumed
//	poll.go           takes records in, and deals with what a poll says beside them
//	largebatch.go     batches that unpack to more than the client takes
//	rebalance.go      partitions that come and go, and where they begin
//	ledgers.go        refuses a group in which a worker of another ledger has committed
//	commit.go         the one committer
//	reborn.go         whether a topic is another one than the one that was read
//	metadata.go       asks the cluster for topics and their ids
//	worker.go         a consumer group's worker: its state, its health
//	base.go           what the workers of both kinds of groups have, and why they end
//	table.go          the assignments of the moment, under a lock; package offsets decides
//	stretch.go        records that go through the engine as one
//	record.go         one record in hand: its item, its copies, its lane
//	assignment.go     one term in which this member owns a partition
//	recover.go        what groups have committed beyond a ledger that was restored, and how they are set back
//	recoverscan.go    asks the ledger for what lies below a commit
//	begin.go          what a commit's metadata says, and where a partition begins by it
//	replay.go         a dead-letter topic as a source of package replay
//	replayend.go      whether nothing is left of a partition that has gone quiet
//	replaytarget.go   puts dead letters back on the topics they came from
//	replaygroups.go   which groups read a topic
//	replayage.go      counts copies that are older than their topic keeps records
//	publisher.go      a topic as a target of the outbox
//	deadletter.go     a topic of dead letters, and the records to and from it
//	horizon.go        how far the topics' logs reach: what a stamp may name
//	source.go         a topic's identity, and what its configuration says of its records
//	config.go         the settings
//	probe.go          what the caller's options of the client say
//	errors.go         the errors of Run, and which of them no retry heals
//	retry.go          how long a request may take, and when it is tried again
//	arena.go          the bytes of several records in one allocation
package kafka

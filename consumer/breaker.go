package consumer

// Breaker says when a worker stops because too much of what it handles fails for good: a deploy that refuses everything would
// else write every message of its source into the archive, at full speed. The zero value is the default.
//
// What counts is what came to its end within the last minute: a success on the one side, on the other all that goes to the
// archive (a terminal error, the last attempt, the crash limit, a mismatch, a KeyFunc that fails). Attempts that are repeated and
// duplicates count on neither side, nor does what a replay runs in place. Each worker of each process counts for itself.
//
// A worker whose breaker is open starts no handler and does not poll; what it has claimed it gives back. Handlers that run
// go on, so at most as many messages as run at that moment fail beside the limit. After a second it tries one message, whichever
// lane it is of; what that comes to is final as ever. After five successes in a row it goes on; after a failure it waits twice as
// long, up to a minute; an attempt that will be repeated says neither, and the next message is tried 100 ms later. If it opens
// again within ten minutes, the wait goes on growing from where it was. Health is not ready meanwhile and says why, and so do the
// log and the metric ackledger.breaker.open.
type Breaker struct {
	// Off leaves the breaker out. For workers whose messages mostly fail by design: that of a dead-letter queue, or a filter.
	Off bool
	// Failures and Percent are what both must be exceeded: so many messages failed for good within the last minute, and so
	// large a part of those that came to their end. 1 to 1,000,000, default 100; 1 to 99, default 50. For people whose
	// messages are large or few (fewer), or who refuse many in ordinary times (more).
	Failures, Percent int
}

// Package lambdasqs handles the messages that AWS Lambda polls from Amazon SQS, through the same ledger and by the same handlers as the
// worker of package sqs. It is a module of its own, so that only functions have aws-lambda-go in their graph.
//
//	h, err := lambdasqs.New(l, consumer.HandlerFunc(charge), &lambdasqs.Config{
//		Options: consumer.Options{Name: "billing"},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	lambda.Start(h.Handle)
//
// The ledger l is made once, before: in production by postgres.New, on a pool that outlives the invocations.
//
// # What the event source mapping needs
//
// FunctionResponseTypes must have ReportBatchItemFailures (Lambda developer guide, "Handling errors for an SQS event source in
// Lambda"). Without it Lambda does not look at the response, and deletes every message of an invocation that returned no error, done or
// not. A mapping that cannot be changed needs [Config.FailWhole].
//
// The queue's visibility timeout should be six times the function's timeout, as the same guide says of queues. It is the pause
// between two attempts of a message. maxReceiveCount counts every delivery, also one that finds its message busy, or behind a failure
// of its group: give it Attempts, five crashes and ten to spare, and on FIFO queues several times that.
//
// # What an invocation does
//
//	join ──▶ claim, handle, settle ──▶ give back what is left ──▶ leave ──▶ response
//	           │                        ▲
//	           └── until Config.Margin before the deadline
//
// A message is left out of batchItemFailures, and so is deleted, only once the ledger has it durably as succeeded, or as failed with
// its body archived. All others are named, and come again. An invocation that cannot join the ledger returns an error, and Lambda
// delivers all its messages again; so it does after a timeout or a crash.
//
// A duplicate of what is finished is acknowledged without a run. So is the second copy of a message in one event. A message that
// somebody else holds is waited for, up to three leases. One whose retry is not due within a second goes back.
//
// What failed for good goes where [consumer.Options] say: to the ledger's archive, and to Options.DeadLetter. Then it is acknowledged.
//
// # FIFO queues
//
// The messages of a group run one after the other, in the order of the event, and groups do not wait for each other. When a message of a
// group has failed, nothing behind it begins any more in this invocation, and nothing behind a message that comes again is acknowledged.
// That is also so where the failure was the message's last, or where it was archived without a run: it is archived and acknowledged, and
// what is behind it comes with the next delivery.
//
// # Deadlines
//
// Config.Margin before the invocation's deadline, every handler's context is cancelled (consumer.ErrRevoked), what had not begun is
// released, and the settlements are written. Such an attempt does not count. A handler that began in the first tenth of the
// invocation has had its time, though: its context ends a little earlier (consumer.ErrTimeout), and the attempt counts, so that a
// message which never fits into an invocation fails for good in the end.
//
// A handler that ignores its context keeps no invocation from its response. Its message comes again, and may then run while the first
// run goes on: its ledger calls are fenced, its outside effects are not.
//
// A ledger that does not answer makes no response late. Nothing is acknowledged that it did not confirm. The target of dead letters has a
// quarter of the invocation's time to say where it is, the ledger has half of it to be joined, and Options.KeyFunc and FingerprintFunc
// have a quarter of the rest: a message of which they do not return comes again, and the others are handled. Where that quarter is more
// than a minute, such a message is archived as invalid, as a worker would.
//
// # A frozen process
//
// Lambda freezes the process between two invocations. No timer fires then, and no beat can be sent: a lease that is held over a freeze
// ends unseen. So none is. Each invocation joins the ledger as an owner of its own and has left it before it responds. Between
// invocations there is no owner, no transaction and no goroutine of this package, but for handlers that ignored their context and calls
// of a ledger that did not answer: an owner that could not leave ends with its lease. A thawed process has nothing to find out about: its
// next invocation joins anew, and claims by a lease that has just begun.
//
// Joining and leaving are two small writes to the ledger for each invocation, whatever its number of messages.
//
// A process that is killed in mid-invocation has not left. Its lease ends by itself, and [ledger.Owner] says who may take over: a peer
// that has lived for a lease of its own. That is why a lease is at most a third of an invocation's time: the invocation that gets
// the message again can wait for the lease's end, declare the owner dead, and run the message, all within its own time. The crash
// counts, and the fifth archives the message.
//
// # What it does not do
//
// It does not maintain the ledger: sweeps are long, and an invocation is short. Run consumer.Maintenance or `ackledger maintain`
// somewhere, or a worker on the same ledger. It heeds no pauses (`ackledger pause`): what it gave back would come again, and walk into
// the dead-letter queue. Disable the event source mapping instead. Options.NoMaintenance, Options.Breaker, Options.MinConcurrency and
// Options.Pressure are not used. Options.Rate and Concurrency are per invocation, Options.Limiter is per process: the mapping's maximum
// concurrency bounds the number of both.
//
// A dead letter, a stamp and a replay know the messages by the queue's ARN, as a worker's: both may serve one queue, one after the other
// or side by side, with the same Options.Name.
//
// # Files
//
//	handler.go    the Handler: its settings, and what it is asked
//	invocation.go one invocation: join, handle, give back, leave
//	order.go      FIFO groups that have stopped
//	event.go      what Lambda delivers, and what it is answered
package lambdasqs

// Package sqs consumes queues of Amazon SQS through a ledger: a worker deletes a message only once the ledger is terminal for
// it. It serves standard and FIFO queues, of AWS and of compatible services.
//
//	l := memory.New() // in production postgres.New or sqlite.Open
//	cfg := &sqs.Config{Options: consumer.Options{Name: "billing"}}
//
//	w, err := sqs.NewWorker(client, url, l, consumer.HandlerFunc(charge), cfg)
//	if err != nil {
//		log.Fatal(err)
//	}
//	if err := w.Run(ctx); err != nil { // until ctx is done: then it drains
//		log.Fatal(err)
//	}
//
// examples/sqs-worker is a whole program, which drains at a signal.
//
// # Who is authoritative
//
// The ledger is authoritative for whether a message is finished and who may handle it. SQS hides a message from others only as a
// courtesy. When a copy is delivered all the same, to this worker or another one, the worker asks the ledger, and holds or
// deletes the copy by the ledger's answer. So a visibility timeout that runs out, or a delete that fails, costs a redelivery
// and nothing else.
//
//	poll ──▶ in hand ──▶ engine: claim, handle, settle ──▶ delete (batches of 10, or after 50 ms)
//	            ▲                      │
//	            │                      └──▶ hand back: at shutdown, or for a long backoff
//	            └── extended every third of the visibility timeout until its delete is sent
//
// # Visibility
//
// A message stays hidden while it is in hand, whether it runs, waits for a retry or is busy elsewhere. Handing it back would
// cost a receive each time, and the queue's maxReceiveCount would send it to the dead-letter queue. The worker extends the
// visibility timeout through a drain, and stops when it loses its lease. Extensions end before the delete is sent. After 12
// hours SQS extends no more (developer guide, "Amazon SQS visibility timeout"), so what has not started by then goes back.
//
// A handle may expire all the same (an outage of SQS, a process that was frozen). Then the worker lets go of a message that was
// not started. A handler that runs goes on, because its claim holds. The next delivery brings the handle by which the worker
// deletes the message.
//
// # Connections
//
// A busy worker has up to MaxPollers polls and as many batches of deletes under way at once, each on a connection of its
// own. The SDK's HTTP client keeps ten idle connections to a host by default (MaxIdleConnsPerHost of
// aws/transport/http), and opens further ones each time, with a TLS handshake. Let the client of a busy worker keep as many as
// the worker uses, 20 with the defaults:
//
//	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 20 })
//	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
//
// # FIFO queues
//
// The worker keeps the order of each message group of a queue whose name ends in .fifo. One message of a group runs at a time.
// A failed message is retried in place while its group waits. When a handle of the group expires, or the worker stops, the
// worker lets go of the group as a whole, and the group comes again in order.
//
// # What Run checks
//
// Run reads the queue's attributes once. It refuses:
//
//   - an unknown queue, and missing rights
//   - an archive limit of the ledger below the queue's MaximumMessageSize
//   - a Window that is shorter than the retention of the queue and of its dead-letter queues together (unless
//     AllowShortWindow)
//
// It warns, in the log and in Health, of a queue without redrive policy, or with a maxReceiveCount below Attempts + 5 crashes
// + 10.
//
// # Dead letters
//
// Options.DeadLetter forwards messages that failed for good, to a [DeadLetterQueue] or elsewhere. The queue's own redrive
// policy goes on working beside it. It takes what no worker could finish, such as messages that the ledger refuses to archive.
// [ParseDeadLetter] reads dead letters of both kinds, and [SourceInput] sends either back.
//
// A message that SQS moves keeps its MessageId, and so its row in the ledger. A message that a person moves (a console redrive,
// a move task) has a new MessageId, and meets its row by its stamp. Our dead letters have a stamp, and so have messages that a
// producer stamped with [StampInput]. A moved message without a stamp is a new message to everybody.
//
// # Identity
//
// A message's identity is its MessageId, within the scope of Config.Name and the queue's ARN. The MessageId survives redelivery
// and the move to a dead-letter queue. A redrive by the console or a move task gives a new one; then the stamp
// ([consumer.Stamp]) that the message carries is its identity. Options.KeyFunc replaces the MessageId by a business key, also
// where a replay's stamp says no more than the MessageId (Stamp.Broker).
//
// Message attributes are the message's headers, in the order of their names, with their data type. The system attribute
// AWSTraceHeader is a header, too. A message attribute `traceparent` makes the handler's span the child of the producer's.
package sqs

// Package sqs consumes queues of Amazon SQS through a ledger: a message is deleted only once the ledger is terminal for
// it. Standard and FIFO queues are served, of AWS and of compatible services.
//
// A first worker:
//
//	func main() {
//		l, err := sqlite.Open(context.Background(), "ledger.db", nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		cfg, err := config.LoadDefaultConfig(context.Background())
//		if err != nil {
//			log.Fatal(err)
//		}
//		w, err := sqs.NewWorker(awssqs.NewFromConfig(cfg), os.Getenv("QUEUE_URL"), l, consumer.HandlerFunc(charge),
//			&sqs.Config{Options: consumer.Options{Name: "billing", Logger: zap.Must(zap.NewProduction())}})
//		if err != nil {
//			log.Fatal(err)
//		}
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//		context.AfterFunc(ctx, stop) // the first signal drains, a second one ends the process
//		if err := w.Run(ctx); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # Who is authoritative
//
// The ledger, for whether a message is finished and who may handle it. SQS hides a message from others only as a
// courtesy: a copy that is delivered all the same, to this worker or another one, is asked for in the ledger, and is held
// or deleted by its answer. So a visibility timeout that runs out, or a delete that fails, costs a redelivery and nothing
// else.
//
//	poll ──▶ in hand ──▶ engine: claim, handle, settle ──▶ delete (batches of 10, or after 50 ms)
//	            ▲                      │
//	            │                      └──▶ hand back: at shutdown, or for a long backoff
//	            └── extended every third of the visibility timeout until its delete is sent
//
// # Visibility
//
// A message stays hidden while it is in hand, whether it runs, waits for a retry or is busy elsewhere: handing it back
// would cost a receive each time, and the queue's maxReceiveCount would send it to the dead-letter queue. Its extensions
// go on through a drain, stop when the worker loses its lease, and end before its delete is sent. After 12 hours SQS
// extends no more (developer guide, "Amazon SQS visibility timeout"), so what has not started by then goes back.
//
// When a handle expires all the same (an outage of SQS, a process that was frozen), what was not started is let go of; a
// handler that runs goes on, because its claim holds. The next delivery brings the handle by which the message is deleted.
//
// # Connections
//
// A busy worker has up to MaxPollers polls and as many batches of deletes under way at once, each on a connection of its
// own. The SDK's HTTP client keeps ten idle connections to a host by default (MaxIdleConnsPerHost of
// aws/transport/http) and opens others anew, with a TLS handshake each. A client for a busy worker keeps as many as it
// uses, 20 with the defaults:
//
//	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 20 })
//	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
//
// # FIFO queues
//
// A queue whose name ends in .fifo keeps the order of each message group: one message of a group runs at a time, and a
// failed one is retried in place while its group waits. A group is let go of as a whole, when a handle of it expires or the
// worker stops, and comes again in order.
//
// # What Run checks
//
// The queue's attributes are read once. Refused are: an unknown queue, missing rights, an archive limit of the ledger
// below the queue's MaximumMessageSize, and a Window that is shorter than the retention of the queue and of its
// dead-letter queues together (unless AllowShortWindow). A queue without redrive policy, or with a maxReceiveCount below
// Attempts + 5 crashes + 10, is a warning in the log and in Health.
//
// # Dead letters
//
// Options.DeadLetter forwards messages that failed for good, to a [DeadLetterQueue] or elsewhere. The queue's own redrive
// policy goes on working beside it: it takes what no worker could finish, such as messages that the ledger refuses to
// archive. [ParseDeadLetter] reads both, [SourceInput] sends either back.
//
// What SQS moves keeps its MessageId, and so its row in the ledger. What a person moves (a console redrive, a move task)
// has a new one, and meets its row by its stamp: a dead letter of ours has one, and so has what a producer stamped with
// [StampInput]. One without is a new message to everybody.
//
// # Identity
//
// A message is its MessageId, within the scope of Config.Name and the queue's ARN: it survives redelivery and the move to
// a dead-letter queue. A redrive by the console or a move task gives a new one; a stamp ([consumer.Stamp]) that the
// message carries is then its identity. Options.KeyFunc replaces the MessageId by a business key, also where a replay's stamp
// says no more than the MessageId (Stamp.Broker).
//
// Message attributes are the message's headers, in the order of their names, with their data type; so is the system
// attribute AWSTraceHeader. A message attribute `traceparent` makes the handler's span the child of the producer's.
package sqs

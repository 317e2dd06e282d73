// Package sqstest is an Amazon SQS server that runs inside a test.
//
//	clock := sqstest.NewManualClock(time.Time{})
//	srv, err := sqstest.New(&sqstest.Options{Clock: clock}) // in a test: sqstest.Start(t, ...)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer srv.Close()
//	ctx, client := context.Background(), srv.Client()
//	queue, err := srv.CreateQueue("orders", map[string]string{"VisibilityTimeout": "30"})
//
// It listens on a loopback port (net/http/httptest) and speaks the AWS JSON 1.0
// protocol, so the official aws-sdk-go-v2 client talks to it unchanged: give the
// client the server's URL as BaseEndpoint and any static credentials, or take
// [Server.Client], which has both. Signatures are not checked.
//
//	srv := sqstest.Start(t, nil)
//	client := srv.Client()
//	queueURL, err := srv.CreateQueue("orders", nil)
//
// # Time
//
// Visibility, delays, retention, the deduplication window, long polls and move
// tasks all read one [Clock]. With a [ManualClock] a test moves through twelve
// hours in a line; nothing happens, and a long poll does not end, until the test
// calls Advance. Network sockets are not durably blocking, so the server does
// not work inside a testing/synctest bubble: the manual clock is there for that.
//
// # Faults
//
// [Server.Inject] adds a [Fault]: a delay, an error code or HTTP status, some
// failing entries of a batch, an answer that is lost after the action was
// performed, or a message handed out twice in one answer.
//
// # What it does as AWS documents
//
// Queue and message quotas, batch rules and their error codes, system and
// message attributes with their MD5, standard and FIFO delivery, deduplication,
// redrive to a dead-letter queue, message move tasks. Where the documentation
// leaves room the server takes the reading that a consumer must survive:
//
//   - A receipt handle that is older than the message's latest receive: on a
//     standard queue the delete succeeds and the message stays ("the request
//     will succeed, but the message might not be deleted", API reference,
//     DeleteMessage; [Options.StaleDelete] turns it round), and a visibility
//     change takes effect. On a FIFO queue both are refused once the visibility
//     timeout is over (InvalidParameterValue, "The receipt handle has expired",
//     AWS re:Post "sqs-receipt-handle-error").
//   - A long poll whose client went away stays open until its time is over and
//     takes messages with it; they come back after their visibility timeout.
//   - A message moves to its dead-letter queue when it would be received the
//     (maxReceiveCount+1)th time. Its MessageId stays. On a standard queue the
//     SentTimestamp, from which retention counts, stays as well; on a FIFO queue
//     it is set anew and the deduplication id becomes the MessageId (developer
//     guide, "Setting-up dead-letter queue retention" and "dead-letter queue
//     redrive").
//   - A message move task gives every message a new MessageId and SentTimestamp
//     (developer guide, "dead-letter queue redrive").
//   - A standard queue is a fair queue (developer guide, "How Amazon SQS fair
//     queues work"): a tenant is a MessageGroupId. It is noisy while it has a
//     backlog, has been sent something within 5 minutes, and has more than a tenth
//     of all messages in flight and at least 30, or more than a tenth of recent
//     processing time. Messages of noisy tenants come behind all others, those of
//     the one with the fewest in flight first. A message in flight is one that was
//     received and neither deleted nor visible again: whether its consumer works at
//     it, holds it for a retry, or gave it back with a visibility timeout.
//     [Server.Fair] has the metrics. AWS does not document how processing time is
//     measured and what "recent" is, says of the thresholds that they are
//     approximate, and does not say when a share is "comparable" to that of quiet
//     tenants again. The server takes time in flight, once it has ended, with a
//     weight that falls by two thirds a minute, exact thresholds, and the same ones
//     for the way back. Messages without a group are never noisy.
//   - A full standard queue (120,000 in flight) answers OverLimit to a short
//     poll, nothing to a long one; a full FIFO queue answers nothing (developer
//     guide, quotas).
//
// # What it leaves out
//
// Permissions, policies and encryption are stored and not enforced. Short polls
// see the whole queue. ReceiveRequestAttemptId is accepted and ignored. A queue
// name may be used again at once after DeleteQueue, and PurgeQueue may be
// repeated at once (AWS wants 60 seconds for both). A changed DelaySeconds of a
// FIFO queue holds for later messages only. Quotas on requests per second are
// not applied; inject a fault instead. The older query protocol (XML) is not
// spoken.
//
// # Concurrency and memory
//
// A Server is safe for concurrent use. No call scans a queue: visibility and
// retention are heaps, FIFO groups are lists. [Options.MaxBytes] bounds what is
// held.
package sqstest

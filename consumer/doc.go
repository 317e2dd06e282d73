// Package consumer is what users of ackledger write against, whatever the broker: a [Handler] for a [Message], the
// verbs [Terminal] and [RetryAfter], the settings of a worker in [Options], and [Run] for several workers in one
// process. The workers are in the packages sqs and kafka. The ledgers are in ledger/postgres, ledger/sqlite,
// ledger/dynamodb and ledger/memory.
//
//	handler := consumer.JSON(func(ctx context.Context, p payment) error {
//		switch {
//		case p.Cents <= 0:
//			return consumer.Terminal(fmt.Errorf("order %s: %d cents", p.Order, p.Cents))
//		case p.Order == "busy":
//			return consumer.RetryAfter(errors.New("bank is closed"), time.Hour)
//		}
//		fmt.Println("charge", p.Order, p.Cents)
//		return nil
//	})
//
// # What a handler can rely on
//
// A worker acknowledges a message only after the ledger holds, durably, that it succeeded, or that it failed together
// with its whole body. (The ledger keeps a Kafka record that is larger than its archive takes without the body.) A handler runs
// at least once. Effects inside the transaction that postgres.InTx, sqlite.InTx or dynamodb.InTx hands to the handler are
// committed exactly once, in the same commit as the success. Effects outside of it may happen again after a crash: pass
// [ChildKey] on to the service as its idempotency key.
//
// # What fails
//
// The ledger's archive keeps a message that fails for good whole. With Options.DeadLetter the worker first publishes a copy
// of it, to a queue or a topic ([DeadLetterer]). Then it settles the failure, and then it acknowledges. The copy carries a
// [Stamp]. By the stamp the copy meets its own row wherever it is sent again. Package replay sends it.
package consumer

// Package consumer is what users of ackledger write against, whatever the broker: a [Handler] for a [Message], the
// verbs [Terminal] and [RetryAfter], the settings of a worker in [Options], and [Run] for several workers in one
// process. The workers are in the packages sqs and kafka, the ledgers in ledger/postgres, ledger/sqlite and
// ledger/memory.
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
// A message is acknowledged only after the ledger holds, durably, that it succeeded, or that it failed together with its
// whole body. A handler runs at least once. Effects inside the transaction that postgres.InTx or sqlite.InTx hands to
// the handler are committed exactly once, in the same commit as the success. Effects outside of it may happen again
// after a crash: pass [ChildKey] on to the service as its idempotency key.
//
// # What fails
//
// A message that fails for good is kept whole in the ledger's archive. With Options.DeadLetter a copy of it is published
// first, to a queue or a topic ([DeadLetterer]); then its failure is settled, then it is acknowledged. The copy carries a
// [Stamp], by which it meets its own row wherever it is sent again; package replay does that.
package consumer

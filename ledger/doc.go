// Package ledger holds the contract between workers and the durable table that says which message is finished.
//
//	entry := ledger.Entry{
//		Key:         ledger.Key{Scope: "payments orders", ID: []byte("order 7")},
//		Fingerprint: ledger.BodyFingerprint(body),
//		Delivery:    []byte("copy 1"),
//		Window:      14 * 24 * time.Hour,
//	}
//
//	claims, err := worker.Claim(ctx, []ledger.Entry{entry})
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//	c := claims[0]
//
//	if c.Answer == ledger.Run {
//		errs, err := worker.Settle(ctx, []ledger.Settlement{{
//			Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("receipt 41"),
//		}})
//
// A message's row moves between three states. Only the table of [Decide] moves it forward. Only the guard of
// [DecideSettle] lets a worker settle it. Both are pure functions. The stores (memory, sqlite, dynamodb, postgres) either
// call them or are checked against them.
//
//	               Claim: Run, token+1 (take-over, retry)
//	                    ┌──────────────┐
//	                    │              │
//	none ── Claim: ──▶ pending ◀───────┘ ◀── Settle: Release (attempts+1 if the handler failed)
//	        Run,        │    │
//	        token 1     │    └── Settle: Fail, with the whole delivery in the archive ──▶ failed
//	                    │                                                                  │
//	                    └── Settle: Succeed, or InTx's commit ──▶ succeeded                │
//	                                                                                       │
//	               pending ◀── Claim of another delivery (redrive, replay): Run, token+1 ──┘
//
// An operator moves a message back, each time with the next token and an audit row:
//
//	succeeded ── Reopen: nobody's, no attempts, window anew ──▶ pending
//	failed    ── Renew: the next generation, still failed, so that only what is sent from now on runs ──▶ failed
//
// The database is authoritative for the state, for who lives, and for time: leases, due times and expiries go by its
// clock. (DynamoDB has no clock to go by: see package dynamodb.)
//
// A worker joins as an [Owner], and extends the owner's lease by beats. Rows name their owner, so a beat touches one row
// however many messages are in flight. When a worker misses its beats, a peer declares its owner dead. From then on others
// can claim the owner's rows, with a higher fencing token. What the old owner still writes changes nothing.
//
// # Who may retry what
//
// An error for which [Unknown] is false changed nothing. After an unknown answer, ask a claim again once the old call's
// deadline has passed, and repeat a settlement. Both are safe: see [Owner]. An unknown COMMIT of InTx is read, never
// repeated.
package ledger

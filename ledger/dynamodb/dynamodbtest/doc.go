// Package dynamodbtest is the way to DynamoDB on which things go wrong, for tests: a [Transport] between an SDK client and any endpoint.
//
//	faulty, err := dynamodbtest.New(dynamodbtest.Options{
//		Base: server(func(operation string) { fmt.Println("carried out:", operation) }),
//		Choose: func(c dynamodbtest.Call) dynamodbtest.Fault {
//			if c.Operation == "PutItem" && c.N == 0 {
//				return dynamodbtest.Fault{Kind: dynamodbtest.AnswerLost}
//			}
//			return dynamodbtest.Fault{}
//		},
//	})
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//	defer faulty.Close()
//	ctx := context.Background()
//	client, err := dynamodbtest.Connect(ctx, "http://127.0.0.1:8000", func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: faulty} })
//
// # Faults
//
// Requests are throttled, or refused for a transaction that is under way, in the words of the service; lost before they reach the server
// or after it has carried them out; held back and delivered late, with nobody waiting any more; delivered twice. Single statements of a
// batch are throttled within its answer, single keys of a BatchGetItem left unprocessed. [Shares] draw faults from a seed: the nth
// request of an operation always meets the same one. [Options.Choose] picks them by hand.
//
// # Counting
//
// [Transport.Usage] counts requests by operation, those that the client makes and those that reach the server, and with
// [Options.Capacity] the capacity units that these consume, by what AWS publishes (developer guide, "DynamoDB read and write operations"
// and "DynamoDB item sizes and formats"):
//
//   - A write costs a unit for each KB of its item, rounded up, before or after it, whichever is larger. One that failed its condition
//     costs the same for the item that is there and the one that it carried; of an update that failed, what it would have made is not
//     known, and what is there is counted.
//   - A read costs a unit for each 4 KB, rounded up for each item, and half of that where it may be stale.
//   - Within a transaction both cost twice. A condition alone costs as a write. A transaction that is sent again with its token is read.
//   - A secondary index costs a write for each entry that changes, and two for one that moves.
//
// Emulators do not all report this, least of all for batches, so it is found out: the items are read behind the client's back before and
// after each write. An INSERT is known from its statement and parameters; what an UPDATE makes of an item, the server alone knows. A
// Query, a Scan and a SELECT outside of a batch count as the server reports them, and else by the items of the answer, which is too
// little under a filter or a projection. What a throttled request would have cost is not counted, for AWS does not charge it.
//
// # On an account
//
// A Transport may stand in front of AWS. What is changed on its way is then signed anew, with [Options.Credentials].
package dynamodbtest

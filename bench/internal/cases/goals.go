package cases

import (
	"fmt"
	"slices"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// Values are the names of all values that cases report, for the check of the goals.
func Values() []string {
	return []string{suite.Rate, suite.BytesEach, suite.HotShare, suite.P50, suite.P99, suite.Resident, riverWorked, growth, rowsLeft, behind, commitBehind, kilobytes, lastTenth,
		requestRate, replayRate, stepRate, writesEach, commitsEach, walEach}
}

// Goals are the numbers that the benchmark is compared with, in the order of the report.
func Goals() []suite.Goal { return slices.Concat(rateGoals(), timeGoals()) }

// rateGoals are those of throughput.
func rateGoals() []suite.Goal {
	const stub, mq = "sqs, sqstest 0 ms/", "sqs, ElasticMQ/"
	return []suite.Goal{
		ratio("ledger, batches of 500, of bare SQL", "ledger/ours, batches of 500", "ledger/bare SQL, batches of 500", 0.8),
		ratio("ledger, batches of 2,000, of bare SQL", "ledger/ours, batches of 2000", "ledger/bare SQL, batches of 2000", 0.8),
		ratio("ledger, 2,000 callers (they fill four flushes of 500), of bare SQL by 500", "ledger/ours, 2000 callers", "ledger/bare SQL, batches of 500", 0.8),
		ratio("ledger, 2,000 callers, of one statement per message", "ledger/ours, 2000 callers", "ledger/per message", 15),
		ratio("Kafka with rows, of the bare loop", "kafka/ours, rows", "kafka/bare loop, batched SQL", 0.85),
		ratio("Kafka with rows, of one statement per message", "kafka/ours, rows", "kafka/per message", 10),
		ratio("Kafka with rows, of River", "kafka/ours, rows", "kafka/River", 8),
		ratio("Kafka with rows, of parallel-consumer unordered, default settings, without a ledger", "kafka/ours, rows", "kafka/parallel-consumer, unordered, 16", 1),
		ratio("Kafka with rows, of parallel-consumer unordered, README's settings, without a ledger", "kafka/ours, rows", "kafka/parallel-consumer, unordered, 1000", 1),
		{Text: "Kafka with ranges", Unit: "records/s", Bound: 1_200_000, Value: func(r suite.Round) float64 { return r.Rate("kafka/ours, ranges") }},
		ratio("Kafka with ranges, of raw poll and commit", "kafka/ours, ranges", "kafka/raw poll + commit", 0.5),
		ratio("Kafka with ranges, of rows", "kafka/ours, ranges", "kafka/ours, rows", 12),
		ratio("Kafka InTx, one insert a message, of the inbox by hand", "kafka/ours, InTx, one insert", "kafka/inbox by hand, one insert", 1.2),
		ratio("Kafka InTx, one insert a message, of the inbox by hand in two round trips", "kafka/ours, InTx, one insert", "kafka/inbox by hand, pipelined", 0.9),
		ratio("Kafka InTx, one insert a message, of an insert and its commit without a ledger", "kafka/ours, InTx, one insert", "kafka/one insert and COMMIT, no ledger", 0.9),
		ratio("SQLite InTx, one insert a message, of the inbox by hand", fileGroup+"/ours, InTx", fileGroup+"/inbox by hand", 1),
		ratio("SQLite InTx, one insert a message, of the inbox by hand, in ranges", fileGroup+"/ours, InTx in ranges", fileGroup+"/inbox by hand", 1),
		ratio("Kafka with batches InTx and one insert, without order, of the same without a ledger", "kafka/ours, InTx, batches, order none", "kafka/no ledger, one insert in batches", 0.8),
		ratio("Kafka with batches InTx and one insert, order by key, of the same without a ledger", "kafka/ours, InTx, batches", "kafka/no ledger, one insert in batches", 0.8),
		ratio("Kafka with handlers of 1 ms by key, of the same without a ledger", shortGroup+"/ours, ranges", shortGroup+"/ours, no ledger", 0.95),
		inLedger("ledger in ranges, all succeed", "kB", "all succeed", kilobytes, 1000),
		inLedger("ledger in ranges, a record of 200 B, 1 % fail for good", "B", "1 % fail for good", suite.BytesEach, 8),
		inLedger("ledger in ranges, a record, 1 % retried once", "B", "1 % are retried once", suite.BytesEach, 0.5),
		ratio("Kafka share group with rows, of the bare share loop", shareGroup+"/ours, rows", shareGroup+"/bare loop, batched SQL", 0.9),
		ratio("Kafka with ranges, 200 partitions, of 8", partGroup+"/ours, ranges, 200", partGroup+"/ours, ranges, 8", 0.9),
		ratio("Kafka with ranges, 1 partition, of 8", partGroup+"/ours, ranges, 1", partGroup+"/ours, ranges, 8", 0.9),
		{Text: "ranges, the last 10 million of 100 million records, of the first", Unit: "×", Bound: 0.9,
			Value: func(r suite.Round) float64 { return r.Of(longGroup+"/ours, claim and settle", lastTenth) }},
		{Text: "outbox, from commit to broker", Unit: "messages/s", Bound: 50_000, Value: func(r suite.Round) float64 { return r.Rate(outboxGroup + "/ours, commit to broker") }},
		{Text: "Kafka with the memory ledger", Unit: "records/s", Bound: 600_000,
			Value: func(r suite.Round) float64 { return r.Rate("kafka/ours, memory, order none") }},
		ratio("Kafka with the memory ledger, of parallel-consumer unordered, default settings", "kafka/ours, memory, order none", "kafka/parallel-consumer, unordered, 16", 12),
		ratio("Kafka with the memory ledger, of parallel-consumer unordered, README's settings", "kafka/ours, memory, order none", "kafka/parallel-consumer, unordered, 1000", 12),
		ratio("replay of an SQS dead-letter queue, of a bare re-send loop", replayQueueGroup+"/ours, replay", replayQueueGroup+"/bare re-send loop", 0.8),
		ratio("replay of a Kafka dead-letter topic, of a bare re-send loop", replayTopicGroup+"/ours, replay", replayTopicGroup+"/bare re-send loop", 0.8),
		{Text: "SQS on ElasticMQ with rows, of the faster bare loop", Unit: "×", Bound: 0.95,
			Value: func(r suite.Round) float64 { return r.Rate(mq+"ours, rows") / faster(r, mq) }},
		{Text: "SQS on the 0 ms stub with the memory ledger, of the faster bare loop", Unit: "×", Bound: 0.7,
			Value: func(r suite.Round) float64 { return r.Rate(stub+"ours, memory") / faster(r, stub) }},
		{Text: "SQS on the 0 ms stub with rows, of what the faster bare loop and the ledger add up to", Unit: "×", Bound: 0.9, Value: func(r suite.Round) float64 {
			return r.Rate(stub+"ours, rows") * (1/faster(r, stub) + 1/r.Rate(stub+"ours, ledger alone"))
		}},
		ratio("DynamoDB, claim and settle, of a bare loop of the same conditional writes", dynamoGroup+"/ours, claim and settle", dynamoGroup+"/bare loop", 0.9),
		ratio("Kafka with handlers of 5 ms, records of seven partitions beside one whose retries are parked, of without them",
			parkedSlowGroup+"/all of one partition are", parkedSlowGroup+"/none is put off", 0.95),
		ratio("Kafka, records of seven partitions beside one whose retries are parked, of without them", parkedGroup+"/all of one partition are", parkedGroup+"/none is put off", 0.95),
		ratio("as many handlers as pay, 1 to 100, of the best fixed number, that nobody knows", adaptiveGroup+"/1 to 100, MinConcurrency", adaptiveGroup+"/22 handlers", 0.9),
	}
}

// timeGoals are those of how long things take, and of what is kept.
func timeGoals() []suite.Goal {
	return []suite.Goal{
		beside("messages of 9 tenants beside a tenth with 100 times the load, p99, of without it", tenantGroup, "beside 1,000/s of another, FairShare 8", 1.5),
		beside("messages of a queue beside one of a lower level with more than the handlers can do, p99, of without it", sourceGroup,
			"beside 1,000/s of a lower level", 2),
		{Text: "the slowest page of the operators', p99, beside 20 million messages and 1 million dead letters", Unit: "ms", Bound: 100, AtMost: true, Value: slowestPage},
		latency("p50", suite.P50, 1.2),
		latency("p99", suite.P99, 1.5),
		{Text: "InTx, one insert at 200/s, p50, of an inbox by hand", Unit: "×", Bound: 1.1, AtMost: true,
			Value: func(r suite.Round) float64 {
				return r.Of(inboxLatency+"/ours, InTx", suite.P50) / r.Of(inboxLatency+"/inbox by hand", suite.P50)
			}},
		inRanges("p50", suite.P50),
		inRanges("p99", suite.P99),
		requestRatio("a request, of the one by hand", requestGroup+"/ours", requestRate, requestGroup+"/by hand", 1),
		requestRatio("a request with ReadFirst, of the one by hand", requestGroup+"/ours, ReadFirst", requestRate, requestGroup+"/by hand", 1),
		requestRatio("a repetition, of a new request of ours", requestGroup+"/ours", replayRate, requestGroup+"/ours", 3),
		requestRatio("a repetition with ReadFirst, of a new request of ours", requestGroup+"/ours, ReadFirst", replayRate, requestGroup+"/ours, ReadFirst", 3),
		prompt("ours"),
		prompt("ours, ReadFirst"),
		{Text: "ledger writes a step", Unit: "rows", Bound: 1.1, AtMost: true,
			Value: func(r suite.Round) float64 { return r.Of(stepGroup+"/ours", writesEach) }},
		{Text: "steps, of those by hand", Unit: "×", Bound: 1,
			Value: func(r suite.Round) float64 {
				return r.Of(stepGroup+"/ours", stepRate) / r.Of(stepGroup+"/by hand", stepRate)
			}},
		requestRatio("an HTTP request through httpkey, of the one by hand", httpGroup+"/ours, httpkey", requestRate, httpGroup+"/by hand", 1),
		{Text: "larger table: how much slower than the smaller", Unit: "×", Bound: 1.15, AtMost: true, Value: func(r suite.Round) float64 {
			return r.Rate(tableGroup+"/ours, smaller table") / r.Rate(tableGroup+"/ours, larger table")
		}},
		{Text: "a succeeded message, indexes included", Unit: "B", Bound: 220, AtMost: true,
			Value: func(r suite.Round) float64 { return r.Of(tableGroup+"/ours, larger table", suite.BytesEach) }},
		{Text: "resident memory with a backlog", Unit: "MiB", Bound: 256, AtMost: true,
			Value: func(r suite.Round) float64 { return r.Of("memory/ours, backlog, 50 ms handlers", suite.Resident) }},
		{Text: "resident memory: last third over the middle one", Unit: "%", Bound: 10, AtMost: true,
			Value: func(r suite.Round) float64 { return r.Of("memory/ours, backlog, 50 ms handlers", growth) }},
	}
}

// beside compares the p99 of a case with that of the group's case "alone".
func beside(text, group, name string, bound float64) suite.Goal {
	return suite.Goal{Text: text, Unit: "×", Bound: bound, AtMost: true,
		Value: func(r suite.Round) float64 { return r.Of(group+"/"+name, suite.P99) / r.Of(group+"/alone", suite.P99) }}
}

// faster is the rate of the better bare loop of a group.
func faster(r suite.Round, group string) float64 {
	return max(r.Rate(group+"bare loop"), r.Rate(group+"bare loop, deletes apart"))
}

// ratio compares the rates of two cases: the first is to be at least so many times the second.
func ratio(text, ours, theirs string, bound float64) suite.Goal {
	return suite.Goal{Text: text, Unit: "×", Bound: bound, Value: func(r suite.Round) float64 { return r.Rate(ours) / r.Rate(theirs) }}
}

// requestRatio compares a rate of ours with that of other new requests.
func requestRatio(text, ours, rate, theirs string, bound float64) suite.Goal {
	return suite.Goal{Text: text, Unit: "×", Bound: bound, Value: func(r suite.Round) float64 { return r.Of(ours, rate) / r.Of(theirs, requestRate) }}
}

// prompt compares the 99th percentile of requests with that of two bare commits.
func prompt(name string) suite.Goal {
	return suite.Goal{Text: "requests at 500/s, " + name + ", p99, of two bare commits", Unit: "×", Bound: 1.5, AtMost: true,
		Value: func(r suite.Round) float64 {
			return r.Of(promptGroup+"/"+name, suite.P99) / r.Of(promptGroup+"/by hand", suite.P99)
		}}
}

// inLedger is what records take in the ledger.
func inLedger(text, unit, name, value string, bound float64) suite.Goal {
	return suite.Goal{Text: text, Unit: unit, Bound: bound, AtMost: true,
		Value: func(r suite.Round) float64 { return r.Of(sizeGroup+"/"+name, value) }}
}

func inRanges(name, value string) suite.Goal {
	const group = "latency at 1,000 messages/s/"
	return suite.Goal{Text: fmt.Sprintf("latency at 1,000/s in ranges, %s, of rows", name), Unit: "×", Bound: 1, AtMost: true,
		Value: func(r suite.Round) float64 {
			return r.Of(group+"ours, in ranges", value) / r.Of(group+"ours, claim and settle", value)
		}}
}

func latency(name, value string, bound float64) suite.Goal {
	const group = "latency at 1,000 messages/s/"
	return suite.Goal{Text: fmt.Sprintf("latency at 1,000/s, %s, of two bare commits", name), Unit: "×", Bound: bound, AtMost: true,
		Value: func(r suite.Round) float64 {
			return r.Of(group+"ours, claim and settle", value) / r.Of(group+"two bare commits", value)
		}}
}

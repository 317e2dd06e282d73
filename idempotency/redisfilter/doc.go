// Package redisfilter is an idempotency.Filter on Redis, for processes that share what they have seen. It is a module of its own, so
// that go-redis comes only to those who use it.
//
//	filter, err := redisfilter.New(client, redisfilter.Options{Prefix: "production:seen:"})
//	if err != nil {
//		panic(err)
//	}
//	runner, err := idempotency.New(memory.New(), idempotency.Options{Filter: filter})
//
// # What it does
//
// A request is one command, SET key 1 NX EX window: Redis has the key already, or has it now. Where Redis had it, the runner reads the
// request in the ledger; only where the ledger says that it has succeeded is it answered so, and everything else is claimed as without a
// filter. So nothing that Redis says is believed: it may be down, flushed, full, failing over to a replica that knows less or more, or
// hold another environment's keys. What that costs is a read in vain, a claim that could have been spared, or idempotency.Options.FilterLimit.
// Nothing of a request but a hash of its identity goes to Redis; no result does.
//
// It does not answer from Redis, although that would be faster: a copy of a result does not know that an operator has reopened its
// request, and a replica that comes back may be older than that.
//
// A Redis that is to keep what matters to others should not be this one: its memory fills up with one small key for each request of a
// window (about 100 bytes). Let it evict (maxmemory-policy allkeys-lru), or bound Options.Keep.
//
// # What it gains
//
// The gain is the ledger's: a read of what has succeeded costs less than a claim of it, and many are one statement. A runner without a
// filter reads first, too, while most of its requests are repetitions; idempotency.ReadFirst always does. 64 clients, a function that does
// nothing, everything on one machine with two cores, medians of three runs, as parts of the rate without a filter (BenchmarkRequests):
//
//	             new requests        repetitions of a success
//	             Redis  ReadFirst    Redis  ReadFirst
//	PostgreSQL   1.0    1.0          0.5    1.5
//	SQLite       0.8    0.6          0.7    1.0
//
// So on these ledgers Redis gains nothing: its own call costs more than the read that it spares. Take idempotency.ReadFirst first, or
// nothing. Redis may pay where the database's reads are what is short, nearly all requests are new, and some come again; measure that
// before you add a server.
package redisfilter

package redisfilter_test

import (
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/redisfilter"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A runner with a filter in front of its ledger, which is PostgreSQL in production.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS"), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close() //nolint:errcheck // nothing is left to be done about it
	filter, err := redisfilter.New(client, redisfilter.Options{Prefix: "production:seen:"})
	if err != nil {
		panic(err)
	}
	runner, err := idempotency.New(memory.New(), idempotency.Options{Filter: filter})
	if err != nil {
		panic(err)
	}
	_ = runner // runner.Run and runner.Do, as without a filter
}

module github.com/ackledger/ackledger/idempotency/redisfilter

go 1.26.0

require (
	github.com/ackledger/ackledger v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
)

replace github.com/ackledger/ackledger => ../..

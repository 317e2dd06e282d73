package redisfilter

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
)

// Options are a filter's settings. The zero value of each field means its default.
type Options struct {
	// Prefix begins each key in Redis, at most 255 bytes. Default "ackledger:seen:". For people whose environments share a Redis: keys
	// of another one cost reads in vain.
	Prefix string
	// Keep is how long Redis keeps a key at most, at least 1 s, in whole seconds. Default 24 h; a request with a shorter window is kept for
	// that. For people whose repetitions come soon, and whose Redis is small.
	Keep time.Duration
}

// Defaults of Options.
const (
	DefaultPrefix = "ackledger:seen:"
	DefaultKeep   = 24 * time.Hour
)

const maxPrefix = 255 // bytes

// Filter notes requests in Redis. Build it with [New]. It may be used concurrently, by any number of runners.
type Filter struct {
	client redis.Cmdable
	opt    Options
}

var _ idempotency.Filter = (*Filter)(nil)

// New builds a filter on a client of the caller's, who closes it after the runners have ended: redis.NewClient, NewClusterClient, or
// NewFailoverClient. Nothing is sent before the first request. Set the client's ContextTimeoutEnabled, and MaxRetries to -1: without
// these a call that the runner has left behind goes on for the client's own timeouts
// (pkg.go.dev/github.com/redis/go-redis/v9#Options).
func New(client redis.Cmdable, o Options) (*Filter, error) {
	o.Prefix, o.Keep = cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.Keep, DefaultKeep)
	switch {
	case client == nil:
		return nil, errors.New("redisfilter: New: the client must not be nil")
	case len(o.Prefix) > maxPrefix:
		return nil, fmt.Errorf("redisfilter: Options.Prefix: must be at most %d bytes, is %d", maxPrefix, len(o.Prefix))
	case o.Keep < time.Second:
		return nil, fmt.Errorf("redisfilter: Options.Keep: must be at least 1s, is %s", o.Keep)
	}
	return &Filter{client, o}, nil
}

// Seen implements [idempotency.Filter]: SET NX EX (redis.io/docs/latest/commands/set).
func (f *Filter) Seen(ctx context.Context, key [ledger.KeySize]byte, window time.Duration) (bool, error) {
	keep := max(min(window, f.opt.Keep).Truncate(time.Second), time.Second)
	err := f.client.SetArgs(ctx, f.opt.Prefix+hex.EncodeToString(key[:]), 1, redis.SetArgs{Mode: "NX", TTL: keep}).Err()
	switch {
	case errors.Is(err, redis.Nil):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("redisfilter: %w", err)
	}
	return false, nil
}

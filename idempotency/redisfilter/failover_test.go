package redisfilter_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ackledger/ackledger/integration/wire"
)

// A primary dies, and its replica takes its place: one that is behind, that refuses writes at first, and that has forgotten what the primary
// knew last. Then the old primary is back, empty, and takes the place of the new one. Nothing changes but speed: each request has one effect,
// all get the right answer, and what Redis knows is read again.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := startRedis(t, "--repl-diskless-sync-delay", "0")
	between := before(t, primary) // and its replica
	host, port, err := net.SplitHostPort(between.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := startRedis(t, "--replicaof", host, port)
	knows := func(addr string) int64 {
		n, err := dial(t, addr).DBSize(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var at atomic.Value // of who is the primary
	at.Store(primary.Addr())
	client := redis.NewClient(&redis.Options{MaxRetries: -1, ReadTimeout: 10 * time.Minute, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at.Load().(string))
	}})
	t.Cleanup(func() { _ = client.Close() })
	w := newWorld(t, client)
	w.load("before", nothing)
	w.heals()
	until(t, func() bool { return knows(replica.Addr()) == knows(primary.Addr()) })
	between.Set(wire.Fault{Lose: true}, wire.Fault{Lose: true})
	if err := client.Set(t.Context(), "last", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	w.load("while the replica is behind", nothing)
	if n, err := dial(t, replica.Addr()).Exists(t.Context(), "last").Result(); n != 0 || err != nil {
		t.Errorf("the replica has what the primary got last: %d, %v", n, err)
	}
	w.load("while the primary dies", func() error { at.Store(replica.Addr()); return primary.Kill() })
	if err := client.Set(t.Context(), "any", 1, 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("the replica takes writes: %v", err)
	}
	w.load("while it is read only", nothing)
	w.load("while it is promoted", func() error {
		return dial(t, replica.Addr()).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err()
	})
	w.heals()
	w.load("while the old one is back", func() error {
		if err := primary.Start(t.Context()); err != nil {
			return err
		}
		at.Store(primary.Addr())
		return replica.Kill()
	})
	w.heals()
}

package redisfilter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ackledger/ackledger/idempotency/redisfilter"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
)

// dial connects to a Redis as a program would that knows nothing of what a runner leaves behind: its calls go on for long.
func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 10 * time.Minute, WriteTimeout: 10 * time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func key(id string) [ledger.KeySize]byte { return ledger.Key{Scope: "s", ID: []byte(id)}.Sum() }

// What was noted is seen, by each filter of one prefix, and goes with its time.
func TestSeen(t *testing.T) {
	t.Parallel()
	client, prefix := dial(t, services.Redis(t)), services.Name(t)
	filter := func(prefix string, keep time.Duration) *redisfilter.Filter {
		f, err := redisfilter.New(client, redisfilter.Options{Prefix: prefix, Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := filter(prefix, time.Hour)
	for n, want := range []bool{false, true, true} {
		if seen, err := f.Seen(t.Context(), key("a"), 24*time.Hour); seen != want || err != nil {
			t.Errorf("%d: %v, %v", n, seen, err)
		}
	}
	if seen, err := filter(prefix, time.Hour).Seen(t.Context(), key("a"), time.Hour); !seen || err != nil {
		t.Errorf("another filter: %v, %v", seen, err)
	}
	if seen, err := filter(prefix+"2", time.Hour).Seen(t.Context(), key("a"), time.Hour); seen || err != nil {
		t.Errorf("another prefix: %v, %v", seen, err)
	}
	if seen, err := f.Seen(t.Context(), key("b"), 90*time.Second+time.Millisecond); seen || err != nil {
		t.Errorf("another key: %v, %v", seen, err)
	}
	kept := map[time.Duration]bool{}
	names, err := client.Keys(t.Context(), prefix+"[0-9a-f]*").Result()
	for _, name := range names {
		left, bad := client.TTL(t.Context(), name).Result()
		err = errors.Join(err, bad)
		kept[left.Round(2*time.Minute)] = left > 0
	}
	if err != nil || len(kept) != 2 || !kept[time.Hour] || !kept[2*time.Minute] {
		t.Errorf("%v are kept for %v, %v", names, kept, err)
	}
}

func TestWhatIsNoFilter(t *testing.T) {
	t.Parallel()
	client := dial(t, "127.0.0.1:1")
	for want, o := range map[string]redisfilter.Options{
		"at most 255 bytes, is 256": {Prefix: strings.Repeat("p", 256)},
		"at least 1s, is 1ms":       {Keep: time.Millisecond},
	} {
		if _, err := redisfilter.New(client, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, is %v", want, err)
		}
	}
	if _, err := redisfilter.New(nil, redisfilter.Options{}); err == nil {
		t.Error("without a client")
	}
	f, err := redisfilter.New(client, redisfilter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if seen, err := f.Seen(ctx, key("a"), time.Hour); seen || err == nil || !strings.HasPrefix(err.Error(), "redisfilter: ") {
		t.Errorf("nobody listens: %v, %v", seen, err)
	}
}

package services

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	NeedServers(t)
	s, err := StartRedis(t.Context(), "--maxmemory", "8mb")
	if errors.Is(err, ErrNoRedis) {
		Missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, s) })
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := askRedis(ctx, s.Addr()); err == nil {
		t.Error("a frozen Redis answers")
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	restarts(t, s.Server, func() {
		if err := askRedis(t.Context(), s.Addr()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.Freeze(); err == nil {
		t.Error("a stopped Redis is frozen")
	}
}

func TestSharedRedis(t *testing.T) {
	t.Parallel()
	first := Redis(t)
	if again := Redis(t); again != first {
		t.Errorf("two servers: %s and %s", first, again)
	}
}

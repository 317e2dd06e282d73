package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

// maxScopes bounds the remembered numbers; a program has a scope a queue or topic.
const maxScopes = 10_000

// scopes remembers the numbers of scope names. A number never changes within one database.
type scopes struct {
	mu    sync.RWMutex
	known map[string]int32
}

func (s *scopes) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = nil
}

func (s *scopes) get(name string) (int32, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	id, ok := s.known[name]
	return id, ok
}

func (s *scopes) put(name string, id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxScopes {
		s.known = make(map[string]int32)
	}
	s.known[name] = id
}

// numbers returns the numbers of all names, asks the database for what is not remembered, and makes those that are new.
func (s *scopes) numbers(ctx context.Context, pool *pgxpool.Pool, find, add string, names map[string]int32) error {
	missing := false
	for name := range names {
		id, ok := s.get(name)
		names[name] = id
		missing = missing || !ok
	}
	if !missing {
		return nil
	}
	sorted := slices.Sorted(maps.Keys(names)) // one order for all, so that no two wait for each other
	args := make([][]byte, len(sorted))
	for i, name := range sorted {
		args[i] = []byte(name)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	// The insert's own snapshot does not see what another process inserted meanwhile, so it is read again; a database
	// whose sessions begin in a stricter isolation answers 40001 instead.
	for _, query := range []string{find, add, find, add, find} {
		found, err := queryScopes(ctx, conn.Conn(), query, args)
		if code(err) == codeSerialization {
			continue
		}
		if err != nil {
			return fmt.Errorf("postgres: number the scopes: %w", usable(err))
		}
		for name, id := range found {
			names[name] = id
			s.put(name, id)
		}
		if len(found) == len(names) {
			return nil
		}
	}
	return fmt.Errorf("postgres: the scopes %q got no number: others keep changing them, try again", sorted)
}

func queryScopes(ctx context.Context, conn *pgx.Conn, query string, names [][]byte) (map[string]int32, error) {
	rows, err := conn.Query(ctx, query, names)
	if err != nil {
		return nil, err
	}
	found := make(map[string]int32, len(names))
	var name []byte
	var id int32
	_, err = pgx.ForEachRow(rows, []any{&name, &id}, func() error {
		found[string(name)] = id
		return nil
	})
	return found, err
}

// scopeNames collects the distinct scopes of what is asked.
func scopeNames(entries []ledger.Entry, asked []int32) map[string]int32 {
	names := make(map[string]int32, 1)
	last := ""
	for _, i := range asked {
		if s := entries[i].Key.Scope; s != last {
			names[s] = 0
			last = s
		}
	}
	return names
}

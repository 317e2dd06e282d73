package history_test

import "testing"

func TestMemoryRanged(t *testing.T) {
	t.Parallel()
	s := &site{name: "memory, ranged", ranged: true, pieces: true, open: openMemory}
	s.check(t, histories(t, 500, 20_000))
}

func TestSQLiteRanged(t *testing.T) {
	t.Parallel()
	newSQLite(t, "sqlite, ranged", true).check(t, histories(t, 100, 10_000))
}

func TestPostgresRanged(t *testing.T) {
	t.Parallel()
	newPostgres(t, "postgres, ranged", true).check(t, histories(t, 100, 10_000))
}

package postgres

import (
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// uuid is 16 bytes in the type that pgx sends in every mode.
func uuid(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

// Arrays of keys and of bytes, in types that pgx encodes without asking by reflection what each element is: that took more
// than half of the time that their encoding takes.
type (
	keyArray  = pgtype.FlatArray[pgtype.UUID]
	byteArray = pgtype.FlatArray[[]byte]
)

// keysOf are the keys of what a list holds.
func keysOf[T any](list []T, sum func(T) [16]byte) keyArray {
	keys := make(keyArray, len(list))
	for i, x := range list {
		keys[i] = uuid(sum(x))
	}
	return keys
}

func sized[S ~[]T, T any](s S, n int) S {
	if s == nil {
		return make(S, n)
	}
	return s
}

func orEmpty[S ~[]T, T any](s S) S {
	if s == nil {
		return S{}
	}
	return s
}

// among is a set of what a list holds.
func among[T comparable](list []T) map[T]bool {
	in := make(map[T]bool, len(list))
	for _, x := range list {
		in[x] = true
	}
	return in
}

func bit(set bool, value int) int {
	if set {
		return value
	}
	return 0
}

// milliseconds is a duration as Postgres' settings take it, at least 1 (0 means no limit).
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

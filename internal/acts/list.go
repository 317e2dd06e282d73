package acts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// NextPage returns the next page of a list, and whether there may be another one.
type NextPage[T any] func() (page []T, more bool, err error)

// List is a list of a store: it hands out what keep selects of page after page, at most limit of it (0: all). The first
// error, named, is the last of the list.
func List[T any](ctx context.Context, limit int, named func(error) error, begin func() (NextPage[T], error),
	keep func(*T) (bool, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		found := 0
		next, err := begin()
		for more := true; more && err == nil; {
			var page []T
			page, more, err = next()
			for i := 0; i < len(page) && err == nil; i++ {
				var kept bool
				if err = ctx.Err(); err == nil {
					kept, err = keep(&page[i])
				}
				if !kept || err != nil {
					continue
				}
				if found++; !yield(page[i], nil) || found == limit {
					return
				}
			}
		}
		if err != nil {
			var none T
			yield(none, named(err))
		}
	}
}

// Find is a store's Find; archived are the keys under which deliveries of that id are archived or results kept, in any scope.
func Find(ctx context.Context, f ledger.Operator, archived []ledger.Key, scope string, id []byte) ([]ledger.Record, error) {
	scopes := []string{scope}
	if scope == "" {
		var err error
		if scopes, err = f.Scopes(ctx); err != nil {
			return nil, err
		}
	}
	var keys []ledger.Key
	for part := range slices.Chunk(scopes, ledger.MaxStatus) {
		asked := make([]ledger.Key, len(part))
		for i, name := range part {
			asked[i] = ledger.Key{Scope: name, ID: id}.Known()
		}
		status, err := f.Status(ctx, asked)
		if err != nil {
			return nil, err
		}
		for i, s := range status {
			if s.State != 0 {
				keys = append(keys, asked[i])
			}
		}
	}
	for _, key := range archived {
		same := func(k ledger.Key) bool { return k.Sum() == key.Sum() }
		if (scope == "" || key.Scope == scope) && !slices.ContainsFunc(keys, same) {
			keys = append(keys, key)
		}
	}
	var found []ledger.Record
	for _, key := range keys[:min(len(keys), ledger.MaxFound)] {
		rec, err := f.Get(ctx, key)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		if rec.State == 0 && len(rec.Archived) == 0 && len(rec.Past) == 0 {
			continue // it went meanwhile
		}
		rec.Scope, rec.ID = key.Scope, id
		found = append(found, rec)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", ledger.ErrNotFound, id)
	}
	return found, nil
}

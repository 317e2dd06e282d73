package idempotency_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// shelf is a spill in memory, on which things go wrong.
type shelf struct {
	mu   sync.Mutex
	all  map[string][]byte
	keep time.Duration // of what was put last
	put  func() error  // called before a Put
	get  error
}

func newShelf() *shelf { return &shelf{all: map[string][]byte{}, put: func() error { return nil }} }

func (s *shelf) Put(_ context.Context, name string, data []byte, keep time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.put(); err != nil {
		return err
	}
	s.all[name], s.keep = bytes.Clone(data), keep
	return nil
}

func (s *shelf) Get(_ context.Context, name string, _ int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.all[name]
	if s.get == nil && !ok {
		return nil, fs.ErrNotExist
	}
	return data, s.get
}

// names are those of all that is there.
func (s *shelf) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.all))
}

// flip is a cipher that hides words, and tells what it has not sealed.
type flip struct{}

func (flip) Seal(_ context.Context, plain []byte) ([]byte, error) {
	return append([]byte("flipped"), flipped(plain)...), nil
}

func (flip) Open(_ context.Context, sealed []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(sealed, []byte("flipped"))
	if !ok {
		return nil, errors.New("not sealed")
	}
	return flipped(rest), nil
}

func flipped(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = ^b[i]
	}
	return out
}

// large is a function whose result is too large for the ledger.
func large(word string) (f idempotency.Func, want string) {
	want = strings.Repeat(word, ledger.DefaultLimits.Result/len(word)+1)
	f, _ = answers(want, nil)
	return f, want
}

// never is the function of a request that must not run again.
func never(t *testing.T) idempotency.Func {
	return func(context.Context) (idempotency.Result, error) {
		t.Error("it runs again")
		return idempotency.Result{}, nil
	}
}

var spillName = regexp.MustCompile(`^[a-z0-9-]{40,64}$`)

// What is too large for the ledger is put elsewhere before the row says so, for the request's window at least, sealed if there is a cipher; a repetition
// gets it whole.
func TestLargeResultsAreSpilled(t *testing.T) {
	for _, cipher := range []ledger.Cipher{nil, flip{}} {
		synctest.Test(t, func(t *testing.T) {
			l, s := memory.New(), newShelf()
			q := request("k")
			q.Window = 40 * time.Hour
			s.put = func() error {
				status, err := l.Status(t.Context(), []ledger.Key{{Scope: q.Scope, ID: []byte("shop%207/k")}})
				if err != nil || status[0].State != ledger.Pending {
					t.Errorf("when it is put the row is %+v, %v", status, err)
				}
				return nil
			}
			r := begin(t, l, idempotency.Options{Spill: s, Cipher: cipher})
			f, want := large("word")
			first, err := r.Do(t.Context(), q, f)
			again, bad := r.Do(t.Context(), q, never(t))
			if err != nil || bad != nil || first.Replayed || !again.Replayed || string(again.Result.Body) != want ||
				again.Result.Status != 201 || again.Result.MediaType != "text/plain" {
				t.Errorf("%v, %v, %d bytes again, status %d", err, bad, len(again.Result.Body), again.Result.Status)
			}
			names := s.names()
			if len(names) != 1 || !spillName.MatchString(names[0]) || s.keep < q.Window {
				t.Fatalf("%q are kept for %s", names, s.keep)
			}
			if sealed := !bytes.Contains(s.all[names[0]], []byte("word")); sealed != (cipher != nil) {
				t.Errorf("sealed: %t", sealed)
			}
			s.put = func() error { return errBoom }
			small, _ := answers("small", nil)
			if _, err := r.Do(t.Context(), request("small"), small); err != nil {
				t.Errorf("a small one is put elsewhere, too: %v", err)
			}
		})
	}
}

// What is gone or changed is a tombstone, and what cannot be read now an error. Nothing runs again, and no request gets another's answer.
func TestSpilledResultsAreVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := memory.New(), newShelf()
		r := begin(t, l, idempotency.Options{Spill: s})
		for _, key := range []string{"a", "b"} {
			f, _ := large(key + " text ")
			if _, err := r.Do(t.Context(), request(key), f); err != nil {
				t.Fatal(err)
			}
		}
		names := s.names()
		a, b := s.all[names[0]], s.all[names[1]]
		for what, c := range map[string]struct {
			one, other []byte
			word       string
		}{
			"swapped": {b, a, "not what was stored"}, "cut": {a[:len(a)-1], b[:10], "not what was stored"},
			"emptied": {nil, []byte{}, "not what was stored"}, "whole": {a, b, ""},
		} {
			s.all[names[0]], s.all[names[1]] = c.one, c.other
			for _, key := range []string{"a", "b"} {
				out, err := r.Do(t.Context(), request(key), never(t))
				if err != nil || !out.Replayed || !strings.Contains(out.Result.Tombstone, c.word) || (c.word == "") != strings.HasPrefix(string(out.Result.Body), key+" text ") {
					t.Errorf("%s: %s: %d bytes, %q, %v", what, key, len(out.Result.Body), out.Result.Tombstone, err)
				}
			}
		}
		s.all[names[0]], s.all[names[1]] = a, b
		s.get = errBoom
		if out, err := r.Do(t.Context(), request("a"), never(t)); !errors.Is(err, errBoom) || errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("away: %q, %v", out.Result.Tombstone, err)
		}
		s.get = nil
		if out, err := r.Do(t.Context(), request("a"), never(t)); err != nil || out.Result.Tombstone != "" {
			t.Errorf("back: %q, %v", out.Result.Tombstone, err)
		}
		clear(s.all)
		if out, err := r.Do(t.Context(), request("a"), never(t)); err != nil || !strings.Contains(out.Result.Tombstone, "is gone") || out.Result.Body != nil {
			t.Errorf("gone: %q, %v", out.Result.Tombstone, err)
		}
		without := begin(t, l, idempotency.Options{})
		if _, err := without.Do(t.Context(), request("a"), never(t)); err == nil || !strings.Contains(err.Error(), "set Options.Spill") {
			t.Errorf("without a spill: %v", err)
		}
	})
}

// A result that cannot be spilled is refused as one is that is too large: the request has failed for good, or a tombstone is kept.
func TestASpillThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put = func() error { return errBoom }
		r := begin(t, memory.New(), idempotency.Options{Spill: s, SpillLimit: 1 << 20})
		if r.MaxResult() != 1<<20 {
			t.Errorf("MaxResult is %d", r.MaxResult())
		}
		f, want := large("word")
		_, err := r.Do(t.Context(), request("k"), f)
		if x := as[*idempotency.TooLargeError](err); x == nil || !errors.Is(err, errBoom) || as[*idempotency.FailedError](err) == nil || x.Bytes < len(want) {
			t.Errorf("%v", err)
		}
		if _, err := r.Do(t.Context(), request("k"), never(t)); as[*idempotency.FailedError](err) == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("again: %v", err)
		}
		s.put = func() error { t.Error("it is put"); return nil }
		f, _ = answers(strings.Repeat("w", 1<<20), nil)
		if _, err := r.Do(t.Context(), request("larger"), f); as[*idempotency.TooLargeError](err) == nil || as[*idempotency.TooLargeError](err).Limit != 1<<20 {
			t.Errorf("larger than the limit: %v", err)
		}
		s.put = func() error { return errBoom }
		for again := range 2 {
			out, err := r.Do(t.Context(), request("instead"), func(context.Context) (idempotency.Result, error) {
				return idempotency.Result{Status: 200, Body: []byte(want), Instead: "too large"}, nil
			})
			if err != nil || again == 1 && (out.Result.Tombstone != "too large" || out.Result.Status != 200) {
				t.Errorf("%d: %q, %v", again, out.Result.Tombstone, err)
			}
		}
	})
}

// In a transaction the result is put before the commit, and a spill that fails rolls back.
func TestSpillInTx(t *testing.T) {
	t.Parallel()
	l, db := openFile(t)
	s := newShelf()
	r := begin(t, l, idempotency.Options{Spill: s, Attempts: 1})
	_, want := large("word")
	do := func(key string) (idempotency.Outcome, error) {
		return r.Do(t.Context(), request(key), func(ctx context.Context) (idempotency.Result, error) {
			res := idempotency.Result{Body: []byte(want)}
			return res, sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?)", key); err != nil {
					return err
				}
				return idempotency.SetResult(ctx, res)
			})
		})
	}
	for again := range 2 {
		if out, err := do("k"); err != nil || out.Replayed != (again == 1) || string(out.Result.Body) != want {
			t.Errorf("%d bytes, %v", len(out.Result.Body), err)
		}
	}
	s.put = func() error { return errBoom }
	if _, err := do("fails"); as[*idempotency.TooLargeError](err) == nil || !errors.Is(err, errBoom) {
		t.Errorf("%v", err)
	}
	var effects string
	if err := db.QueryRowContext(t.Context(), "SELECT group_concat(key) FROM effect").Scan(&effects); err != nil || effects != "k" {
		t.Errorf("effects of %q, %v", effects, err)
	}
}

func TestSpillOptions(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{-1, 1<<30 + 1} {
		if _, err := idempotency.New(memory.New(), idempotency.Options{SpillLimit: limit}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("is ", limit)) {
			t.Errorf("%d: %v", limit, err)
		}
	}
	r, err := idempotency.New(memory.New(), idempotency.Options{Spill: (*shelf)(nil)})
	if err != nil || r.MaxResult() != ledger.DefaultLimits.Result {
		t.Errorf("a nil spill: %v", err)
	}
}

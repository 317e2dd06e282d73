package storage_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

func TestCutResult(t *testing.T) {
	if got := storage.CutResult(nil, 100); got != nil {
		t.Errorf("nil became %q", got)
	}
	if got := storage.CutResult([]byte{}, 100); got == nil || len(got) != 0 {
		t.Errorf("empty became %#v", got)
	}
	whole := bytes.Repeat([]byte("x"), 100)
	if got := storage.CutResult(whole, 100); !bytes.Equal(got, whole) {
		t.Errorf("at the limit: %q", got)
	}
	got := storage.CutResult(append(whole, 'y'), 100)
	if len(got) != 100 || !bytes.HasSuffix(got, []byte("…[cut from 101 bytes]")) || !bytes.HasPrefix(got, whole[:50]) {
		t.Errorf("over the limit: %q", got)
	}
}

// A context keeps the deadline that it has.
func TestWithDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := storage.WithDeadline(t.Context())
	defer cancel()
	at, ok := ctx.Deadline()
	if left := time.Until(at); !ok || left <= 0 || left > ledger.CallTimeout {
		t.Errorf("a context without a deadline gets one in %s (%t)", left, ok)
	}
	own, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	ctx, cancel = storage.WithDeadline(own)
	defer cancel()
	want, _ := own.Deadline()
	if got, _ := ctx.Deadline(); !got.Equal(want) {
		t.Errorf("a deadline of %s became %s", want, got)
	}
}

// What was written has no answer once a later part fails, but for an owner that is lost: that is known.
func TestMarkPartly(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for _, c := range []struct {
		wrote         bool
		err           error
		lost, unknown bool
	}{
		{false, away, false, false}, {true, away, false, true}, {true, ledger.ErrLost, true, false}, {true, nil, false, false},
	} {
		got := storage.MarkPartly(c.wrote, c.err)
		if !errors.Is(got, c.err) || ledger.Unknown(got) != c.unknown || ledger.IsLost(got) != c.lost {
			t.Errorf("%v after a write (%t): %v", c.err, c.wrote, got)
		}
	}
}

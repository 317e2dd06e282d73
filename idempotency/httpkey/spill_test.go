package httpkey_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
)

// shelf is a spill in memory.
type shelf struct {
	all  sync.Map
	fail error
}

func (s *shelf) Put(_ context.Context, name string, data []byte, _ time.Duration) error {
	s.all.Store(name, data)
	return s.fail
}

func (s *shelf) Get(_ context.Context, name string, _ int) ([]byte, error) {
	if data, ok := s.all.Load(name); ok {
		return data.([]byte), nil
	}
	return nil, fs.ErrNotExist
}

// An answer that is too large for the ledger is given again from the spill. Where it is gone, too large for that as well, or could not be
// put, a repetition is told so, and the handler does not run again.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("large answer ", 20_000)
	for name, c := range map[string]struct {
		spill *shelf
		limit int
		clear bool
		want  int
	}{
		"spilled": {&shelf{}, 1 << 20, false, http.StatusCreated}, "gone": {&shelf{}, 1 << 20, true, http.StatusConflict},
		"too large": {&shelf{}, 100_000, false, http.StatusConflict}, "not put": {&shelf{fail: errors.New("full")}, 1 << 20, false, http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int32
			e := serve(t, idempotency.Options{Spill: c.spill, SpillLimit: c.limit}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				runs.Add(1)
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(large))
			}, false)
			q := asked{method: http.MethodPost, path: "/pay/1", key: `"k"`, body: "body"}
			if a := e.ask(q); a.status != http.StatusCreated || a.body != large || a.replayed() {
				t.Errorf("first: %d, %d bytes", a.status, len(a.body))
			}
			if c.clear {
				c.spill.all.Clear()
			}
			if a := e.ask(q); a.status != c.want || (a.body == large) != (c.want == http.StatusCreated) || runs.Load() != 1 {
				t.Errorf("again: %d, %d bytes, %d runs", a.status, len(a.body), runs.Load())
			}
		})
	}
}

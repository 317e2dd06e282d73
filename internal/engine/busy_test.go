package engine_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// counted is a ledger that counts the settle calls that came to an end.
type counted struct {
	*sqlite.Ledger
	settles atomic.Int64
}

type countedOwner struct {
	ledger.Owner
	l *counted
}

func (l *counted) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	return countedOwner{o, l}, err
}

func (o countedOwner) Settle(ctx context.Context, s []ledger.Settlement) ([]error, error) {
	defer o.l.settles.Add(1)
	return o.Owner.Settle(ctx, s)
}

// until polls, in real time: a file's lock is outside of any bubble.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// Somebody's InTx on the file was longer than a settle call: the ledger was said to be unreachable, the worker was not ready,
// and nothing was received until it beat again, in turns for as long as the InTx lasted. It is busy, and answers that.
func TestLongTransactionIsNoOutage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	file, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	other, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	core, logs := observer.New(zap.WarnLevel)
	o := options()
	o.Lease, o.Logger, o.NoMaintenance = 6*time.Second, zap.New(core), true
	l := &counted{Ledger: file}
	var runs atomic.Int64
	began, locked := make(chan struct{}), make(chan struct{})
	e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
		runs.Add(1)
		if m.ID == "a" {
			close(began)
			<-locked
		}
		return nil
	})
	in := []*engine.Item{item("a", ""), item("b", "")}
	e.Offer(in[:1])
	<-began
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	close(locked)
	e.Offer(in[1:])
	until(t, "two settle calls end", func() bool { return l.settles.Load() >= 2 })
	if h := e.Health(); !h.Ready || !e.Open() {
		t.Errorf("while another transaction is open: %+v", h)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	until(t, "both are acknowledged", func() bool { return b.acked(t, in[0]) && b.acked(t, in[1]) })
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
	for _, entry := range logs.All() {
		t.Errorf("the log says: %s %v", entry.Message, entry.ContextMap())
	}
	end(t, e)
}

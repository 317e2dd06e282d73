package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// wrapped is an owner as a program wraps it.
type wrapped struct{ ledger.Owner }

func (w wrapped) Unwrap() ledger.Owner { return w.Owner }

func TestBoardedBeneathWrappers(t *testing.T) {
	t.Parallel()
	o, err := memory.New().Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	b := ledger.BoardedOf(o)
	if b == nil || ledger.BoardedOf(wrapped{ledger.Group(wrapped{o}, ledger.GroupConfig{})}) != b {
		t.Error("the owner's board is not found")
	}
	if b := ledger.BoardedOf(struct{ ledger.Owner }{o}); b != nil {
		t.Errorf("an owner that hides what it wraps has %v", b)
	}
}

// Of two pauses that hold for a scope one is told. What is audited may be about all.
func TestPausedBy(t *testing.T) {
	t.Parallel()
	hold := []ledger.Pause{}
	for _, scope := range []string{"b", "", "a", "b"} {
		var err error
		if hold, err = beats.AddPause(hold, ledger.Pause{Scope: scope, By: ledger.By{Actor: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(hold) != 3 || hold[0].Scope != "" || hold[1].Scope != "a" || hold[2].Scope != "b" {
		t.Errorf("%+v", hold)
	}
	if p, ok := ledger.PausedBy(hold[1:], "b"); !ok || p.Scope != "b" {
		t.Errorf("%+v, %t", p, ok)
	}
	if p, ok := ledger.PausedBy(hold[1:], "c"); ok {
		t.Errorf("%+v", p)
	}
	r := acts.PauseRecord("", ledger.By{Actor: "x"}, ledger.ActionPause)
	if err := checks.AuditRecord(&r); err != nil {
		t.Error(err)
	}
	if r.Action = ledger.ActionReplay; checks.AuditRecord(&r) == nil {
		t.Error("a replay of no scope can be audited")
	}
}

// Operators pause a scope, and see who heeds it.
func ExampleBoard() {
	ctx, l := context.Background(), memory.New()
	worker, _ := l.Join(ctx, time.Minute) // as a worker does

	var board ledger.Board = l
	_ = board.Pause(ctx, "sqs:orders/shipping", ledger.By{Actor: "alice", Reason: "the bank is away"})

	says := ledger.BoardedOf(worker)
	says.Report(ledger.WorkerReport{Scope: "sqs:orders/shipping", Started: time.Now(), Running: 3})
	_, _ = worker.Beat(ctx)
	if p, paused := ledger.PausedBy(says.Pauses(), "sqs:orders/shipping"); paused {
		fmt.Println("paused by", p.By.Actor)
	}
	workers, _ := board.Workers(ctx)
	fmt.Println(workers[0].Report.Running, "handlers run")
	// Output:
	// paused by alice
	// 3 handlers run
}

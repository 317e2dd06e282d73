package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A report of whatever size is stored in its bytes, and what comes back is a report that comes back as it is.
func TestReportsFit(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string {
		b := make([]byte, rnd.IntN(most))
		for i := range b {
			b[i] = [...]byte{'a', '<', 0, 0xff, 0xc3, 0xbc, '"', '\\', '\n'}[rnd.IntN(9)]
		}
		return string(b)
	}
	list := func() (all []string) {
		for range rnd.IntN(30) {
			all = append(all, text(600))
		}
		return all
	}
	for range 150 {
		r := ledger.WorkerReport{Scope: text(700), Scopes: list(), Host: text(600), Version: text(600), Started: time.Unix(rnd.Int64N(1e12), rnd.Int64N(1e9)),
			Held: rnd.Int(), Oldest: time.Duration(rnd.Int64()), Succeeded: rnd.Int64(), Paused: text(900), Stalled: list(), Warnings: list(), Error: text(3000)}
		for range rnd.IntN(300) {
			r.Lag = append(r.Lag, ledger.Lag{Source: text(300), Waiting: rnd.Int64()})
		}
		b := ledger.EncodeReport(&r)
		got := ledger.DecodeReport(b)
		if len(b) > ledger.MaxReport || !json.Valid(b) || got.Held != r.Held || got.Succeeded != r.Succeeded || !strings.HasPrefix(r.Scope, got.Scope) {
			t.Fatalf("%d bytes of %+v: %+v", len(b), r, got)
		}
		if again := ledger.DecodeReport(ledger.EncodeReport(&got)); !reflect.DeepEqual(again, got) {
			t.Fatalf("stored again\n%+v\nwas\n%+v", again, got)
		}
	}
}

// What is no report hides nobody else's.
func TestWhatIsNoReport(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "null", "[]", `{"held":"many"}`, `{"started":"never"}`, `{"scope":"not base64!"}`, "\xff\x00", strings.Repeat("[", 5000)} {
		if got := ledger.DecodeReport([]byte(text)); !reflect.DeepEqual(got, ledger.WorkerReport{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

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
		if hold, err = ledger.AddPause(hold, ledger.Pause{Scope: scope, By: ledger.By{Actor: "x"}}); err != nil {
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
	r := ledger.PauseRecord("", ledger.By{Actor: "x"}, ledger.ActionPause)
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	if r.Action = ledger.ActionReplay; r.Check() == nil {
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

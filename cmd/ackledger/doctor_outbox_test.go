package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// boxed is a ledger whose outbox says what a test wants.
type boxed struct {
	opened
	ledger.Outbox
	all []ledger.OutboxStats
	err error
}

func (b *boxed) OutboxStats(context.Context) ([]ledger.OutboxStats, error) { return b.all, b.err }

func TestDoctorOutbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   boxed
		want string
	}{
		"empty":   {boxed{}, "ok outbox: nothing waits to be sent"},
		"unknown": {boxed{err: errors.New("no answer")}, "unknown outbox: no answer"},
		"fresh": {boxed{all: []ledger.OutboxStats{{Target: "orders", Waiting: 3, Oldest: time.Second}}},
			`ok outbox: 3 messages for target "orders" wait to be sent, the oldest for 1s`},
		"nobody relays": {boxed{all: []ledger.OutboxStats{{Target: "orders", Waiting: 3, Oldest: 2 * time.Minute, Untaken: 2 * time.Minute}}},
			`problem outbox: 3 messages for target "orders" wait to be sent, the oldest for 2m: for 2m nobody has relayed them`},
		"old": {boxed{all: []ledger.OutboxStats{{Target: "orders", Waiting: 3, Oldest: time.Hour, Failing: 2}}},
			`warning outbox: 3 messages for target "orders" wait to be sent, the oldest for 1h; 2 of them were refused`},
	} {
		var f findings
		visitOutbox(t.Context(), &c.of, &f)
		if len(f) != 1 {
			t.Fatalf("%s: %+v", name, f)
		}
		if got := string(f[0].Grade) + " " + f[0].Check + ": " + f[0].Text; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if f[0].Grade != good && f[0].Remedy == "" {
			t.Errorf("%s: no remedy", name)
		}
	}
	var f findings
	if visitOutbox(t.Context(), &boxed{err: ledger.ErrNoOutbox}, &f); len(f) != 0 {
		t.Errorf("a ledger without an outbox: %+v", f)
	}
}

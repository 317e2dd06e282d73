package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// settler notes whether empty results come as empty ones, and answers with its error.
type settler struct {
	ledger.Owner
	err     error
	missing int // results that came as nil
}

func (s *settler) Settle(_ context.Context, list []ledger.Settlement) ([]error, error) {
	for i := range list {
		if list[i].Result == nil {
			s.missing++
		}
	}
	return make([]error, len(list)), s.err
}

// Settled hears of the answers, and of nothing where there are none: what a failed flush did is not known.
func TestGroupSettledHearsOfAnswersOnly(t *testing.T) {
	heard, s := 0, &settler{}
	g := ledger.Group(s, ledger.GroupConfig{Settled: func(_ context.Context, list []ledger.Settlement, answers []error) {
		if len(list) != 1 || len(answers) != 1 {
			t.Errorf("%d settlements, %d answers", len(list), len(answers))
		}
		heard++
	}})
	one := []ledger.Settlement{{Ticket: ledger.NewTicket(key("s", "a").Sum(), 1), Result: []byte{}}}
	if _, err := g.Settle(t.Context(), one); err != nil || heard != 1 {
		t.Errorf("%v, heard %d times of what was answered", err, heard)
	}
	s.err = errors.New("connection reset")
	if _, err := g.Settle(t.Context(), one); !errors.Is(err, s.err) || heard != 1 {
		t.Errorf("%v, heard %d times, want no more after an error", err, heard)
	}
}

// An empty result is stored as an empty one, not as none, also by a call whose room was used before.
func TestGroupKeepsEmptyResults(t *testing.T) {
	s := &settler{}
	g := ledger.Group(s, ledger.GroupConfig{})
	for range 20 {
		if _, err := g.Settle(t.Context(), []ledger.Settlement{{Ticket: ledger.NewTicket(key("s", "a").Sum(), 1), Result: []byte{}}}); err != nil {
			t.Fatal(err)
		}
	}
	if s.missing > 0 {
		t.Errorf("%d of 20 empty results came as nil", s.missing)
	}
}

// Ungroup finds the owner beneath a group, and leaves any other as it is.
func TestUngroup(t *testing.T) {
	s := &settler{}
	if ledger.Ungroup(ledger.Group(s, ledger.GroupConfig{})) != ledger.Owner(s) || ledger.Ungroup(s) != ledger.Owner(s) {
		t.Error("Ungroup does not find the owner beneath")
	}
}

// keeper keeps the settlements that it is given, and answers when it is told to.
type keeper struct {
	ledger.Owner
	got  chan []ledger.Settlement
	gate chan struct{}
}

func (k *keeper) Settle(_ context.Context, list []ledger.Settlement) ([]error, error) {
	k.got <- list
	<-k.gate
	return make([]error, len(list)), nil
}

// A caller that gives up has its slices back, although the flush goes on: what is written there does not reach the store.
func TestGroupSettlesACopy(t *testing.T) {
	k := &keeper{got: make(chan []ledger.Settlement, 1), gate: make(chan struct{})}
	g := ledger.Group(k, ledger.GroupConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	result, body := []byte("result"), []byte("body")
	dead := &ledger.Archive{Key: key("s", "a"), Body: body}
	ended := make(chan error, 1)
	go func() {
		_, err := g.Settle(ctx, []ledger.Settlement{{Ticket: ledger.NewTicket(key("s", "a").Sum(), 1), Result: result, Dead: dead}})
		ended <- err
	}()
	sent := <-k.got
	cancel()
	if err := <-ended; !ledger.Unknown(err) {
		t.Errorf("%v, want an unknown answer", err)
	}
	copy(result, "xxxxxx")
	copy(body, "xxxx")
	dead.Kind = ledger.KindPanic
	if string(sent[0].Result) != "result" || string(sent[0].Dead.Body) != "body" || sent[0].Dead.Kind != "" {
		t.Errorf("the store has %q, %q, kind %q", sent[0].Result, sent[0].Dead.Body, sent[0].Dead.Kind)
	}
	close(k.gate)
}

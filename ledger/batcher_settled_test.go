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

// Flushes have as many items and bytes as they may have, and no more: here two settlements, by number or by size. What is asked
// of one log at two leader epochs is asked for twice.
func TestGroupFillsFlushesToTheirBounds(t *testing.T) {
	settlement := func(id string) ledger.Settlement {
		return ledger.Settlement{Ticket: ledger.NewTicket(key("s", id).Sum(), 1), Result: make([]byte, 36)} // 100 bytes
	}
	for name, cfg := range map[string]ledger.GroupConfig{"items": {Items: 2, Flushes: 1}, "bytes": {Bytes: 200, Flushes: 1}} {
		k := &keeper{got: make(chan []ledger.Settlement), gate: make(chan struct{})}
		close(k.gate)
		g := ledger.Group(k, cfg)
		ended := make(chan error, 1)
		go func() {
			_, err := g.Settle(t.Context(), []ledger.Settlement{settlement("a"), settlement("b"), settlement("c"), settlement("d"), settlement("e")})
			ended <- err
		}()
		for i, want := range []int{2, 2, 1} {
			if got := len(<-k.got); got != want {
				t.Errorf("%s: flush %d has %d items, want %d", name, i+1, got, want)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := &recorder{}
	entries := ask("a", "b")
	entries[0].Key.Pos, entries[1].Key.Pos = &ledger.Position{Log: "l", Epoch: 1, Offset: 7}, &ledger.Position{Log: "l", Epoch: 2, Offset: 7}
	if claims, err := ledger.Group(r, ledger.GroupConfig{}).Claim(t.Context(), entries); err != nil || claims[1].Answer != ledger.Run {
		t.Errorf("%+v, %v", claims, err)
	}
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

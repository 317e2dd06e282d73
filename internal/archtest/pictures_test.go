package archtest_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// picture returns the edges of the only diagram of a kind in docs/design.md, each as "from --> to", with its label behind it.
func picture(t *testing.T, kind string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```mermaid\n" + kind + "[^\n]*\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/design.md has no %s", kind)
	}
	edges := map[string][]string{}
	for line := range strings.Lines(string(m[1])) {
		edge, label, _ := strings.Cut(strings.TrimSpace(line), ": ")
		edges[edge] = append(edges[edge], label)
	}
	return edges
}

// moves are what the tables can do to a message: from one state to another.
func moves() map[string]bool {
	all := map[string]bool{}
	name := map[ledger.State]string{0: "[*]", ledger.Pending: "pending", ledger.Succeeded: "succeeded", ledger.Failed: "failed"}
	claim := func(row *ledger.Row, e ledger.Entry) {
		if d := ledger.Decide(row, e); d.Write {
			from := ledger.State(0)
			if row != nil {
				from = row.State
			}
			all[name[from]+" --> pending"] = true
		}
	}
	claim(nil, ledger.Entry{})
	ends := map[ledger.SettleKind]string{ledger.Succeed: "succeeded", ledger.Fail: "failed", ledger.Release: "pending"}
	for _, state := range []ledger.State{ledger.Pending, ledger.Succeeded, ledger.Failed} {
		for holder := ledger.Nobody; holder <= ledger.Dead; holder++ {
			for _, token := range []uint64{1, 2} {
				for crashes := range ledger.CrashLimit + 1 {
					row := &ledger.Row{State: state, Holder: holder, Token: token, Crashes: crashes}
					for _, e := range []ledger.Entry{{}, {Solo: true}, {Park: true}, {StampToken: token}} {
						claim(row, e)
					}
					for kind, to := range ends {
						s := ledger.Settlement{Ticket: ledger.NewTicket([ledger.KeySize]byte{1}, token), Kind: kind}
						if ledger.DecideSettle(row, s) == ledger.EffectWrite {
							all[name[state]+" --> "+to] = true
						}
					}
				}
			}
		}
	}
	return all
}

func TestThePictureOfTheStatesIsThatOfTheTables(t *testing.T) {
	drawn, want := picture(t, "stateDiagram-v2"), moves()
	for edge, labels := range drawn {
		operator := slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(l, "by an operator") })
		if !want[edge] && !operator {
			t.Errorf("the picture has %s, which no table does", edge)
		}
	}
	for edge := range want {
		if drawn[edge] == nil {
			t.Errorf("the picture lacks %s", edge)
		}
	}
}

// What operators do is in the picture as the stores do it.
func TestThePictureOfTheStatesHasWhatOperatorsDo(t *testing.T) {
	ctx, drawn := t.Context(), picture(t, "stateDiagram-v2")
	by := ledger.By{Actor: "somebody"}
	if drawn["succeeded --> pending"] == nil || drawn["failed --> failed"] == nil {
		t.Fatal("the picture lacks what operators do")
	}
	l := memory.New()
	key := settled(ctx, t, l, ledger.Settlement{Kind: ledger.Succeed})
	if _, err := l.Reopen(ctx, ledger.ReopenRequest{Filter: ledger.Filter{Scope: key.Scope}, By: by}); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Get(ctx, key); err != nil || r.State != ledger.Pending {
		t.Errorf("Reopen of what succeeded left it %v, %v", r.State, err)
	}
	l = memory.New()
	key = settled(ctx, t, l, ledger.Settlement{Kind: ledger.Fail, Dead: &ledger.Archive{Kind: ledger.KindTerminal, Keep: time.Hour}})
	r, err := l.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Renew(ctx, ledger.Renewal{Key: key, Token: r.Token, By: by}); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Get(ctx, key); err != nil || r.State != ledger.Failed {
		t.Errorf("Renew of what failed left it %v, %v", r.State, err)
	}
}

// settled is the key of a message with such an end.
func settled(ctx context.Context, t *testing.T, l *memory.Ledger, s ledger.Settlement) ledger.Key {
	t.Helper()
	o, err := l.Join(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	key := ledger.Key{Scope: "scope", ID: []byte("message")}
	claims, err := o.Claim(ctx, []ledger.Entry{{Key: key, Delivery: []byte("copy"), Window: time.Hour}})
	if err != nil || claims[0].Answer != ledger.Run {
		t.Fatalf("claim: %v, %v", claims, err)
	}
	if s.Ticket = claims[0].Ticket; s.Dead != nil {
		s.Dead.Key, s.Dead.Delivery = key, []byte("copy")
	}
	if errs, err := o.Settle(ctx, []ledger.Settlement{s}); err != nil || errs[0] != nil {
		t.Fatalf("settle: %v, %v", errs, err)
	}
	return key
}

func TestThePictureOfTheDatasWayIsThatOfTheImports(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range list(t) {
		imports[p.ImportPath] = p.Imports
	}
	for edge := range picture(t, "flowchart") {
		from, to, _ := strings.Cut(edge, " --> ")
		if !slices.Contains(imports[module+"/"+from], module+"/"+to) {
			t.Errorf("the picture says that %s imports %q", from, to)
		}
	}
}

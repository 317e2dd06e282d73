package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// What a message ended with is shown when its row is gone, and its result with --body only.
func TestShowPast(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		if err := s.Ledger.(ledger.PastKeeper).KeepPast(t.Context(), testScope, time.Hour); err != nil {
			t.Fatal(err)
		}
		entry := ledger.Entry{Key: ledger.Key{Scope: testScope, ID: []byte("shop 7/k")}, Delivery: []byte("d"), Window: time.Millisecond}
		claims, err := s.owner.Claim(t.Context(), []ledger.Entry{entry})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatalf("%+v, %v", claims, err)
		}
		s.settle([]ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed, Result: []byte(secret)}})
		removed := int64(0)
		for deadline := time.Now().Add(time.Minute); removed == 0; {
			report, err := s.Ledger.(ledger.Maintainer).Sweep(t.Context(), ledger.MaintainConfig{})
			if removed = report.Messages; err != nil || time.Now().After(deadline) {
				t.Fatalf("the row stays: %+v, %v", report, err)
			}
		}
		const head = "earlier       succeeded, token 1, retries 0, crashes 0\n"
		out, whole := s.run("show", "shop 7/k"), s.run("show", "shop 7/k", "--body")
		for _, want := range []string{"its row is gone", head, "14 B\n", "kept until"} {
			if !strings.Contains(out, want) || !strings.Contains(whole, want) {
				t.Errorf("show lacks %q:\n%s%s", want, out, whole)
			}
		}
		if strings.Contains(out, secret) || !strings.Contains(whole, secret) {
			t.Errorf("the result without and with --body:\n%s%s", out, whole)
		}
		for _, body := range []bool{false, true} {
			args := []string{"show", "shop 7/k", "--json"}
			if body {
				args = append(args, "--body")
			}
			one := jsonLines[shown](t, s.run(args...))
			if len(one) != 1 || one[0].State != "gone" || len(one[0].Past) != 1 {
				t.Fatalf("%+v", one)
			}
			p := one[0].Past[0]
			if p.State != "succeeded" || p.Token != 1 || p.ResultBytes != len(secret) || (string(p.Result) == secret) != body ||
				p.Until == nil || p.Expiry == nil || p.Until.Sub(*p.Expiry) != time.Hour || p.At == nil {
				t.Errorf("%+v", p)
			}
		}
	})
}

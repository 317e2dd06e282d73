package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A replay that is killed between a renewal and its send leaves messages that only the archive can bring back: the doctor,
// the list and the statistics say so, and a replay of just these sends them.
func TestRenewalsThatWereNeverSent(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindExhausted, "no such SKU", "o1", "o2", "o3")
		key := ledger.Key{Scope: testScope, ID: []byte("o2")}
		renewed, err := s.Renew(t.Context(), ledger.Renewal{Key: key, Token: 1, By: ledger.By{Actor: "eve"}})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, s.run("doctor"), "ok       renewed: no message waits for more than 10m")
		var f findings
		visitRenewed(t.Context(), s, -time.Minute, &f)
		if len(f) != 1 || f[0].Grade != warning || !strings.HasPrefix(f[0].Text, "1 messages were renewed") {
			t.Errorf("the doctor, later: %+v", f)
		}
		list := jsonLines[deadLetter](t, s.run("list", "--renewed", "--json"))
		if len(list) != 1 || list[0].ID != "o2" || !list[0].Renewed || !strings.Contains(s.run("list"), "failed, renewed") {
			t.Errorf("the list: %+v\n%s", list, s.run("list"))
		}
		count := jsonLines[statistics](t, s.run("stats", "--dead-letters", "--json"))[0].DeadLetters
		if len(count) != 1 || count[0].Failed != 3 || count[0].Renewed != 1 {
			t.Errorf("the statistics: %+v", count)
		}
		if r := s.replay("--source", "sqs:orders-dlq", "--renewed", "--to", "source"); r.code != exitUsage {
			t.Errorf("--renewed of a queue: code %d, %s", r.code, r.errors)
		}
		rep := s.report("--source", "archive", "--renewed", "--to", "source", "--yes")
		if rep.Read != 1 || rep.Replayed != 1 || s.srv.Queue("orders").Depth() != 1 {
			t.Errorf("%+v", rep)
		}
		status, err := s.Status(t.Context(), []ledger.Key{key})
		if err != nil || status[0].Token != renewed.Token || status[0].Generation != 1 {
			t.Errorf("it was renewed again: %+v, %v", status, err)
		}
	})
}

// A mismatch is archived before it is published, so the archive does not know whether it was: nothing says that it was not.
func TestShowOfAMismatch(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		s.fail(testScope, ledger.KindTerminal, "cannot parse", "o1")
		dead := deadArchive(testScope, "o1", ledger.KindMismatch, "another body is known")
		dead.Delivery, dead.Body, dead.Fingerprint = []byte("another"), []byte("another"), ledger.BodyFingerprint([]byte("another"))
		claims, err := s.owner.Claim(t.Context(), []ledger.Entry{{Key: dead.Key, Delivery: dead.Delivery, Fingerprint: dead.Fingerprint, Window: time.Hour}})
		if err != nil || claims[0].Answer != ledger.Mismatch {
			t.Fatalf("%+v, %v", claims, err)
		}
		s.settle([]ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: dead}})
		out := s.run("show", "o1")
		if strings.Count(out, "it was sent to no dead-letter target") != 1 || strings.Count(out, "once it was archived") != 1 {
			t.Error(out)
		}
		one := jsonLines[shown](t, s.run("show", "o1", "--json"))[0]
		if len(one.Archived) != 2 || one.Archived[0].Sent == nil || *one.Archived[0].Sent || one.Archived[1].Sent != nil {
			t.Errorf("%+v", one.Archived)
		}
	})
}

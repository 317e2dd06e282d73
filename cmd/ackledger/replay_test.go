package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

const testScope = "sqs:" + testQueues + "orders/shipping"

// site is a ledger beside a queue and its dead-letter queue.
type site struct {
	*store
	srv       *sqstest.Server
	url, dead string
}

// onSites runs a test on both stores, each beside queues of its own.
func onSites(t *testing.T, test func(*testing.T, *site)) {
	onStores(t, func(t *testing.T, s *store) {
		srv := sqstest.Start(t, nil)
		url, err1 := srv.CreateQueue("orders", nil)
		dead, err2 := srv.CreateQueue("orders-dlq", nil)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		test(t, &site{store: s, srv: srv, url: url, dead: dead})
	})
}

// replay runs the command's replay.
func (s *site) replay(args ...string) result {
	s.Helper()
	return withEnv(s.T, awsEnv(s.srv), append([]string{"replay", "--ledger", s.name}, args...)...)
}

// report runs a replay that does all that it is told, and returns its report.
func (s *site) report(args ...string) replay.Report {
	s.Helper()
	r := s.replay(append(args, "--json")...)
	if r.code != exitDone {
		s.Fatalf("replay %v: code %d: %s%s", args, r.code, r.out, r.errors)
	}
	var rep replay.Report
	if err := json.Unmarshal([]byte(r.out), &rep); err != nil {
		s.Fatalf("%s: %v", r.out, err)
	}
	return rep
}

// publish forwards what failed to the dead-letter queue, as a worker does.
func (s *site) publish(ids ...string) {
	s.Helper()
	q, err := sqs.NewDeadLetterQueue(s.srv.Client(), s.dead)
	if err != nil {
		s.Fatal(err)
	}
	for _, id := range ids {
		body := []byte(secret + id)
		stamp := consumer.NewStamp(sourceOf(testScope), id, body)
		stamp.Token = 1
		err := q.Publish(s.Context(), &consumer.DeadLetter{
			Message:  consumer.Message{ID: id, Source: sourceOf(testScope), Body: body, Attempt: 2},
			Delivery: []byte(id), Stamp: &stamp, Kind: ledger.KindExhausted, Consumer: "shipping", FailedAt: time.Now(),
		})
		if err != nil {
			s.Fatal(err)
		}
	}
}

// TestReplay brings back what failed, from the archive and from a queue, and drops what succeeded meanwhile.
func TestReplay(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindExhausted, "no such SKU", "o1", "o2", "o3")
		s.fail(testScope, ledger.KindTerminal, "cannot parse", "o4")
		s.publish("o1", "o2")
		for _, source := range []string{"archive", "sqs:orders-dlq"} {
			dry := s.report("--source", source, "--to", "source", "--kind", "exhausted")
			if !dry.DryRun || dry.Replayed < 2 || s.srv.Queue("orders").Depth() != 0 || s.srv.Queue("orders-dlq").Depth() != 2 {
				t.Errorf("dry run from %s: %+v", source, dry)
			}
		}
		r := s.replay("--source", "archive", "--to", "source")
		if r.code != exitDone || !strings.Contains(r.out, "would be replayed") || !strings.Contains(r.out, "--yes does it") || strings.Contains(r.out, secret) {
			t.Errorf("dry run: code %d, %s%s", r.code, r.out, r.errors)
		}

		rep := s.report("--source", "archive", "--to", "source", "--id", "o3", "--yes", "--actor", "eve", "--reason", "JIRA-8")
		if rep.Replayed != 1 || s.srv.Queue("orders").Depth() != 1 {
			t.Errorf("from the archive: %+v, %d in the queue", rep, s.srv.Queue("orders").Depth())
		}
		one := jsonLines[shown](t, s.run("show", "o3", "--json"))
		if len(one) != 1 || one[0].State != "failed" || len(one[0].Audit) != 1 || one[0].Audit[0].Actor != "eve" || one[0].Audit[0].Action != "replay" {
			t.Errorf("the audit: %+v", one)
		}
		s.again("o2") // it is redriven by hand, and succeeds
		s.unhide()
		rep = s.report("--source", "sqs:"+s.dead, "--to", "sqs:orders", "--yes", "--visibility", "1s")
		if rep.Replayed != 1 || rep.Succeeded != 1 || s.srv.Queue("orders").Depth() != 2 || s.srv.Queue("orders-dlq").Depth() != 0 {
			t.Errorf("from the queue: %+v, %d and %d in the queues", rep, s.srv.Queue("orders").Depth(), s.srv.Queue("orders-dlq").Depth())
		}
	})
}

// again claims a failed message by another delivery, and succeeds.
func (s *store) again(id string) {
	s.Helper()
	claims, err := s.owner.Claim(s.Context(), []ledger.Entry{{Key: ledger.Key{Scope: testScope, ID: []byte(id)}, Delivery: []byte("again " + id),
		Window: time.Hour, Fingerprint: ledger.BodyFingerprint([]byte(secret + id))}})
	if err != nil || claims[0].Answer != ledger.Run {
		s.Fatalf("%+v, %v", claims, err)
	}
	s.settle([]ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}})
}

// unhide waits until what the dry runs received is visible again.
func (s *site) unhide() {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); s.srv.Queue("orders-dlq").InFlight > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("the dead letters of a dry run stay hidden")
		}
	}
}

// The source queue named in place of its dead-letter queue is refused before it is read.
func TestReplayOfLiveMessages(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindExhausted, "no such SKU", "o1")
		for range 2 {
			r := s.replay("--source", "sqs:orders", "--to", "source")
			if r.code != exitFailed || !strings.Contains(r.errors, `consumer "shipping" of this ledger consumes`) || r.out != "" {
				t.Errorf("code %d: %s%s", r.code, r.out, r.errors)
			}
		}
	})
}

// A mended body is shown as a difference first, and is sent in place of the one that failed.
func TestReplayOfAMendedBody(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindTerminal, "cannot parse", "o1", "o2")
		if r := ackledger(t, "show", "o1", "--ledger", s.name, "--body-only"); r.code != exitDone || r.out != secret+"o1" {
			t.Errorf("show --body-only: code %d, %q%s", r.code, r.out, r.errors)
		}
		if r := ackledger(t, "show", "o1", "--ledger", s.name, "--body-only", "--json"); r.code != exitUsage || r.out != "" {
			t.Errorf("show --body-only --json: code %d, %q%s", r.code, r.out, r.errors)
		}
		mended := filepath.Join(t.TempDir(), "mended.json")
		if err := os.WriteFile(mended, []byte("card 4242-4242"), 0o600); err != nil {
			t.Fatal(err)
		}
		base := []string{"--source", "archive", "--to", "source", "--id", "o1", "--body-file", mended}
		if r := s.replay(base...); r.code != exitDone || !strings.Contains(r.out, "-"+secret+"o1\n+card 4242-4242\n") || s.srv.Queue("orders").Depth() != 0 {
			t.Errorf("the difference: code %d, %s%s", r.code, r.out, r.errors)
		}
		if r := s.replay(append(base, "--json")...); r.code != exitDone || strings.Contains(r.out, "+card") || !strings.Contains(r.errors, "+card 4242-4242\n") {
			t.Errorf("the difference beside JSON: code %d, %s%s", r.code, r.out, r.errors)
		}
		rep := s.report(append(base, "--yes")...)
		sent := s.srv.Queue("orders").Messages
		if rep.Replayed != 1 || len(sent) != 1 || sent[0].Body != "card 4242-4242" {
			t.Errorf("%+v; sent %+v", rep, sent)
		}
		if one := jsonLines[shown](t, s.run("show", "o1", "--json")); one[0].Generation != 1 || one[0].State != "failed" || one[0].Token != 2 {
			t.Errorf("the row: %+v", one)
		}
		r := s.replay("--source", "archive", "--to", "source", "--id", "o2", "--fresh-keys", "--yes")
		if r.code != exitDone || !strings.Contains(r.errors, "AGAIN") {
			t.Errorf("--fresh-keys: code %d, %s%s", r.code, r.out, r.errors)
		}
		if one := jsonLines[shown](t, s.run("show", "o2", "--json")); one[0].Generation != 1 {
			t.Errorf("the row with fresh keys: %+v", one)
		}
	})
}

func TestReplayMistakes(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindExhausted, "no such SKU", "o1")
		s.publish("o1")
		file := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		const farQueue = "arn:aws:sqs:eu-west-1:000000000000:orders" // of another region, with the name of one here
		for args, want := range map[string]struct {
			code int
			text string
		}{
			"--to source":                   {exitUsage, "--source must be archive"},
			"--source archive":              {exitUsage, "--to must be source"},
			"--source archive --to here":    {exitUsage, "--to must be source"},
			"--source queue --to source":    {exitUsage, "--source must be archive"},
			"--source sqs:none --to source": {exitFailed, "there is no queue none"},
			"--source sqs:" + s.srv.URL + "/000000000000/none --to source": {exitFailed, "there is no queue"},
			"--source sqs:orders-dlq --to sqs:none":                        {exitFailed, "there is no queue none"},
			"--source sqs:orders-dlq --to sqs:orders-dlq":                  {exitFailed, "must not be the dead-letter queue itself"},
			"--source sqs:" + farQueue + "-dlq --to source":                {exitFailed, "there is no queue " + farQueue},
			"--source sqs:orders-dlq --to sqs:" + farQueue:                 {exitFailed, "there is no queue " + farQueue},
			"--source kafka:dead --to source":                              {exitUsage, "--brokers is missing"},
			"--source archive --to source --id nobody":                     {exitFailed, "no dead letter with the id nobody"},
			"--source archive --to kafka:orders":                           {exitUsage, "--brokers is missing"},
			"--source archive --to source --scope nowhere":                 {exitFailed, "there is no scope"},
			"--source archive --to source --kind odd":                      {exitUsage, "--kind must be one of"},
			"--source archive --to source --since soon":                    {exitUsage, "--since"},
			"--source archive --to source --rate -1":                       {exitUsage, "--rate must be"},
			"--source archive --to source --concurrency 9999":              {exitUsage, "--concurrency must be"},
			"--source archive --to source --max-errors -1":                 {exitUsage, "--max-errors must be"},
			"--source archive --to source --body-file " + file:             {exitUsage, "needs --id exactly once"},
			"--source archive --to source --id o1 --body-file /none":       {exitUsage, "/none"},
			"--source archive --to source --id none --body-file " + file:   {exitFailed, "knows nothing of none"},
		} {
			r := s.replay(append(strings.Fields(args), "--yes")...)
			if r.code != want.code || r.out != "" || !strings.Contains(r.errors, want.text) || strings.Count(r.errors, "\n") != 1 {
				t.Errorf("replay %s: code %d, output %q, error %q; want code %d and one line with %q", args, r.code, r.out, r.errors, want.code, want.text)
			}
		}
		if s.srv.Queue("orders").Depth() != 0 || s.srv.Queue("orders-dlq").Depth() != 1 {
			t.Error("a mistake sent something")
		}
		if one := jsonLines[shown](t, s.run("show", "o1", "--json")); one[0].State != "failed" || one[0].Token != 1 || len(one[0].Audit) != 0 {
			t.Errorf("a mistake changed the row: %+v", one)
		}
	})
}

// Ctrl-C ends a replay between two messages: whole messages are sent or not, the report says how many, and the same
// command goes on.
func TestInterruptedReplay(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		const all = 200
		ids := make([]string, all)
		for i := range ids {
			ids[i] = fmt.Sprintf("o%03d", i)
		}
		s.fail(testScope, ledger.KindExhausted, "no such SKU", ids...)
		cmd := command(t, "replay", "--ledger", s.name, "--source", "archive", "--to", "source", "--yes", "--rate", "20", "--json")
		cmd.Env = append(cmd.Env, awsEnv(s.srv)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); s.srv.Queue("orders").Depth() < 5; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("nothing is replayed: %s", errs.String())
			}
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the code says how
		var rep replay.Report
		if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
			t.Fatalf("%s%s: %v", out.String(), errs.String(), err)
		}
		sent := s.srv.Queue("orders").Depth()
		if cmd.ProcessState.ExitCode() != exitPartly || rep.Replayed != int64(sent) || sent < 5 || sent >= all ||
			!strings.HasSuffix(errs.String(), "the same command goes on with the rest\n") {
			t.Errorf("code %d, %d sent, report %+v, error %q", cmd.ProcessState.ExitCode(), sent, rep, errs.String())
		}
		if n := s.audited(); n < sent {
			t.Errorf("%d were sent, %d audited", sent, n)
		}
		if rep := s.report("--source", "archive", "--to", "source", "--yes"); !rep.Complete() || rep.Replayed != all {
			t.Errorf("the rest: %+v", rep)
		}
	})
}

func (s *store) audited() (n int) {
	s.Helper()
	for _, err := range s.Audits(context.WithoutCancel(s.Context()), ledger.AuditFilter{Action: ledger.ActionReplay}) {
		if err != nil {
			s.Fatal(err)
		}
		n++
	}
	return n
}

// Without a terminal there are lines, and only of runs that last.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := replay.Progress{Report: replay.Report{Read: 1500, Replayed: 1400, Succeeded: 60, Superseded: 7, Left: 20, Refused: 10, Failed: 3},
		Total: 3000, Rate: 150, Left: 10 * time.Second, Elapsed: time.Second}
	p := newProgress(&out)
	p.show(now)
	if p.terminal || out.Len() > 0 {
		t.Errorf("a run of a second says %q", out.String())
	}
	now.Elapsed = lineInterval
	p.show(now)
	p.end()
	if want := "1,500 read, 1,400 replayed, 67 dropped, 20 left, 10 refused, 0 mismatched, 3 failed; 150/s, 10s to go\n"; out.String() != want {
		t.Errorf("a line says %q, want %q", out.String(), want)
	}
	out.Reset()
	p = &progress{out: &out, terminal: true}
	p.show(now)
	if !strings.Contains(out.String(), "1,500 read") {
		t.Errorf("the bar says %q", out.String())
	}
	p.end()
	if last := out.String()[strings.LastIndexByte(out.String(), '\r')+1:]; strings.TrimSpace(last) != "" {
		t.Errorf("the bar leaves %q behind", last)
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ was, is, want string }{
		{"a", "a", "(the same bytes)\n"},
		{"a\nb\nc", "a\nx\nc", " a\n-b\n+x\n c\n"},
		{`{"sku":17,"n":1}`, `{"sku":18,"n":1}`, " {\n-  \"sku\": 17,\n+  \"sku\": 18,\n   \"n\": 1\n }\n"},
		{`{"a":1}`, "{ \"a\" : 1 }", "(only white space changes)\n"},
		{"\xff", "a", "(not text)\n"},
		{"a\x1b[2J", "b", "-a\uFFFD[2J\n+b\n"},
		{"", "b", "-\n+b\n"},
	} {
		if got := difference([]byte(c.was), []byte(c.is)); got != c.want {
			t.Errorf("from %q to %q:\n%s\nwant\n%s", c.was, c.is, got, c.want)
		}
	}
}

// TestReplayOfWhatIsHidden says that what the queue hides was not seen, and is neither done nor missing.
func TestReplayOfWhatIsHidden(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindExhausted, "no such SKU", "o1", "o2")
		s.publish("o1", "o2")
		s.report("--source", "sqs:orders-dlq", "--to", "source", "--visibility", "30s") // a dry run hides them
		for _, more := range [][]string{{"--yes"}, {"--yes", "--id", "o1"}, {"--id", "o1"}} {
			r := s.replay(append([]string{"--source", "sqs:orders-dlq", "--to", "source"}, more...)...)
			if r.code != exitPartly || !strings.Contains(r.errors, "2 messages") || !strings.Contains(r.errors, "not seen") ||
				!strings.Contains(r.out, "hidden by others") || strings.Contains(r.out+r.errors, "there is no dead letter") {
				t.Errorf("%v: code %d: %s%s", more, r.code, r.out, r.errors)
			}
		}
		s.unhide()
		if rep := s.report("--source", "sqs:orders-dlq", "--to", "source", "--yes"); rep.Replayed != 2 || rep.Unread != 0 || !rep.Complete() {
			t.Errorf("visible again: %+v", rep)
		}
	})
}

// A dry run says by its exit code what the run would: a script that asks first stops there.
func TestDryRunOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.publish("o9") // the ledger knows nothing of it
		for _, flags := range [][]string{nil, {"--yes"}} {
			r := s.replay(append([]string{"--source", "sqs:orders-dlq", "--to", "source", "--visibility", "1s"}, flags...)...)
			if r.code != exitPartly || !strings.Contains(r.out, "1 refused") || strings.Count(r.errors, "\n") != 1 {
				t.Errorf("%v: code %d, want %d: %s%s", flags, r.code, exitPartly, r.out, r.errors)
			}
			s.unhide()
		}
	})
}

// What is left, refused and mismatched is three things in the progress as it is in the report.
func TestProgressLineCountsAsTheReport(t *testing.T) {
	t.Parallel()
	line := progressLine(replay.Progress{Report: replay.Report{Read: 6, Left: 1, Refused: 2, Mismatched: 3}})
	if !strings.Contains(line, "1 left, 2 refused, 3 mismatched, 0 failed") {
		t.Error(line)
	}
}

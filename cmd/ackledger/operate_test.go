package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func TestList(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		for args, want := range map[string]string{
			"":                               "o1 o2 o3 p1",
			"--state failed":                 "o1 o2 o3 p1",
			"--scope " + orders:              "o1 o2 o3",
			"--scope payments":               "p1",
			"--kind terminal":                "o3",
			"--kind terminal --kind invalid": "o3",
			"--error SKU":                    "o1 o2",
			"--header tenant=acme":           "o1 o2 o3 p1",
			"--header tenant=other":          "",
			"--key g1 --id o2 --id p1":       "o2 p1",
			"--since 1h":                     "o1 o2 o3 p1",
			"--until 1h":                     "",
			"--since 2100-01-01":             "",
			"--count 2":                      "o1 o2",
			"--state succeeded":              "o4 o5",
			"--state pending":                "o6",
			"--stuck":                        "",
		} {
			got := s.listed(strings.Fields(args)...)
			if strings.HasPrefix(args, "--state succ") && len(got) == 2 && got[0] > got[1] {
				got[0], got[1] = got[1], got[0] // rows come in no order
			}
			if strings.Join(got, " ") != want {
				t.Errorf("list %s: %v, want %s", args, got, want)
			}
		}
		table := s.run("list")
		for _, want := range []string{"ARCHIVED", "exhausted", "no such SKU: 17", `cannot parse\x1b[2J`} {
			if !strings.Contains(table, want) {
				t.Errorf("the table lacks %q:\n%s", want, table)
			}
		}
		oldest, newest := s.listed(), s.listed("--newest")
		if slices.Reverse(newest); len(newest) < 2 || !slices.Equal(oldest, newest) {
			t.Errorf("list: %v, and the other way round %v", oldest, newest)
		}
		if out := s.run("list", "--count", "2"); strings.Count(out, "\n") != 4 || !strings.Contains(out, "there are more") {
			t.Errorf("list --count 2:\n%s", out)
		}
		if out := s.run("list", "--error", "never"); !strings.Contains(out, "nothing") {
			t.Errorf("an empty list says %q", out)
		}
		for _, args := range [][]string{{"list"}, {"list", "--json"}, {"list", "--state", "succeeded", "--json"}, {"show", "o1"}, {"show", "o1", "--json"}} {
			if out := s.run(args...); strings.Contains(out, secret) || strings.Contains(out, "Y2FyZCA0") || strings.Contains(out, "acme") || strings.Contains(out, "\x1b") {
				t.Errorf("%v prints a body or a header:\n%s", args, out)
			}
		}
		full := jsonLines[deadLetter](t, s.run("list", "--json", "--body", "--id", "o1"))
		if len(full) != 1 || full[0].Content == nil || string(full[0].Content.Body) != secret+"o1" || len(full[0].Content.Headers) != 1 {
			t.Errorf("list --json --body: %+v", full)
		}
	})
}

func TestShow(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		s.succeed(payments, "o1") // the same id elsewhere
		out := s.run("show", "o1", "--scope", orders, "--body", "--step", "payment:charge")
		for _, want := range []string{"failed", orders, "token 1, generation 0", "dead letter", "exhausted after 2 attempts", "a first try",
			"no such SKU: 17", "tenant: acme", secret + "o1", consumer.DeriveChildKey(ledger.Key{Scope: orders, ID: []byte("o1")}.Sum(), "payment:charge", 0)} {
			if !strings.Contains(out, want) && !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("show lacks %q:\n%s", want, out)
			}
		}
		all := jsonLines[shown](t, s.run("show", "o1", "--json"))
		if len(all) != 2 || all[0].Scope == all[1].Scope {
			t.Errorf("both scopes: %+v", all)
		}
		one := jsonLines[shown](t, s.run("show", "o4", "--json", "--body"))
		if len(one) != 1 || one[0].State != "succeeded" || string(one[0].Result) != "shipped" || len(one[0].Archived) != 0 {
			t.Errorf("a success: %+v", one)
		}
		if out := s.run("show", "o6"); !strings.Contains(out, "pending, owner") || !strings.Contains(out, "live") {
			t.Errorf("a pending one:\n%s", out)
		}
		if out := s.run("show", "o4"); strings.Contains(out, "shipped") || !strings.Contains(out, "7 B") {
			t.Errorf("a success without --body:\n%s", out)
		}
	})
}

func TestStatsOfDeadLetters(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		s.fail(testScope, ledger.KindTerminal, "cannot parse", "o1")
		s.again("o1")
		var all statistics
		decode(t, s.run("stats", "--dead-letters", "--json"), &all)
		got := map[string]deadLetters{}
		for _, d := range all.DeadLetters {
			got[d.Scope+" "+d.Kind] = d
		}
		if len(got) != 4 || got[orders+" exhausted"].Failed != 2 || got[orders+" terminal"].Failed != 1 ||
			got[payments+" exhausted"].Failed != 1 || got[testScope+" terminal"].Succeeded != 1 {
			t.Errorf("dead letters: %+v", all.DeadLetters)
		}
		weighed := map[string]int64{}
		for _, a := range all.Archived {
			weighed[a.Scope] = a.Bytes
		}
		if one, two := weighed[payments], weighed[orders]; len(weighed) != 3 || one < ledger.ArchiveRowBytes || two < one+2*ledger.ArchiveRowBytes {
			t.Errorf("archived bytes: %+v", all.Archived)
		}
		if out := s.run("stats", "--dead-letters"); !strings.Contains(out, "dead letters") || !strings.Contains(out, "archived") || !strings.Contains(out, payments) {
			t.Errorf("as a table:\n%s", out)
		}
		if out := s.run("stats"); strings.Contains(out, "dead letters") {
			t.Errorf("not asked for:\n%s", out)
		}
	})
}

// What workers counted of deliveries is shown by scope, with the rate of deduplication.
func TestStatsOfDeliveries(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		if out := s.run("stats"); strings.Contains(out, "dedup rate") {
			t.Errorf("before anything was counted:\n%s", out)
		}
		err := s.Ledger.(ledger.DeliveryCounter).CountDeliveries(t.Context(), []ledger.Deliveries{
			{Scope: payments, Misses: 3000, Hits: 1000, Timeouts: 7}, {Scope: "shop\x1b[2J", Misses: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		var all statistics
		decode(t, s.run("stats", "--json"), &all)
		for i := range all.Deliveries {
			if d := time.Since(all.Deliveries[i].Since); d < -time.Minute || d > time.Minute {
				t.Errorf("counted since %s", all.Deliveries[i].Since)
			}
			all.Deliveries[i].Since = time.Time{}
		}
		want := []deliveries{{Scope: payments, Misses: 3000, Hits: 1000, Timeouts: 7, DedupRate: 0.25}, {Scope: `"shop\x1b[2J"`, Misses: 1}}
		if !slices.Equal(all.Deliveries, want) {
			t.Errorf("%+v, want %+v", all.Deliveries, want)
		}
		out := s.run("stats")
		for _, row := range []string{`3,000 +1,000 +25\.00 % +7 .* ` + payments, `1 +0 +0\.00 % +0 .* "shop\\x1b`} {
			if !regexp.MustCompile(row).MatchString(out) {
				t.Errorf("%s is not in\n%s", row, out)
			}
		}
	})
}

// What a signal or a failure in the middle leaves behind is said, with how to go on.
func TestStopped(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		done int64
		code int
		want string
	}{
		{over, 0, exitFailed, "stopped before anything was changed; again"},
		{over, 7, exitPartly, "stopped: 7 rows were changed; again"},
		{t.Context(), 0, exitFailed, "broken"},
		{t.Context(), 7, exitPartly, "broken; 7 rows were changed before that; again"},
	} {
		err := begun(func(*cobra.Command) error {
			return stopped(c.ctx, errors.New("broken"), c.done, "rows were changed", "again")
		})(nil, nil)
		if o, ok := errors.AsType[*outcome](err); !ok || o.code != c.code || err.Error() != c.want {
			t.Errorf("%d done: %v, want code %d, %s", c.done, err, c.code, c.want)
		}
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		if out := s.run("reopen", "--scope", orders); !strings.Contains(out, "2 messages of "+orders) || !strings.Contains(out, "--yes does it") {
			t.Errorf("the dry run says %q", out)
		}
		if got := s.listed("--state", "succeeded"); len(got) != 2 {
			t.Errorf("a dry run reopened: %v", got)
		}
		var rep reopened
		decode(t, s.run("reopen", "--scope", orders, "--id", "o4", "--yes", "--fresh-keys", "--json", "--actor", "eve", "--reason", "JIRA-7"), &rep)
		if rep.Matched != 1 || rep.Reopened != 1 || rep.DryRun {
			t.Errorf("reopened: %+v", rep)
		}
		one := jsonLines[shown](t, s.run("show", "o4", "--json"))
		if len(one) != 1 || one[0].State != "pending" || one[0].Free == nil || !*one[0].Free || one[0].Generation != 1 ||
			len(one[0].Audit) != 1 || one[0].Audit[0].Actor != "eve" || one[0].Audit[0].Reason != "JIRA-7" || one[0].Audit[0].State != "succeeded" {
			t.Errorf("after reopen: %+v", one)
		}
		if got := s.listed("--stuck"); len(got) != 1 || got[0] != "o4" {
			t.Errorf("what waits for a copy: %v", got)
		}
		if out := s.run("reopen", "--scope", orders, "--yes", "--fresh-keys"); !strings.Contains(out, "AGAIN") || !strings.Contains(out, "1 reopened, 0 left") {
			t.Errorf("reopen --yes says %q", out)
		}
	})
}

func TestPurge(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		if out := s.run("purge", "--scope", orders, "--kind", "exhausted"); !strings.Contains(out, "2 dead letters are selected") || !strings.Contains(out, "--yes does it") {
			t.Errorf("the dry run says %q", out)
		}
		if got := s.listed(); len(got) != 4 {
			t.Errorf("a dry run purged: %v", got)
		}
		var rep purged
		decode(t, s.run("purge", "--scope", orders, "--kind", "exhausted", "--yes", "--json"), &rep)
		if rep.Matched != 2 || rep.Purged != 2 || rep.Left != 0 || rep.DryRun {
			t.Errorf("purged: %+v", rep)
		}
		if got := s.listed(); strings.Join(got, " ") != "o3 p1" {
			t.Errorf("after the purge: %v", got)
		}
		if out := s.run("show", "o1", "--body"); strings.Contains(out, secret) || strings.Contains(out, "no such SKU") || !strings.Contains(out, "purged") {
			t.Errorf("a purged one:\n%s", out)
		}
	})
}

// What is refused is one clear line, with the right exit code, and nothing has been changed.
func TestOperatorsMistakes(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		before := s.run("list", "--json") + s.run("list", "--json", "--state", "succeeded", "--scope", orders, "--id", "o4")
		for args, want := range map[string]struct {
			code int
			text string
		}{
			"show nobody":                                        {exitFailed, "the ledger knows nothing of nobody"},
			"purge --id nobody --yes":                            {exitFailed, "no dead letter with the id nobody"},
			"reopen --scope orders --id nobody --yes":            {exitFailed, "no message that succeeded with the id nobody"},
			"reopen --scope orders --id o1 --yes":                {exitFailed, "no message that succeeded with the id o1"},
			"show orders-3-17":                                   {exitFailed, "--brokers"},
			"show o1 --scope nowhere":                            {exitFailed, `there is no scope "nowhere"`},
			"show o1 --scope shipping":                           {exitFailed, "may be any of " + orders + ", " + payments},
			"list --scope nowhere":                               {exitFailed, "there is " + orders},
			"purge --scope nowhere --yes":                        {exitFailed, `there is no scope "nowhere"`},
			"reopen --scope nowhere --yes":                       {exitFailed, `there is no scope "nowhere"`},
			"reopen --yes":                                       {exitUsage, "--scope is missing"},
			"purge --yes":                                        {exitUsage, "--all"},
			"list --state lost":                                  {exitUsage, "pending, succeeded or failed"},
			"list --kind lost":                                   {exitUsage, "--kind must be one of terminal"},
			"list --since yesterday":                             {exitUsage, "an age such as 90m or 2d"},
			"list --since 1h --until 2h":                         {exitUsage, "--until must be after --since"},
			"list --header tenant":                               {exitUsage, "NAME=VALUE"},
			"list --offsets 3":                                   {exitUsage, "PARTITION:FIRST-LAST"},
			"list --offsets 3:9-2":                               {exitUsage, "PARTITION:FIRST-LAST"},
			"list --count -1":                                    {exitUsage, "--count must be 0"},
			"list --body":                                        {exitUsage, "--body needs --json"},
			"list --state pending --stuck --kind x":              {exitUsage, "--kind must be"},
			"list --state failed --stuck":                        {exitUsage, "--state must be"},
			"purge --yes --actor " + strings.Repeat("x", 300):    {exitUsage, "--actor must be"},
			"reopen --yes --scope orders --offsets x":            {exitUsage, "PARTITION:FIRST-LAST"},
			"purge --yes --until 2d --since 1d":                  {exitUsage, "--until must be after"},
			"show":                                               {exitUsage, "one ID"},
			"show orders-3-17 --brokers 127.0.0.1:1 --sasl rot":  {exitUsage, "password"},
			"show orders-3-17 --brokers 127.0.0.1:1 --tls-ca /x": {exitUsage, "--tls-ca"},
		} {
			r := ackledger(t, append(strings.Fields(args), "--ledger", s.name)...)
			if r.code != want.code || r.out != "" || !strings.Contains(r.errors, want.text) || strings.Count(r.errors, "\n") != 1 {
				t.Errorf("ackledger %s: code %d, output %q, error %q; want code %d and one line with %q", args, r.code, r.out, r.errors, want.code, want.text)
			}
		}
		if after := s.run("list", "--json") + s.run("list", "--json", "--state", "succeeded", "--scope", orders, "--id", "o4"); after != before {
			t.Errorf("something was changed:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// A ledger of a version that this program does not serve: nothing is done to it.
func TestIncompatibleLedger(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		s.newer()
		for _, args := range []string{"list", "show o1", "purge --yes --all", "reopen --yes --scope orders", "stats", "migrate", "maintain --once",
			"replay --source archive --to source --yes"} {
			r := ackledger(t, append(strings.Fields(args), "--ledger", s.name)...)
			if r.code != exitFailed || r.out != "" || strings.Count(r.errors, "\n") != 1 || !strings.Contains(r.errors, "99") {
				t.Errorf("ackledger %s: code %d, output %q, error %q", args, r.code, r.out, r.errors)
			}
		}
	})
}

// bodySpy counts the bodies that it reads.
type bodySpy struct {
	ledger.Operator
	read int
}

func (s *bodySpy) Find(ctx context.Context, scope string, id []byte) ([]ledger.Record, error) {
	found, err := s.Operator.Find(ctx, scope, id)
	for i := range found {
		for _, a := range found[i].Archived {
			if a.Body != nil {
				s.read++
			}
		}
	}
	return found, err
}

// A body may be 50 MB: what is not printed is not read, and its size is told all the same.
func TestShowReadsNoBodyUnasked(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		s.fail(orders, ledger.KindExhausted, "no such SKU: 17", "o1")
		for _, asked := range []bool{true, false} {
			spy, out := &bodySpy{Operator: s}, new(strings.Builder)
			if err := (&showOne{body: asked}).run(t.Context(), spy, "o1", out); err != nil {
				t.Fatal(err)
			}
			if (spy.read == 1) != asked || !strings.Contains(out.String(), "  size        34 B") {
				t.Errorf("with the body %t: %d bodies read\n%s", asked, spy.read, out)
			}
		}
	})
}

// latePurge lets something happen between the count of a purge and its work.
type latePurge struct {
	ledger.Operator
	meanwhile func()
}

func (l *latePurge) Purge(ctx context.Context, r ledger.PurgeRequest) (ledger.PurgeReport, error) {
	if !r.DryRun {
		l.meanwhile()
	}
	return l.Operator.Purge(ctx, r)
}

// What is archived after the count stays, and does not make the purge "partly done"; what was counted and stays does.
func TestPurgeIsOfWhatWasCounted(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		s.fail(testScope, ledger.KindTerminal, "cannot parse", "o1", "o2")
		purgeAll := func(meanwhile func()) (string, error) {
			var out strings.Builder
			err := (&purge{yes: true, all: true}).run(t.Context(), &latePurge{s, meanwhile}, ledger.By{Actor: "eve"}, &out)
			return out.String(), err
		}
		out, err := purgeAll(func() {
			s.fail(testScope, ledger.KindTerminal, "cannot parse", "late", "later")
			s.redrive("late")
		})
		if err != nil || !strings.Contains(out, "2 purged, 0 left") {
			t.Errorf("two that came later: %v, %s", err, out)
		}
		if got := strings.Join(s.listed(), " "); got != "late later" {
			t.Errorf("after the purge: %s", got)
		}
		out, err = purgeAll(func() { s.redrive("later") })
		if o, ok := errors.AsType[*outcome](err); !ok || o.code != exitPartly || !strings.Contains(out, "0 purged, 2 left") {
			t.Errorf("one that was counted is pending since: %v, %s", err, out)
		}
	})
}

// redrive makes a failed message pending, by another copy of it.
func (s *store) redrive(id string) {
	s.Helper()
	claims, err := s.owner.Claim(s.Context(), []ledger.Entry{{Key: ledger.Key{Scope: testScope, ID: []byte(id)}, Delivery: []byte(id + " again"),
		Window: time.Hour, Fingerprint: ledger.BodyFingerprint([]byte(secret + id))}})
	if err != nil || claims[0].Answer != ledger.Run {
		s.Fatalf("%+v, %v", claims, err)
	}
}

package examples_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs"
)

// defaults are the settings of the tables by the name they have there.
var defaults = map[string]string{
	"Options.Concurrency":    count(consumer.DefaultConcurrency),
	"Options.Attempts":       count(consumer.DefaultAttempts),
	"Options.BackoffBase":    span(consumer.DefaultBackoffBase),
	"Options.BackoffMax":     span(consumer.DefaultBackoffMax),
	"Options.HandlerTimeout": span(consumer.DefaultHandlerTimeout),
	"Options.SlowAfter":      span(consumer.DefaultSlowAfter),
	"Options.Lease":          span(consumer.DefaultLease),
	"Options.Drain":          span(consumer.DefaultDrain),
	"Options.Grace":          span(consumer.DefaultGrace),
	"Options.ClaimAhead":     count(consumer.DefaultClaimAhead),
	"Options.MaxHeld":        count(consumer.DefaultMaxHeld),
	"Options.MaxHeldBytes":   size(consumer.DefaultMaxHeldBytes),
	"Options.Keep":           span(consumer.DefaultKeep),

	"Options.Breaker.Failures": count(consumer.DefaultBreakerFailures),
	"Options.Breaker.Percent":  count(consumer.DefaultBreakerPercent),

	"Options.ParkAfter":   span(consumer.DefaultParkAfter),
	"Options.ParkedMost":  count(consumer.DefaultParkedMost),
	"Options.ParkedBytes": size(consumer.DefaultParkedBytes),

	"Options.DeadLetterTries":   count(consumer.DefaultDeadLetterTries),
	"Options.DeadLetterTimeout": span(consumer.DefaultDeadLetterTimeout),

	"Options.Relay.Parallel":   count(consumer.DefaultRelayParallel),
	"Options.Relay.Batch":      count(consumer.DefaultRelayBatch),
	"Options.Relay.BatchBytes": size(consumer.DefaultRelayBatchBytes),
	"Options.Relay.Lease":      span(consumer.DefaultRelayLease),
	"Options.Relay.Interval":   span(consumer.DefaultRelayInterval),
	"Options.Relay.Tries":      count(consumer.DefaultRelayTries),

	"sqs.Config.VisibilityTimeout": span(sqs.DefaultVisibilityTimeout),
	"sqs.Config.WaitTime":          span(sqs.DefaultWaitTime),
	"sqs.Config.MaxPollers":        count(sqs.DefaultMaxPollers),

	"kafka.Config.Span":           count(kafka.DefaultSpan),
	"kafka.Config.CommitInterval": span(kafka.DefaultCommitInterval),
	"kafka.Config.RevokeDrain":    span(kafka.DefaultRevokeDrain),

	"idempotency.Options.Concurrency": count(idempotency.DefaultConcurrency),
	"idempotency.Options.Waiting":     count(idempotency.DefaultWaiting),
	"idempotency.Options.Wait":        span(idempotency.DefaultWait),
	"idempotency.Options.Window":      span(idempotency.DefaultWindow),
	"idempotency.Options.Audit":       span(idempotency.DefaultAudit),
	"idempotency.Options.Timeout":     span(idempotency.DefaultTimeout),
	"idempotency.Options.SpillLimit":  size(idempotency.DefaultSpillLimit),
	"idempotency.Options.FilterLimit": span(idempotency.DefaultFilterLimit),

	"ledger.MaintainConfig.Keep":      span(ledger.DefaultKeep),
	"ledger.MaintainConfig.KeepAudit": span(ledger.DefaultKeepAudit),
	"ledger.MaintainConfig.Interval":  span(ledger.DefaultSweepInterval),
	"ledger.MaintainConfig.Batch":     count(ledger.DefaultSweepBatch),

	"ledger.CrashLimit":            count(ledger.CrashLimit),
	"ledger.SuspectCrashes":        count(ledger.SuspectCrashes),
	"ledger.DefaultLimits.Result":  size(ledger.DefaultLimits.Result),
	"ledger.DefaultLimits.Archive": size(ledger.DefaultLimits.Archive),
	"ledger.DefaultLimits.Errors":  size(ledger.DefaultLimits.Errors),
}

func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func size(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d > time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

var settingRow = regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| ([^|]+) \\| [^|]+ \\|$")

// settings reads the rows of a page's tables of defaults.
func settings(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range settingRow.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	return rows
}

func TestTheTableOfDefaultsIsThatOfTheConstants(t *testing.T) {
	all := settings(t, "docs/defaults.md")
	for name, want := range defaults {
		if all[name] != want {
			t.Errorf("docs/defaults.md says %s is %q, it is %q", name, all[name], want)
		}
	}
	for name, value := range all {
		if _, known := defaults[name]; !known && !regexp.MustCompile("Default "+regexp.QuoteMeta(value)+"[.,;]").MatchString(fieldDoc(t, name)) {
			t.Errorf("docs/defaults.md has %s: %s, which is no default", name, value)
		}
	}
}

// A new constant must come into the table: the map above is held to the packages' sources.
func TestEveryDefaultIsInTheTable(t *testing.T) {
	for folder, prefix := range map[string]string{"consumer": "Options.", "sqs": "sqs.Config.", "kafka": "kafka.Config.", "idempotency": "idempotency.Options."} {
		for _, name := range defaultConstants(t, filepath.Join("..", folder)) {
			field := strings.NewReplacer("Breaker", "Breaker.", "Relay", "Relay.").Replace(strings.TrimPrefix(name, "Default")) // structs in Options
			if _, known := defaults[prefix+field]; !known {
				t.Errorf("%s.%s is not in the table of defaults", folder, name)
			}
		}
	}
}

// defaultConstants are the exported constants of a package whose names begin with Default.
func defaultConstants(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(n.Name, "Default") {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("%s has no constant that begins with Default", folder)
	}
	return names
}

// fieldDoc is the documentation of a field of a store's Config, whose defaults are no constants; empty if there is none.
func fieldDoc(t *testing.T, name string) string {
	t.Helper()
	parts := strings.Split(name, ".")
	if len(parts) != 3 || parts[1] != "Config" {
		return ""
	}
	files, err := filepath.Glob(filepath.Join("..", "ledger", parts[0], "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	doc := ""
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != parts[1] {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			for i := 0; ok && i < len(fields.Fields.List); i++ {
				if f := fields.Fields.List[i]; len(f.Names) == 1 && f.Names[0].Name == parts[2] {
					doc = strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
			return false
		})
	}
	return doc
}

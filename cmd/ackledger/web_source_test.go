package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/ledger"
)

// browsing is a process that serves the pages.
type browsing struct {
	*testing.T
	cmd  *exec.Cmd
	base string
}

// begin posts a form that begins a job, and returns the job's page.
func (b *browsing) begin(path string, form url.Values) string {
	b.Helper()
	code, body, header := ask(b.T, http.MethodPost, b.base+path, form)
	if code != http.StatusSeeOther {
		b.Fatalf("%s: %d\n%s", path, code, body)
	}
	return header.Get("Location")
}

var tag = regexp.MustCompile(`<[^>]*>`)

// done waits for the end of a job, and returns its page's text.
func (b *browsing) done(job string) (text string) {
	b.Helper()
	eventually(b.T, func() bool {
		_, body, _ := ask(b.T, http.MethodGet, b.base+job, nil)
		text = tag.ReplaceAllString(body, " ")
		return !strings.Contains(text, " running ")
	})
	return text
}

// end ends the process, which must be clean.
func (b *browsing) end() {
	b.Helper()
	if err := errors.Join(b.cmd.Process.Signal(os.Interrupt), b.cmd.Wait()); err != nil {
		b.Errorf("it ends with %v", err)
	}
}

func (b *browsing) has(text string, wants ...string) {
	b.Helper()
	for _, want := range wants {
		if !regexp.MustCompile(want).MatchString(text) {
			b.Errorf("the page lacks %s:\n%s", want, text)
		}
	}
}

// TestWebReplaysFromAQueue: the page reads the dead-letter queue as the command does.
func TestWebReplaysFromAQueue(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindExhausted, "no such SKU", "o1", "o2")
		s.publish("o1", "o2")
		s.again("o2") // it is redriven by hand, and succeeds
		cmd, base := served(t, awsEnv(s.srv), "--ledger", s.name, "--source", "sqs:orders-dlq", "--source", "sqs:none", "--visibility", "1s")
		b := &browsing{t, cmd, base}
		form := "replay?source=sqs%3Aorders-dlq&scope=" + url.QueryEscape(testScope)
		dry := b.begin(form, url.Values{"reason": {"OPS-7"}})
		b.has(b.done(dry), `would be replayed\s+1\s`, `succeeded already: dropped\s+1\s`)
		if s.srv.Queue("orders").Depth() != 0 || s.srv.Queue("orders-dlq").Depth() != 2 {
			t.Error("a dry run has sent, or removed")
		}
		s.unhide()
		b.has(b.done(b.begin(strings.Replace(dry, "job", "go", 1), nil)), `replayed\s+1\s`, "OPS-7")
		if s.srv.Queue("orders").Depth() != 1 || s.srv.Queue("orders-dlq").Depth() != 0 {
			t.Errorf("%d and %d in the queues", s.srv.Queue("orders").Depth(), s.srv.Queue("orders-dlq").Depth())
		}
		one := jsonLines[shown](t, s.run("show", "o1", "--json"))
		if len(one) != 1 || len(one[0].Audit) != 1 || one[0].Audit[0].Actor != "alex" || one[0].Audit[0].Action != "replay" || one[0].Audit[0].Reason != "OPS-7" {
			t.Errorf("the audit: %+v", one)
		}
		b.has(b.done(b.begin("replay?source=sqs%3Anone", nil)), "failed", "there is no queue none")
		b.end()
	})
}

// TestWebReplaysFromATopic: the page reads the dead-letter topic as the command does.
func TestWebReplaysFromATopic(t *testing.T) {
	t.Parallel()
	onTopics(t, func(t *testing.T, k *topics) {
		for i := range 3 {
			if err := k.client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: fmt.Appendf(nil, "%s%d", secret, i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		k.work(3, secret)
		cmd, base := served(t, nil, "--ledger", k.name, "--brokers", k.brokers, "--source", "kafka:orders.dlq")
		b := &browsing{t, cmd, base}
		dry := b.begin("replay?source=kafka%3Aorders.dlq&error=SKU", nil)
		b.has(b.done(dry), `would be replayed\s+3\s`)
		if k.end() != 3 {
			t.Error("a dry run has sent")
		}
		b.has(b.done(b.begin(strings.Replace(dry, "job", "go", 1), nil)), `replayed\s+3\s`)
		k.work(3, "")
		if got := k.listed("--state", "failed"); len(got) != 0 || k.end() != 6 {
			t.Errorf("still failed: %v; %d records", got, k.end())
		}
		b.end()
	})
}

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// ask asks the pages of a process for one.
func ask(t *testing.T, method, address string, form url.Values) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// served is a process that serves the pages, with acts, and their address.
func served(t *testing.T, env []string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := command(t, append([]string{"web", "--listen", "127.0.0.1:0", "--write", "--actor", "alex"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "serving ")
	base, _, _ := strings.Cut(rest, " ")
	return cmd, base
}

// TestWeb: the pages are served of every kind of ledger, by a process that a signal ends.
func TestWeb(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		shop(s)
		cmd, base := served(t, nil, "--ledger", s.name)
		for path, want := range map[string]string{"": orders, "dead": "no such SKU: 17", "errors": "no such SKU: #", "stuck": "Stuck", "audit": "Audit",
			"message?id=o1": "a first try", "doctor": "Examine", "style.css": "color-scheme"} {
			if code, body, _ := ask(t, http.MethodGet, base+path, nil); code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d\n%s", path, code, body)
			}
		}
		code, body, header := ask(t, http.MethodPost, base+"purge?id=o1&scope="+url.QueryEscape(orders), url.Values{"reason": {"test"}})
		if code != http.StatusSeeOther {
			t.Fatalf("purge: %d\n%s", code, body)
		}
		job := header.Get("Location")
		eventually(t, func() bool {
			_, body, _ := ask(t, http.MethodGet, base+job, nil)
			return strings.Contains(body, "purge 1")
		})
		code, _, _ = ask(t, http.MethodPost, base+strings.Replace(job, "job", "go", 1), url.Values{"phrase": {"purge 1"}})
		if code != http.StatusSeeOther {
			t.Fatalf("go: %d", code)
		}
		eventually(t, func() bool { return s.purges() == 1 })
		if code, _, _ := ask(t, http.MethodPost, base+"search?what=doctor", nil); code != http.StatusSeeOther {
			t.Errorf("doctor: %d", code)
		}
		eventually(t, func() bool {
			_, body, _ := ask(t, http.MethodGet, base+"doctor", nil)
			return strings.Contains(body, "stuck</strong>")
		})
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ends with %v", err)
		}
	})
}

func (s *store) purges() (n int) {
	s.Helper()
	for a, err := range s.Audits(s.Context(), ledger.AuditFilter{Action: ledger.ActionPurge}) {
		if err != nil {
			s.Fatal(err)
		}
		if a.By.Actor == "alex" {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not become so")
		}
	}
}

func TestWebUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--listen 8080": "host:port", "--listen 0.0.0.0:8080": "--no-login", "--listen :8080": "--no-login", "--attempts 0": "--attempts",
		"--actor=": "--actor", "--source archive": "sqs:QUEUE or kafka:TOPIC", "--source sqs:": "sqs:QUEUE or kafka:TOPIC",
		"--source sqs:a --source sqs:a": "twice",
	} {
		r := ackledger(t, append([]string{"web", "--ledger", "nowhere.db"}, strings.Fields(args)...)...)
		if r.code != exitUsage || !strings.Contains(r.errors, want) {
			t.Errorf("web %s: %d %s", args, r.code, r.errors)
		}
	}
}

// TestWebAnswersToItsNames: a name that is made to point at this machine is not one of them.
func TestWebAnswersToItsNames(t *testing.T) {
	t.Parallel()
	w := &webPages{listen: "127.0.0.2:8080", hosts: []string{"ops.example.com"}}
	h := w.known(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, want := range map[string]int{"localhost:8080": 200, "127.0.0.2:8080": 200, "[::1]:8080": 200, "[::1]": 200, "OPS.example.com": 200,
		"evil.example.com:8080": 421, "": 421} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.Host = name
		answer := httptest.NewRecorder()
		if h.ServeHTTP(answer, r); answer.Code != want {
			t.Errorf("%q: %d, want %d", name, answer.Code, want)
		}
	}
}

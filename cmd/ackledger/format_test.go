package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", 1234567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) is %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Microsecond: "2ms", 1234 * time.Millisecond: "1.2s", time.Minute: "1m", time.Hour: "1h",
		90 * time.Second: "1m30s", 10 * time.Hour: "10h", 61 * time.Minute: "1h1m", 24 * time.Hour: "1d", 50 * time.Hour: "2d2h",
		90 * 24 * time.Hour: "90d",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%s) is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 3 << 50: "3072.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) is %q, want %q", n, got, want)
		}
	}
	for s, want := range map[string]string{"sqs:arn/пay": "sqs:arn/пay", "\x1b[2J": `"\x1b[2J"`, "\xff": `"\xff"`, "a\nb": `"a\nb"`} {
		if got := text(s); got != want {
			t.Errorf("text(%q) is %q, want %q", s, got, want)
		}
	}
}

func TestHolderText(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]ledger.Status{
		"live":    {Holder: ledger.Live, HeldFor: time.Second},
		"overdue": {Holder: ledger.Live, HeldFor: -time.Second}, // its lease is over, and no peer has declared it dead yet
		"left":    {Holder: ledger.Left},
		"dead":    {Holder: ledger.Dead},
		"nobody":  {},
	} {
		if got := holderText(&s); got != want {
			t.Errorf("holderText(%+v) is %q, want %q", s, got, want)
		}
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://u:hush@h/d":                      "postgres://u:xxxxx@h/d",
		"postgres://u:hu@sh@h/d":                     "postgres://u:xxxxx@h/d",
		"postgres://u@h/d":                           "postgres://u@h/d",
		"postgres://h/d?password=hush&sslmode=x":     "postgres://h/d?password=xxxxx&sslmode=x",
		"host=h password='hu sh' sslpassword=hush x": "host=h password=xxxxx sslpassword=xxxxx x",
		`password='hu\'sh' PASSWORD = hush`:          `password=xxxxx PASSWORD = xxxxx`,
		"password='hush":                             "password=xxxxx",
		"http://h/?password=''hush&x=1":              "http://h/?password=xxxxx&x=1",
		"dial tcp 127.0.0.1:1: refused":              "dial tcp 127.0.0.1:1: refused",
	} {
		if got := masked(in); got != want {
			t.Errorf("masked(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestNoPasswordOfAnUnknownURL(t *testing.T) {
	t.Parallel()
	r := ackledger(t, "stats", "--ledger", "postgress://u:my hush@h/d")
	if r.code != exitUsage || !strings.Contains(r.errors, `"postgress"`) || strings.Contains(r.out+r.errors, "hush") {
		t.Errorf("code %d, %s%s", r.code, r.out, r.errors)
	}
}

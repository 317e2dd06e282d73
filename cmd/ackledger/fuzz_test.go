package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// Whatever is typed: the filters are refused in one line, or select of a ledger what they say.
func FuzzFilters(f *testing.F) {
	l, all := fuzzLedger(f)
	f.Add("orders", "refused", "exhausted", "orders-0-7", "0:1-9", "tenant=a", "key", "2d", "", 3)
	f.Add("%", "_'\";--", "no such kind", "", "1:9-1", "=", "\x00", "now", "1h", -1)
	f.Add(orders, "100%", "terminal", "\xff", "0:0", "tenant=", "", "2026-11-20T15:04:05Z", "2999-01-01", 0)
	f.Add("", "", "", "a\nb", "", "\xff=\x00", "", "-5m", "9223372036854775807d", 1)
	f.Fuzz(func(t *testing.T, scope, text, kind, id, offsets, header, key, since, until string, limit int) {
		var args []string
		for flag, value := range map[string]string{
			"--scope": scope, "--error": text, "--kind": kind, "--id": id, "--offsets": offsets, "--header": header, "--key": key,
			"--since": since, "--until": until,
		} {
			if value != "" {
				args = append(args, flag+"="+value)
			}
		}
		filters := &filters{count: limit}
		cmd := &cobra.Command{}
		filters.messageFlags(cmd, "archived")
		filters.deadLetterFlags(cmd)
		cmd.SetErr(io.Discard)
		err := cmd.ParseFlags(args)
		var got ledger.Filter
		if err == nil {
			got, err = filters.filter(t.Context(), l)
		}
		if err != nil {
			if line := oneLine(err); line == "" || strings.Contains(line, "\n") {
				t.Fatalf("%q is not one line", line)
			}
			return
		}
		if have, want := selected(t, l, got), matching(t, all, got); !slices.Equal(have, want) {
			t.Fatalf("%+v selects %q, want %q", got, have, want)
		}
	})
}

// fuzzLedger is a ledger with dead letters of all sorts, and these.
func fuzzLedger(f *testing.F) (*sqlite.Ledger, []ledger.DeadLetter) {
	f.Helper()
	l, err := sqlite.Open(f.Context(), filepath.Join(f.TempDir(), "ledger.db"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := l.Close(); err != nil {
			f.Error(err)
		}
	})
	owner, err := l.Join(f.Context(), time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	for i, id := range []string{"orders-0-7", "orders-1-7", "orders-0-9223372036854775807", "\xff\x00", "a\nb", "100%_'"} {
		key := ledger.Key{Scope: []string{orders, payments}[i%2], ID: []byte(id)}
		claims, err := owner.Claim(f.Context(), []ledger.Entry{{Key: key, Delivery: key.ID, Window: time.Hour}})
		if err != nil {
			f.Fatal(err)
		}
		dead := &ledger.Archive{
			Key: key, Delivery: key.ID, Kind: kinds[i%len(kinds)], Body: []byte("body"), Keep: time.Hour, Group: []string{"key", "\xff", ""}[i%3],
			Headers: []ledger.Header{{Name: "tenant", Value: []byte("a")}, {Name: "\xff", Value: []byte{0}}, {Name: "empty"}}[:i%4],
			Errors:  []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindError, Error: "100% refused by _'\";--"}, {Attempt: 2, Error: id}}[:i%3],
		}
		errs, err := owner.Settle(f.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: dead}})
		if err != nil || errs[0] != nil {
			f.Fatal(err, errs)
		}
	}
	var all []ledger.DeadLetter
	for d, err := range l.DeadLetters(f.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, d)
	}
	if len(all) != 6 {
		f.Fatalf("%d dead letters, want 6", len(all))
	}
	return l, all
}

func selected(t *testing.T, l *sqlite.Ledger, filter ledger.Filter) (ids []string) {
	t.Helper()
	for d, err := range l.DeadLetters(t.Context(), filter) {
		if err != nil {
			t.Fatalf("%+v: %v", filter, err)
		}
		ids = append(ids, string(d.Key.ID))
	}
	return ids
}

// matching asks the filter itself.
func matching(t *testing.T, all []ledger.DeadLetter, filter ledger.Filter) (ids []string) {
	t.Helper()
	if err := filter.Check(); err != nil {
		t.Fatalf("%+v was taken: %v", filter, err)
	}
	for _, d := range all {
		ok, err := filter.Keep(t.Context(), &d)
		if err != nil {
			t.Fatal(err)
		}
		if ok && (filter.Limit == 0 || len(ids) < filter.Limit) {
			ids = append(ids, string(d.Key.ID))
		}
	}
	return ids
}

// Whatever a name holds: what is shown of it cannot move a terminal's cursor, and a record's id is read back as it is.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"orders-0-7", "a-b--1-2", "\x1b[2J", "\xff", "é\u202e", "orders-0-9223372036854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if shown := text(s); strings.ContainsFunc(shown, unprintable) || strings.ContainsAny(shown, "\n\t") {
			t.Fatalf("%q is shown as %q", s, shown)
		}
		if at, ok := positionOf(s); ok && (at.topic == "" || at.partition < 0 || at.offset < 0) {
			t.Fatalf("%q is %+v", s, at)
		}
		if twice := masked(masked(s)); twice != masked(s) {
			t.Fatalf("%q is masked as %q, then as %q", s, masked(s), twice)
		}
	})
}

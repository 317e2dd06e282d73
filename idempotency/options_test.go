package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// What is no setting is refused with its name, its bound and its value; the bounds themselves are taken.
func TestOptions(t *testing.T) {
	t.Parallel()
	const century = 100 * 365 * 24 * time.Hour
	for want, o := range map[string]idempotency.Options{
		"Waiting: must be Concurrency (5) to 1000000, is 4":       {Concurrency: 5, Waiting: 4},
		"Waiting: must be Concurrency (1000) to 1000000, is 1000": {Waiting: 1_000_001},
		"Wait: must be 1ms to 1h, is 999":                         {Wait: time.Millisecond - 1},
		"Wait: must be 1ms to 1h, is 1h0m0.000000001s":            {Wait: time.Hour + 1},
		"Wait: must not be set with Refuse":                       {Wait: time.Second, Refuse: true},
		"Window: must be at least 1s, is 999.999999ms":            {Window: time.Second - 1},
		"Audit: must be 1s to 876000h0m0s, is 999.999999ms":       {Audit: time.Second - 1},
		"Audit: must be 1s to 876000h0m0s, is 876000h0m0.0":       {Audit: century + 1},
		"Audit: must not be set with NoAudit":                     {Audit: time.Hour, NoAudit: true},
		"SpillLimit: must be 1 to 1073741824 bytes, is -1":        {SpillLimit: -1},
		"SpillLimit: must be 1 to 1073741824 bytes, is 107374182": {SpillLimit: 1<<30 + 1},
		"Attempts": {Attempts: -1},
	} {
		if _, err := idempotency.New(memory.New(), o); err == nil || !strings.Contains(err.Error(), "Options."+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, o := range []idempotency.Options{
		{Concurrency: 5, Waiting: 5, Wait: time.Millisecond, Window: time.Second, Audit: time.Second, SpillLimit: 1, FilterLimit: time.Millisecond},
		{Waiting: 1_000_000, Wait: time.Hour, Window: century, Audit: century, SpillLimit: 1 << 30, FilterLimit: time.Second},
		{Concurrency: 10_000}, {Refuse: true}, {Refuse: true, Wait: idempotency.DefaultWait}, {NoAudit: true},
	} {
		if _, err := idempotency.New(memory.New(), o); err != nil {
			t.Error(err)
		}
	}
	if _, err := idempotency.New(nil, idempotency.Options{}); err == nil || !strings.Contains(err.Error(), "the ledger must not be nil") {
		t.Errorf("without a ledger: %v", err)
	}
}

// A runner whose failures are run again does so under the same key, as often as one asks.
func TestRerunFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{RerunFailed: true})
		f, runs := answers("", consumer.Terminal(errBoom))
		for n := range 3 {
			if out, err := r.Do(t.Context(), request("k"), f); as[*idempotency.FailedError](err) == nil || out.Replayed || int(runs.Load()) != n+1 {
				t.Errorf("%d: %+v, %v after %d runs", n, out, err, runs.Load())
			}
		}
	})
}

// Requests beyond those that may wait are refused, and room that becomes free is used.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{Concurrency: 1, Waiting: 2})
		release := make(chan struct{})
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := r.Do(t.Context(), request("k"), func(context.Context) (idempotency.Result, error) {
					<-release
					return idempotency.Result{}, nil
				})
				ended <- err
			}()
		}
		synctest.Wait()
		for range 2 { // who is refused takes no room
			if _, err := r.Do(t.Context(), request("another"), never(t)); !errors.Is(err, idempotency.ErrFull) || !strings.HasSuffix(err.Error(), ": 2") {
				t.Errorf("the third: %v", err)
			}
		}
		close(release)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		f, _ := answers("", nil)
		if _, err := r.Do(t.Context(), request("another"), f); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// What cannot be asked for is the caller's mistake, and is told with its bound; the bounds themselves are asked for.
func TestWhatIsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{CheckKey: func(key string) error {
			if key == "no" {
				return errBoom
			}
			return nil
		}})
		part := strings.Repeat("p", 255)
		for _, c := range []struct {
			want   string // empty: it runs
			key    bool   // a KeyError
			change func(q *idempotency.Request)
		}{
			{"Scope: must be 1 to 255 bytes of UTF-8, is 0 bytes", false, func(q *idempotency.Request) { q.Scope = "" }},
			{"Scope: must be 1 to 255 bytes of UTF-8, is 256 bytes", false, func(q *idempotency.Request) { q.Scope = part + "p" }},
			{"Scope: must be 1 to 255 bytes of UTF-8, is 1 bytes", false, func(q *idempotency.Request) { q.Scope = "\xff" }},
			{"Caller: must be at most 255 bytes, is 256 bytes", false, func(q *idempotency.Request) { q.Caller = part + "p" }},
			{"Window: must be 0, or at least 1s, is -1ns", false, func(q *idempotency.Request) { q.Window = -1 }},
			{"Window: must be 0, or at least 1s, is 999.999999ms", false, func(q *idempotency.Request) { q.Window = time.Second - 1 }},
			{"boom", true, func(q *idempotency.Request) { q.Key = "no" }},
			{"caller and key together must be at most 1024 bytes, are 1025", true, func(q *idempotency.Request) { q.Caller, q.Key = "c", strings.Repeat("k", 1023) }},
			{"", false, func(q *idempotency.Request) { q.Caller, q.Key = "c", strings.Repeat("k", 1022) }},
			{"", false, func(q *idempotency.Request) { q.Scope, q.Caller, q.Window = part, part, time.Second }},
		} {
			q := request("k")
			c.change(&q)
			f, runs := answers("", nil)
			_, err := r.Do(t.Context(), q, f)
			if c.want == "" && (err != nil || runs.Load() != 1) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || runs.Load() != 0) {
				t.Errorf("%v after %d runs, want %q", err, runs.Load(), c.want)
			}
			if bad := as[*idempotency.KeyError](err); (bad != nil) != c.key || q.Key == "no" && !errors.Is(err, errBoom) {
				t.Errorf("%v is a KeyError: %t, want %t", err, bad != nil, c.key)
			}
		}
	})
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"": "1 to 255 characters, has 0", strings.Repeat("é", 256): "1 to 255 characters, has 256", "\xff": "must be UTF-8",
		"a b": "has U+0020 at byte 1", "a\u00a0": "has U+00A0 at byte 1", "\x00": "has U+0000 at byte 0", "a\u200b": "has U+200B at byte 1",
		"k": "", strings.Repeat("é", 255): "",
	} {
		err := idempotency.CheckKey(key)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.10q: %v, want %q", key, err, want)
		}
	}
}

// What cannot be stored fails its request for good: its effects may have happened. The bounds themselves are stored.
func TestWhatIsNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{})
		for _, c := range []struct {
			key, want string
			result    idempotency.Result
		}{
			{"below", "Result.Status: must be 0 to 999, is -1", idempotency.Result{Status: -1}},
			{"above", "Result.Status: must be 0 to 999, is 1000", idempotency.Result{Status: 1000}},
			{"type", "Result.MediaType and Tombstone: must be UTF-8", idempotency.Result{MediaType: "\xff"}},
			{"tombstone", "Result.MediaType and Tombstone: must be UTF-8", idempotency.Result{Tombstone: "\xff"}},
			{"name", "Result.Headers: must be UTF-8", idempotency.Result{Headers: []ledger.Header{{Name: "\xff"}}}},
			{"value", "Result.Headers: must be UTF-8", idempotency.Result{Headers: []ledger.Header{{Name: "n", Value: []byte("\xff")}}}},
			{"least", "", idempotency.Result{}}, {"most", "", idempotency.Result{Status: 999}},
		} {
			for again := range 2 {
				out, err := r.Do(t.Context(), request(c.key), func(context.Context) (idempotency.Result, error) { return c.result, nil })
				if c.want == "" && (err != nil || out.Result.Status != c.result.Status) ||
					c.want != "" && (as[*idempotency.FailedError](err) == nil || !strings.Contains(err.Error(), c.want)) || out.Replayed != (again == 1) {
					t.Errorf("%s: %+v, %v", c.key, out, err)
				}
			}
		}
	})
}

// Errors say what was asked, and what holds.
func TestErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"idempotency: the same request is in progress (for 1.235s at least, unless it ends before)":                                    &idempotency.InProgressError{Rest: 1234567 * time.Microsecond},
		"idempotency: the result must be at most 10 bytes as it is stored, is 11: set Options.Spill, or a larger ledger.Limits.Result": &idempotency.TooLargeError{Bytes: 11, Limit: 10},
		"idempotency: the result of 11 bytes, as it is stored, is too large for the ledger, and was not spilled: boom":                 &idempotency.TooLargeError{Bytes: 11, Limit: 10, Err: errBoom},
		"declined": &idempotency.FailedError{Text: "declined", Err: errBoom},
		"boom":     &idempotency.KeyError{Err: errBoom},
	} {
		if err.Error() != want {
			t.Errorf("%s, want %s", err, want)
		}
		if as[*idempotency.InProgressError](err) == nil && !strings.Contains(want, "10 bytes") && !errors.Is(err, errBoom) {
			t.Errorf("%s does not wrap what it is of", err)
		}
	}
}

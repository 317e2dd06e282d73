package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

func TestCutResult(t *testing.T) {
	if got := ledger.CutResult(nil, 100); got != nil {
		t.Errorf("nil became %q", got)
	}
	if got := ledger.CutResult([]byte{}, 100); got == nil || len(got) != 0 {
		t.Errorf("empty became %#v", got)
	}
	whole := bytes.Repeat([]byte("x"), 100)
	if got := ledger.CutResult(whole, 100); !bytes.Equal(got, whole) {
		t.Errorf("at the limit: %q", got)
	}
	got := ledger.CutResult(append(whole, 'y'), 100)
	if len(got) != 100 || !bytes.HasSuffix(got, []byte("…[cut from 101 bytes]")) || !bytes.HasPrefix(got, whole[:50]) {
		t.Errorf("over the limit: %q", got)
	}
}

func TestAppendErrorKeepsTheFirstAndTheLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(3000, 16<<10).Draw(t, "limit")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		var list []ledger.AttemptError
		for i := range n {
			before := fmt.Sprint(list)
			length := rapid.IntRange(0, 5000).Draw(t, "length")
			next := ledger.AppendError(list, ledger.AttemptError{
				Attempt: i + 1, Kind: ledger.KindError, Error: strings.Repeat(rapid.SampledFrom([]string{"x", "é", "\xff", "\x00"}).Draw(t, "text"), length),
			}, limit)
			if fmt.Sprint(list) != before {
				t.Fatal("the list that was given changed")
			}
			list = next
			if last := list[len(list)-1]; last.Attempt != i+1 || len(last.Error) > 8<<10 || !utf8.ValidString(last.Error) {
				t.Fatalf("the latest error: attempt %d, %d bytes", last.Attempt, len(last.Error))
			}
			if len(list) > 1 && len(ledger.EncodeErrors(list)) > limit {
				t.Fatalf("%d bytes, limit %d", len(ledger.EncodeErrors(list)), limit)
			}
			if len(list) > 2 && list[0].Attempt > list[1].Attempt {
				t.Fatal("out of order")
			}
		}
		decoded, err := ledger.DecodeErrors(ledger.EncodeErrors(list))
		if err != nil || fmt.Sprint(decoded) != fmt.Sprint(list) {
			t.Fatalf("decoded %v, %v\nwant %v", decoded, err, list)
		}
	})
}

// An error's text of 2 KiB is kept whole, and a longer one says that it was cut.
func TestAppendErrorCutsLongTexts(t *testing.T) {
	for length, want := range map[int]string{2 << 10: "", 2<<10 + 1: "…"} {
		list := ledger.AppendError(nil, ledger.AttemptError{Error: strings.Repeat("x", length)}, 16<<10)
		if want = strings.Repeat("x", 2<<10) + want; list[0].Error != want {
			t.Errorf("of %d bytes, %d are kept, want %d", length, len(list[0].Error), len(want))
		}
	}
}

// TestPitfall71_ErrorsWithAbsurdTimes: a time that JSON refuses must not lose the list of errors.
func TestPitfall71_ErrorsWithAbsurdTimes(t *testing.T) {
	list := []ledger.AttemptError{{Attempt: 1, Error: "x", At: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	got, err := ledger.DecodeErrors(ledger.EncodeErrors(list))
	if err != nil || len(got) != 1 || got[0].Error != "x" || !got[0].At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if ledger.EncodeErrors(nil) != nil {
		t.Error("an empty list is stored as something")
	}
	if got, err := ledger.DecodeErrors(nil); got != nil || err != nil {
		t.Errorf("nothing decodes to %v, %v", got, err)
	}
	if _, err := ledger.DecodeErrors([]byte("{")); err == nil {
		t.Error("a damaged list was read")
	}
}

func TestArchiveSizeAndClone(t *testing.T) {
	a := ledger.Archive{
		Key: at("s", "log", 1, 2), Delivery: []byte("d"), Body: []byte("body"), Errors: []ledger.AttemptError{{Error: "x"}},
		Headers: []ledger.Header{{Name: "name", Value: []byte("value"), Type: "String"}, {Name: "nil"}},
	}
	if got := a.Size(); got != 4+4+5+6+3 {
		t.Errorf("size %d, want 22", got)
	}
	b := a.Clone()
	a.Key.Pos.Offset, a.Key.ID[0], a.Delivery[0], a.Body[0], a.Errors[0].Error, a.Headers[0].Value[0] = 9, 'X', 'X', 'X', "X", 'X'
	if b.Key.Pos.Offset != 2 || string(b.Key.ID) != "id" || string(b.Delivery) != "d" || string(b.Body) != "body" ||
		b.Errors[0].Error != "x" || string(b.Headers[0].Value) != "value" || b.Headers[1].Value != nil {
		t.Errorf("the copy shares bytes: %+v", b)
	}
}

func TestCheckEntry(t *testing.T) {
	good := ledger.Entry{Key: key("s", "a"), Delivery: []byte("d"), Window: time.Hour}
	if err := ledger.CheckEntry(&good); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*ledger.Entry){
		"Entry.Key.Scope": func(e *ledger.Entry) { e.Key.Scope = strings.Repeat("x", ledger.MaxScope+1) },
		"Entry.Key.ID":    func(e *ledger.Entry) { e.Key.ID = []byte{} },
		"Entry.Delivery":  func(e *ledger.Entry) { e.Delivery = make([]byte, ledger.MaxDelivery+1) },
		"Entry.Window":    func(e *ledger.Entry) { e.Window = ledger.MaxWindow + 1 },
		"Entry.Key.Pos":   func(e *ledger.Entry) { e.Key.Pos = &ledger.Position{Log: "", Offset: 1} },
	} {
		bad := good
		spoil(&bad)
		wantInvalid(t, ledger.CheckEntry(&bad), field)
	}
}

func TestCheckSettlement(t *testing.T) {
	limits := ledger.Limits{Archive: 10}
	ticket := ledger.NewTicket(key("s", "a").Sum(), 1)
	dead := func(change func(*ledger.Archive)) ledger.Settlement {
		a := &ledger.Archive{Key: key("s", "a"), Delivery: []byte("d"), Body: make([]byte, 10), Keep: time.Hour}
		change(a)
		return ledger.Settlement{Ticket: ticket, Kind: ledger.Fail, Dead: a}
	}
	for _, good := range []ledger.Settlement{
		dead(func(*ledger.Archive) {}), {Ticket: ticket, Kind: ledger.Succeed}, {Ticket: ticket, Kind: ledger.Release, After: ledger.MaxWindow},
		dead(func(a *ledger.Archive) { a.SentAt = time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC) }),
	} {
		if err := ledger.CheckSettlement(&good, limits); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for field, bad := range map[string]ledger.Settlement{
		"Settlement.Ticket": {Kind: ledger.Succeed},
		"Settlement.Kind":   {Ticket: ticket, Kind: 9},
		"Settlement.After":  {Ticket: ticket, Kind: ledger.Release, After: -1},
		"Settlement.Dead":   {Ticket: ticket, Kind: ledger.Fail},
		"Archive":           dead(func(a *ledger.Archive) { a.Headers = []ledger.Header{{Name: "x"}} }),
		"Archive.Delivery":  dead(func(a *ledger.Archive) { a.Delivery = nil }),
		"Archive.Key.Scope": dead(func(a *ledger.Archive) { a.Key.Scope = "" }),
		"Archive.Key.ID":    dead(func(a *ledger.Archive) { a.Key.ID = make([]byte, ledger.MaxID+1) }),
		"Archive.Keep":      dead(func(a *ledger.Archive) { a.Keep = 0 }),
	} {
		wantInvalid(t, ledger.CheckSettlement(&bad, limits), field)
	}
}

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var bad *ledger.InvalidError
	if !errors.As(err, &bad) || bad.Field != field || bad.Bound == "" || bad.Value == "" {
		t.Errorf("%v, want an InvalidError of %s", err, field)
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("connection reset")
	unknown, unusable := ledger.MarkUnknown(cause), ledger.MarkUnusable(cause)
	wrapped := fmt.Errorf("claim: %w", unknown)
	if !ledger.Unknown(wrapped) || !errors.Is(wrapped, cause) || ledger.Unusable(wrapped) || ledger.IsLost(wrapped) {
		t.Errorf("%v does not read as unknown", wrapped)
	}
	if !ledger.Unusable(unusable) || !errors.Is(unusable, cause) || ledger.Unknown(unusable) {
		t.Errorf("%v does not read as unusable", unusable)
	}
	if ledger.MarkUnknown(nil) != nil || ledger.MarkUnusable(nil) != nil {
		t.Error("nil became an error")
	}
	if ledger.MarkUnknown(wrapped).Error() != wrapped.Error() || ledger.MarkUnusable(unusable).Error() != unusable.Error() {
		t.Error("an error was marked twice")
	}
	if !ledger.IsLost(fmt.Errorf("beat: %w", ledger.ErrLost)) || ledger.IsLost(cause) || ledger.Unknown(nil) {
		t.Error("IsLost or Unknown is wrong")
	}
	invalid := &ledger.InvalidError{Field: "Entry.Window", Bound: "above 0", Value: "-1s", Err: cause}
	if got := invalid.Error(); got != "ledger: Entry.Window: must be above 0, is -1s: connection reset" || !errors.Is(invalid, cause) {
		t.Errorf("%s", got)
	}
}

func TestZeroValuesAreSafe(t *testing.T) {
	var (
		c ledger.Claim
		d ledger.Decision
		k ledger.SettleKind
		s ledger.State
	)
	if c.Answer != ledger.Busy || d.Answer != ledger.Busy || d.Write {
		t.Error("a zero answer runs or acknowledges")
	}
	if k.String() != "invalid" || s.String() != "invalid" || ledger.Answer(99).String() != "invalid" {
		t.Error("a zero kind or state has a meaning")
	}
	names := fmt.Sprint(ledger.Busy, ledger.Run, ledger.Done, ledger.Spent, ledger.Mismatch, ledger.Pending,
		ledger.Succeeded, ledger.Failed, ledger.Succeed, ledger.Fail, ledger.Release)
	if names != "busy run done spent mismatch pending succeeded failed succeed fail release" {
		t.Errorf("%s", names)
	}
}

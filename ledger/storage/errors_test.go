package storage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

func TestAppendErrorKeepsTheFirstAndTheLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(3000, 16<<10).Draw(t, "limit")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		var list []ledger.AttemptError
		for i := range n {
			before := fmt.Sprint(list)
			length := rapid.IntRange(0, 5000).Draw(t, "length")
			next := storage.AppendError(list, ledger.AttemptError{
				Attempt: i + 1, Kind: ledger.KindError, Error: strings.Repeat(rapid.SampledFrom([]string{"x", "é", "\xff", "\x00"}).Draw(t, "text"), length),
			}, limit)
			if fmt.Sprint(list) != before {
				t.Fatal("the list that was given changed")
			}
			list = next
			if last := list[len(list)-1]; last.Attempt != i+1 || len(last.Error) > 8<<10 || !utf8.ValidString(last.Error) {
				t.Fatalf("the latest error: attempt %d, %d bytes", last.Attempt, len(last.Error))
			}
			if len(list) > 1 && len(storage.EncodeErrors(list)) > limit {
				t.Fatalf("%d bytes, limit %d", len(storage.EncodeErrors(list)), limit)
			}
			if len(list) > 2 && list[0].Attempt > list[1].Attempt {
				t.Fatal("out of order")
			}
		}
		decoded, err := storage.DecodeErrors(storage.EncodeErrors(list))
		if err != nil || fmt.Sprint(decoded) != fmt.Sprint(list) {
			t.Fatalf("decoded %v, %v\nwant %v", decoded, err, list)
		}
	})
}

// An error's text of 2 KiB is kept whole, and a longer one says that it was cut.
func TestAppendErrorCutsLongTexts(t *testing.T) {
	for length, want := range map[int]string{2 << 10: "", 2<<10 + 1: "…"} {
		list := storage.AppendError(nil, ledger.AttemptError{Error: strings.Repeat("x", length)}, 16<<10)
		if want = strings.Repeat("x", 2<<10) + want; list[0].Error != want {
			t.Errorf("of %d bytes, %d are kept, want %d", length, len(list[0].Error), len(want))
		}
	}
}

// TestPitfall71_ErrorsWithAbsurdTimes: a time that JSON refuses must not lose the list of errors.
func TestPitfall71_ErrorsWithAbsurdTimes(t *testing.T) {
	list := []ledger.AttemptError{{Attempt: 1, Error: "x", At: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	got, err := storage.DecodeErrors(storage.EncodeErrors(list))
	if err != nil || len(got) != 1 || got[0].Error != "x" || !got[0].At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if storage.EncodeErrors(nil) != nil {
		t.Error("an empty list is stored as something")
	}
	if got, err := storage.DecodeErrors(nil); got != nil || err != nil {
		t.Errorf("nothing decodes to %v, %v", got, err)
	}
	if _, err := storage.DecodeErrors([]byte("{")); err == nil {
		t.Error("a damaged list was read")
	}
}

package storage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

const maxErrorText = 2 << 10

// AppendError appends one attempt's failure to a row's list, and keeps the encoded list within limit bytes: the text is
// cut to 2 KiB, and of a list that is too long the first entry and the latest ones stay.
func AppendError(list []ledger.AttemptError, e ledger.AttemptError, limit int) []ledger.AttemptError {
	e.Error = cutText(e.Error, maxErrorText)
	out := slices.Concat(list, []ledger.AttemptError{e})
	for len(out) > 1 && len(EncodeErrors(out)) > limit {
		at := min(1, len(out)-2) // of two the latest stays
		out = slices.Delete(out, at, at+1)
	}
	return out
}

func cutText(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// EncodeErrors gives the stored form of a list of errors: JSON; nil for an empty list.
func EncodeErrors(list []ledger.AttemptError) []byte {
	if len(list) == 0 {
		return nil
	}
	b, err := json.Marshal(list)
	if err != nil { // a time outside years 0-9999: the list is for people, so it is kept without the times
		plain := make([]ledger.AttemptError, len(list))
		for i, e := range list {
			e.At = time.Time{}
			plain[i] = e
		}
		b, _ = json.Marshal(plain)
	}
	return b
}

// DecodeErrors reads what EncodeErrors wrote.
func DecodeErrors(b []byte) ([]ledger.AttemptError, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var list []ledger.AttemptError
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("ledger: the stored list of errors cannot be read: %w", err)
	}
	return list, nil
}

// CutError bounds the text of an error, 2 KiB, and makes it UTF-8 without NUL.
func CutError(text string) string {
	return cutText(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"), maxErrorText)
}

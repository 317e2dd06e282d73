package operate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Kinds are all kinds of failure, those of messages first.
var Kinds = []ledger.FailureKind{
	ledger.KindTerminal, ledger.KindExhausted, ledger.KindMismatch, ledger.KindUncertain, ledger.KindInvalid, ledger.KindDeadline, ledger.KindDropped,
	ledger.KindError, ledger.KindPanic, ledger.KindGoexit, ledger.KindTimeout,
}

var momentForms = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

// Moment reads a time, which is UTC unless it says otherwise, or an age, which ends now.
func Moment(s string, now time.Time) (time.Time, error) {
	for _, form := range momentForms {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	age, err := Span(s)
	if err != nil {
		return time.Time{}, errors.New("must be a time such as 2026-11-20T15:04:05Z or 2026-11-20, or an age such as 90m or 2d")
	}
	return now.Add(-age), nil
}

// Span reads a duration above 0, in days (2d) or as Go writes it (90m).
func Span(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 64); err == nil && n > int64(ledger.MaxWindow/(24*time.Hour)) {
			err = fmt.Errorf("must be at most %s", Short(ledger.MaxWindow))
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err == nil && d <= 0 {
		err = errors.New("must be above 0")
	}
	return d, err
}

// Offsets reads a part of one Kafka partition: PARTITION:FIRST-LAST, or PARTITION:OFFSET.
func Offsets(s string) (*ledger.OffsetRange, error) {
	partition, part, ok := strings.Cut(s, ":")
	first, last, two := strings.Cut(part, "-")
	if !two {
		last = first
	}
	p, err1 := strconv.ParseInt(partition, 10, 32)
	from, err2 := strconv.ParseInt(first, 10, 64)
	to, err3 := strconv.ParseInt(last, 10, 64)
	if !ok || errors.Join(err1, err2, err3) != nil || p < 0 || from < 0 || to < from {
		return nil, errors.New("must be PARTITION:FIRST-LAST, such as 3:100-250")
	}
	return &ledger.OffsetRange{Partition: int32(p), First: from, Last: to}, nil
}

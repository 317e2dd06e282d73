package kafka

import (
	"testing"
	"time"
)

// The broker forgets a record when its retention is over: an attempt that would be due after that is the last one.
func TestDeadlineOfARecord(t *testing.T) {
	sent := time.Unix(1_800_000_000, 0)
	for keeps, want := range map[time.Duration]time.Duration{
		7 * 24 * time.Hour: 7*24*time.Hour - 5*time.Minute,
		10 * time.Minute:   9 * time.Minute,
	} {
		s := topicSource{keeps: keeps}
		if got := s.deadline(sent).Sub(sent); got != want {
			t.Errorf("retention %s: deadline after %s, want %s", keeps, got, want)
		}
	}
	if forever := (&topicSource{}).deadline(sent); !forever.IsZero() {
		t.Errorf("unlimited retention: deadline %s", forever)
	}
}

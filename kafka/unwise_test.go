package kafka

import (
	"strings"
	"testing"
	"time"
)

// The worker runs with settings that are allowed and unwise, and Health says which.
func TestUnwiseSettings(t *testing.T) {
	t.Parallel()
	s, c := fakeSite(t, 1), quick()
	c.Drain, c.MaxHeld = time.Minute, 8
	r := s.start(nothing, c)
	r.ready()
	got := r.Health().Warnings
	if len(got) != 2 || !strings.Contains(got[0], "Options.Drain: is 1m0s") || !strings.Contains(got[1], "Options.MaxHeld: is 8") {
		t.Errorf("Health says %q", got)
	}
	r.end()
}

package sqs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
)

// over says that nothing more is to come: polls bring nothing new, and the run has nothing in hand whose group others may
// wait behind.
func (s *ReplaySource) over(ctx context.Context) bool {
	s.mu.Lock()
	quiet, idle, held := s.quiet, s.open == 0, s.kept+s.young
	behind := s.removed > 0 && s.kept > 0 && time.Since(s.last) < s.hide+2*time.Second
	s.mu.Unlock()
	if !idle || quiet < 2*replayPollers {
		return false
	}
	if !behind || !strings.HasSuffix(s.url, ".fifo") {
		return true
	}
	n, err := s.size(ctx)
	return err != nil || n <= held
}

// look says what the run could not see.
func (s *ReplaySource) look(ctx context.Context) {
	rest, deleted, err := s.rest(ctx)
	for tries := 1; rest > 0 && tries < countTries && deleted; tries++ {
		engine.Sleep(ctx, time.Second)
		rest, deleted, err = s.rest(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.warnings = append(s.warnings, fmt.Sprintf("whether %s has more messages is not known: %v", s.url, err))
	}
	if rest > 0 {
		s.unread = int64(rest)
		s.warnings = append(s.warnings, fmt.Sprintf("%s says that it has about %d more messages: hidden by others or by a run "+
			"that was killed, in FIFO groups behind what is left, or just deleted and still counted; run again to see", s.url, rest))
	}
	if s.young > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("%d messages came to %s after the run had begun: they are the next run's", s.young, s.url))
	}
}

// countTries is how often, a second apart, a queue is asked that still counts more than the run has seen: what was just
// deleted stays in the count for a while.
const countTries = 10

// rest is how many messages the queue counts beside those that are left, and whether the run has deleted anything.
func (s *ReplaySource) rest(ctx context.Context) (n int, deleted bool, err error) {
	all, err := s.size(ctx)
	if err != nil {
		return 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return all - s.kept - s.young, s.removed > 0, nil
}

// Warnings says what the run could not see.
func (s *ReplaySource) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warnings
}

// Unread is, about, how many messages the queue says it has beside those that the run saw. SQS may count for a minute what was
// deleted: after ten seconds that is taken for unread, and the same call again finds that there is nothing.
func (s *ReplaySource) Unread() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread
}

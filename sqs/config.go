package sqs

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/visibility"
)

// Defaults of Config; docs/defaults.md says why.
const (
	DefaultVisibilityTimeout = 60 * time.Second
	DefaultWaitTime          = 10 * time.Second
	DefaultMaxPollers        = 10
)

// Bounds of SQS (developer guide, "Amazon SQS message quotas"; API reference, ReceiveMessage).
const (
	maxVisibility = 12 * time.Hour
	maxWait       = 20 * time.Second
	maxBatch      = visibility.MaxBatch
)

// minVisibility leaves time for an extension to fail once and be repeated.
const minVisibility = 2 * time.Second

// Config is what a worker is built of, beside the client, the queue and the ledger. The zero value of each field means
// its default.
//
// Options.Name is required. Options.MaxHeld and MaxHeldBytes bound what the worker holds; what polls that are open bring
// may pass MaxHeldBytes by MaxPollers times ten messages. Options.Window is by default the retention of the queue and of
// its dead-letter queue together: that of the redrive policy or that of Options.DeadLetter, whichever keeps for longer.
type Config struct {
	consumer.Options

	// VisibilityTimeout is how long a message stays hidden after this worker's process has died: whole seconds, 2 s to
	// 12 h, and at least a second more than WaitTime. Default 60 s. It is asked for with each receive, whatever the
	// queue's own setting, and extended every third of it while the message is in hand. For people who want a faster
	// take-over (shorter), or fewer requests (longer).
	VisibilityTimeout time.Duration
	// WaitTime is how long a poll waits for messages: whole seconds, 1 s to 20 s. Default 10 s, or half of
	// VisibilityTimeout if that is less. A shutdown waits for open polls. For people who want fewer requests on idle
	// queues (longer) or faster shutdowns (shorter).
	WaitTime time.Duration
	// MaxPollers is how many polls are open at once at most, 1 to 100. Default 10: as many as ten messages at a time fill
	// the handlers with. One is open while the queue is empty. As many batches of deletes, and at least 4, are under way
	// at once. For people with many, fast handlers.
	MaxPollers int
	// ParkGroups has a message group of a FIFO queue wait in the ledger with a retry that does (Options.ParkAfter): later messages of the
	// group are parked behind it, in their order. Before each message the worker asks the ledger about its group: a round trip. All
	// workers of the queue with this Options.Name must have it alike, since those without it run a group ahead of what is parked
	// of it. One without it that finds parked groups when it starts counts as having it. For people whose groups wait for longer than SQS's 12 hours, or who have many such groups.
	ParkGroups bool
}

// settings are a Config with its defaults.
type settings struct {
	Config
	givenKeep time.Duration // Options.Keep as the caller set it
}

func newSettings(c *Config) (settings, error) {
	c = cmp.Or(c, &Config{})
	s := settings{Config: *c, givenKeep: c.Keep}
	if s.Name == "" {
		return s, errors.New("sqs: Config.Name: must be 1 to 255 bytes, is empty: it is part of each message's identity")
	}
	var err error
	if s.Options, err = s.WithDefaults(); err != nil {
		return s, fmt.Errorf("sqs: Config: %w", err)
	}
	s.VisibilityTimeout = cmp.Or(s.VisibilityTimeout, DefaultVisibilityTimeout)
	s.WaitTime = cmp.Or(s.WaitTime, max(time.Second, min(DefaultWaitTime, (s.VisibilityTimeout/2).Truncate(time.Second))))
	s.MaxPollers = cmp.Or(s.MaxPollers, DefaultMaxPollers)
	return s, s.validate()
}

func (s *settings) validate() error {
	err := cmp.Or(
		inRange("VisibilityTimeout", s.VisibilityTimeout, minVisibility, maxVisibility),
		wholeSeconds("VisibilityTimeout", s.VisibilityTimeout),
		inRange("WaitTime", s.WaitTime, time.Second, maxWait),
		wholeSeconds("WaitTime", s.WaitTime),
		inRange("MaxPollers", s.MaxPollers, 1, 100),
	)
	if low := s.WaitTime + time.Second; err == nil && s.VisibilityTimeout < low {
		return fmt.Errorf("sqs: Config.VisibilityTimeout: must be at least %s (WaitTime and 1 s), is %s", low, s.VisibilityTimeout)
	}
	return err
}

func inRange[T ~int | ~int64](field string, v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("sqs: Config.%s: must be %v to %v, is %v", field, low, high, v)
	}
	return nil
}

// wholeSeconds refuses what SQS cannot be told.
func wholeSeconds(field string, d time.Duration) error {
	if d%time.Second != 0 {
		return fmt.Errorf("sqs: Config.%s: must be whole seconds, is %s", field, d)
	}
	return nil
}

package sim

import (
	"errors"
	"strings"
	"time"
)

// Bounds of the search for a smaller world.
const (
	tries      = 40 // seeds that each gets to break the same promise
	shrinkTime = time.Minute
)

// Shrink looks for the smallest world in which the same promise is broken, and returns its story: fewer workers, messages and kinds of
// trouble, until each of them is needed.
func Shrink(b *Broken) *Broken { return shrink(b, Run) }

func shrink(b *Broken, run func(Config) (Report, error)) *Broken {
	began := time.Now()
	for again := true; again; {
		again = false
		for _, smaller := range reductions {
			cfg := b.Config
			if smaller(&cfg); cfg == b.Config || time.Since(began) > shrinkTime {
				continue
			}
			if found := breaksToo(cfg, b.name(), run); found != nil {
				b, again = found, true
			}
		}
	}
	return b
}

// breaksToo looks for a seed with which a world breaks a promise.
func breaksToo(cfg Config, promise string, run func(Config) (Report, error)) *Broken {
	for range tries {
		_, err := run(cfg)
		if b, ok := errors.AsType[*Broken](err); ok && b.name() == promise {
			return b
		}
		cfg.Seed++
	}
	return nil
}

// name is the promise alone.
func (b *Broken) name() string {
	name, _, _ := strings.Cut(b.Promise, ":")
	return name
}

// reductions each make a world smaller, or leave it as it is.
var reductions = func() (all []func(*Config)) {
	for _, n := range []func(*Config) *int{
		func(c *Config) *int { return &c.Messages }, func(c *Config) *int { return &c.Workers }, func(c *Config) *int { return &c.Partitions },
		func(c *Config) *int { return &c.Concurrency },
	} {
		all = append(all, func(c *Config) { *n(c) = max(*n(c)/2, 1) }, func(c *Config) { *n(c) = max(*n(c)-1, 1) })
	}
	for _, n := range []func(*Config) *int{
		func(c *Config) *int { return &c.Batch }, func(c *Config) *int { return &c.Keys }, func(c *Config) *int { return &c.Failures },
		func(c *Config) *int { return &c.Budget }, func(c *Config) *int { return &c.Span }, func(c *Config) *int { return &c.Held },
		func(c *Config) *int { return &c.Steps }, func(c *Config) *int { return &c.Callers }, func(c *Config) *int { return &c.Least },
	} {
		all = append(all, func(c *Config) { *n(c) = 0 })
	}
	for _, is := range []func(*Config) *bool{
		func(c *Config) *bool { return &c.InTx }, func(c *Config) *bool { return &c.Ranged }, func(c *Config) *bool { return &c.Published },
		func(c *Config) *bool { return &c.Sealed }, func(c *Config) *bool { return &c.Park }, func(c *Config) *bool { return &c.LimitStarts },
		func(c *Config) *bool { return &c.KeepFailed }, func(c *Config) *bool { return &c.Mixed }, func(c *Config) *bool { return &c.Hours },
		func(c *Config) *bool { return &c.Refuse }, func(c *Config) *bool { return &c.Watched },
		func(c *Config) *bool { return &c.Ordered }, func(c *Config) *bool { return &c.Parks },
	} {
		all = append(all, func(c *Config) { *is(c) = false })
	}
	for k := range ruleKinds {
		all = append(all, func(c *Config) { c.Rules[k] = 0 })
	}
	for k := range kinds {
		all = append(all, func(c *Config) { c.Moods[k] = 0 })
	}
	return append(all,
		func(c *Config) { c.HoldMax = 0 }, func(c *Config) { c.Limit = 0 }, func(c *Config) { c.Visibility = 0 }, func(c *Config) { c.Pace = min(c.Pace, 3*time.Microsecond) },
	)
}()

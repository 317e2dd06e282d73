package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Scope keeps what is made once and used by several runs (a server, a topic with records, a filled table) until Close.
type Scope struct {
	mu     sync.Mutex
	values map[string]any
	undo   []func() error
	facts  []Fact
}

// Fact is one line about what the numbers were taken with: the machine, a server, a peer.
type Fact struct{ Name, Value string }

// Note adds a fact to the outcome; those of Run.All alone are kept.
func (s *Scope) Note(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = append(s.facts, Fact{name, value})
}

// Once returns the scope's value of that name, and makes it if there is none yet. make's second result undoes it; nil
// for nothing to undo. Runs come one after the other, so nothing is made twice; create may use the scope itself.
func Once[T any](s *Scope, name string, create func() (T, func() error, error)) (T, error) {
	s.mu.Lock()
	v, ok := s.values[name]
	s.mu.Unlock()
	if ok {
		return v.(T), nil
	}
	made, undo, err := create()
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string]any{}
	}
	s.values[name] = made
	if undo != nil {
		s.undo = append(s.undo, undo)
	}
	return made, nil
}

// Close undoes everything, the last thing first.
func (s *Scope) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	s.undo, s.values = nil, nil
	return errors.Join(errs...)
}

// Run is one measurement of one case.
type Run struct {
	N    int // how many messages
	Mode Mode
	All  *Scope // lives as long as the whole benchmark
	Of   *Scope // lives as long as the case's group

	own     Scope
	counted []counter
}

// counter is something that grows while a case runs.
type counter struct {
	name   string
	before int64
	read   func() (int64, error)
}

// Count has what read says, as far as it grows from now on, shown beside the case's rate, as so many a second of the same time.
func (r *Run) Count(name string, read func() (int64, error)) error {
	before, err := read()
	r.counted = append(r.counted, counter{name, before, read})
	return err
}

// counts adds what was counted to a result that has a rate.
func (r *Run) counts(res Result) error {
	for _, c := range r.counted {
		now, err := c.read()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if rate := res[Rate]; rate > 0 {
			res[c.name] = float64(now-c.before) * rate / float64(r.N)
		}
	}
	return nil
}

// Cleanup undoes something after the run, outside of the measured time. The last one added runs first.
func (r *Run) Cleanup(f func() error) {
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	r.own.undo = append(r.own.undo, f)
}

// measure runs the case once and cleans up.
func (c Case) measure(ctx context.Context, r *Run) (res Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	defer func() { err = errors.Join(err, r.own.Close()) }()
	if res, err = c.Run(ctx, r); err == nil {
		err = r.counts(res)
	}
	return res, err
}

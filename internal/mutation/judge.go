package main

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// What became of a mutant.
const (
	killed    = "killed"
	hung      = "hung" // a test ran into its time limit: killed, too
	survived  = "survived"
	unreached = "unreached" // no test comes by: survived, too
	equal     = "equal"     // survived, and is known to change nothing
)

// patience is how long tests with a mutant may take, beside three times what they take without.
const patience = 10 * time.Second

// chunkOf is how long the tests are, together, that run in one process: a mutant dies in the first, most often.
const chunkOf = 2 * time.Second

// judge runs the tests that reach a mutant until it dies, the fastest first, for as long as the budget lasts.
func judge(ctx context.Context, programs []*program, m *mutant, budget time.Duration) (string, error) {
	reached := false
	for _, pr := range programs {
		var names []string
		length := time.Duration(0)
		try := func() (string, error) {
			if len(names) == 0 {
				return survived, nil
			}
			_, err := pr.run(ctx, names, m.n, "", 3*length+patience)
			names, length = nil, 0
			return outcome(ctx, err)
		}
		for _, t := range pr.tests {
			if !t.reaches[m.n] {
				continue
			}
			if reached && t.took > budget {
				break
			}
			reached, budget = true, budget-t.took
			names, length = append(names, t.name), length+t.took
			if length < chunkOf {
				continue
			}
			if got, err := try(); got != survived {
				return got, err
			}
		}
		if got, err := try(); got != survived {
			return got, err
		}
	}
	if !reached {
		return unreached, nil
	}
	return survived, nil
}

func outcome(ctx context.Context, err error) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return survived, nil
	case failed && exit.ExitCode() == -1: // killed at its limit
		return hung, nil
	case failed:
		return killed, nil
	case errors.Is(err, exec.ErrWaitDelay):
		return hung, nil
	}
	return "", err
}

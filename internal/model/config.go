package model

import (
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// Broker is a kind of broker.
type Broker uint8

// The brokers.
const (
	// Queue is SQS-like: copies become visible again, are delivered again after their deletion, and are moved to a
	// dead-letter queue.
	Queue Broker = iota
	// Log is Kafka-like: one partition with a committed offset, which moves from worker to worker.
	Log
)

// Kind is how a message's handler behaves.
type Kind uint8

// The kinds.
const (
	Innocent Kind = iota // it succeeds, unless it is interrupted
	Flaky                // it may fail each time
	Killer               // it kills its process
)

// Copy is one more delivery of a message that is there at the start.
type Copy struct {
	Message int
	Other   bool // with another body
}

// Config is a small world: what there is, and how often which fault may happen. Workers and Messages are required; the
// zero value of each other field is a world without it.
type Config struct {
	Name     string
	Broker   Broker
	Workers  int    // at most 3
	Messages []Kind // at most 3
	Copies   []Copy // at most 8 with one of each message, less 3 for replays
	Watched  bool   // the ledger has no clock: who has seen the same beat for a lease declares its owner dead (watch.go)
	Tx       bool   // handlers run inside InTx
	Parks    bool   // retries wait in the ledger
	Park     bool   // the handlers' effects must not be repeated blindly
	Attempts int    // the limit; 0: 2
	// Crashed are the crashes that were counted for each message before the start; nil: none. One with as many as the limit
	// has failed, is archived, and has its dead letter.
	Crashed []int

	DeadLetters bool // failures are published, too
	Topic       bool // to a place that nothing is removed from
	Replays     int  // processes that replay, at most 2
	InPlace     bool // replays hand over to a worker's handler instead of sending
	FromArchive bool // they read the archive instead of the dead letters

	Crashes    int // of processes; those of killers are free
	Leases     int // a live worker's lease runs out: it was frozen, or cut off
	Losses     int // answers, and statements, that are lost
	Lates      int // statements that execute after the client gave them up, or after its process died
	Dups       int // copies that come again while somebody has them, or after their deletion
	Rebalances int
	Exits      int // processes that end in order, with work in hand
	Moves      int // copies that the broker moves to the dead-letter queue by itself
	Failures   int // of publishing

	Off []Guard // guards taken out
}

// check refuses a world that does not fit.
func (c *Config) check() error {
	killers, own := 0, 0
	if c.Parks {
		own = len(c.Messages)
	}
	for _, k := range c.Messages {
		if k == Killer {
			killers++
		}
	}
	for _, b := range []struct {
		field string
		value int
		least int
		most  int
	}{
		{"Workers", c.Workers, 1, maxWorkers},
		{"Messages", len(c.Messages), 1, maxMessages},
		{"Copies", len(c.Messages) + len(c.Copies) + own, 1, maxCopies - spareCopies},
		{"Replays", c.Replays, 0, maxReplays},
		{"Attempts", c.Attempts, 0, 100},
		{"Messages: killers", killers, 0, 1},
	} {
		if b.value < b.least || b.value > b.most {
			return fmt.Errorf("model: Config.%s must be from %d to %d, is %d", b.field, b.least, b.most, b.value)
		}
	}
	names := [budgets]string{"Crashes", "Leases", "Losses", "Lates", "Dups", "Rebalances", "Exits", "Moves", "Failures"}
	for i, n := range c.budgets() {
		if n < 0 || n > 100 {
			return fmt.Errorf("model: Config.%s must be from 0 to 100, is %d", names[i], n)
		}
	}
	if len(c.Crashed) > len(c.Messages) {
		return fmt.Errorf("model: Config.Crashed must be for %d messages at most, is for %d", len(c.Messages), len(c.Crashed))
	}
	for _, extra := range c.Copies {
		if extra.Message < 0 || extra.Message >= len(c.Messages) {
			return fmt.Errorf("model: Config.Copies: Message must be one of %d, is %d", len(c.Messages), extra.Message)
		}
	}
	return nil
}

func (c *Config) budgets() [budgets]int {
	return [budgets]int{
		crashes: c.Crashes, leases: c.Leases, losses: c.Losses, lates: c.Lates, dups: c.Dups, rebalances: c.Rebalances,
		exits: c.Exits, moves: c.Moves, failures: c.Failures,
	}
}

func (c *Config) attempts() int {
	if c.Attempts == 0 {
		return 2
	}
	return c.Attempts
}

// harmless says whether the faults are too few to make an innocent message look like a killer: each counts at most one
// crash for it, and a killer two.
func (c *Config) harmless() bool {
	before := make([]int, len(c.Messages))
	copy(before, c.Crashed)
	killers, worst := 0, 0
	for m, k := range c.Messages {
		if k == Killer {
			killers += max(ledger.SuspectCrashes-before[m], 0)
		} else {
			worst = max(worst, before[m])
		}
	}
	return c.Crashes+c.Leases+killers+worst < ledger.CrashLimit
}

// countsKills says whether each process that a message kills is a crash that is counted for it: nothing but their deaths ends
// claims, and nothing begins anew.
func (c *Config) countsKills() bool {
	return c.Watched && c.Leases+c.Exits+c.Replays+len(c.Copies) == 0
}

// initial is the state in which everything is up and nobody has joined.
func (c *Config) initial() state {
	var s state
	for m := range c.Messages {
		s.Copies[s.Next] = copied{Message: uint8(m), Place: waiting}
		s.Next++
	}
	for _, extra := range c.Copies {
		s.Copies[s.Next] = copied{Message: uint8(extra.Message), Place: waiting}
		if extra.Other {
			s.Copies[s.Next].Other = 1
		}
		s.Next++
	}
	if c.Parks {
		for m := range c.Messages {
			s.Copies[s.Next] = copied{Message: uint8(m), Own: inCare}
			s.Next++
		}
	}
	for m, n := range c.Crashed {
		c.crashed(&s, uint8(m), uint8(n))
	}
	for w := range c.Workers {
		s.Workers[w].Up = 1
	}
	for i, n := range c.budgets() {
		s.Left[i] = uint8(n)
	}
	return s
}

// crashed is a message whose processes have died before the start.
func (c *Config) crashed(s *state, m, n uint8) {
	if n == 0 {
		return
	}
	s.Deaths = max(s.Deaths, n)
	s.Rows[m] = row{State: ledger.Pending, Token: n, Crashes: n}
	if n < ledger.CrashLimit {
		return
	}
	s.Rows[m].State, s.Rows[m].Failed = ledger.Failed, m+1
	s.Archive[m] = n
	if s.Copies[m].Place = deleted; c.DeadLetters {
		s.Letters[m] = letter{Used: 1, Message: m, Token: n, Copy: m}
	}
}

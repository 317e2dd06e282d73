package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// childVariable holds the script of a second process.
const childVariable = "ACKLEDGER_LEDGERTEST_CHILD"

// What a second process does.
const (
	// doHold claims every message, says so, and beats until it is killed.
	doHold = "hold"
	// doFreeze claims every message, and stays inside InTx of each, after its effect, until it is killed.
	doFreeze = "freeze"
	// doWork claims, has one effect for each message, and settles, until every message is done.
	doWork = "work"
	// doMaintain maintains in small transactions, and says what each pass did, until it is killed.
	doMaintain = "maintain"
	// doWatch beats with reports, and says which pauses it knows of whenever they change, until it is killed.
	doWatch = "watch"
)

// script is what a second process is told.
type script struct {
	DSN   string
	Do    string
	Keys  []ledger.Key
	IDs   []string // of the same messages: their bodies
	Lease time.Duration

	Ranged bool
}

// event is one line that a second process writes.
type event struct {
	Do     string              // joined, claimed, inside, handled, done, maintaining, pass, pauses, failed
	Owner  string              `json:",omitempty"`
	Runs   int                 `json:",omitempty"`
	Error  string              `json:",omitempty"`
	Report *ledger.SweepReport `json:",omitempty"`
	Scopes []string            `json:",omitempty"`
}

// Main is called from the TestMain of a store that has second processes. In a process that a test of this package
// started, it plays the scripted worker that the test asked for, on the store that open returns for the test's DSN,
// and exits; else it runs the tests, and then what is in after: for stores that share something between tests. open
// needs to fill in Ledger, and InTx and Effect if the store has them.
func Main(m *testing.M, open func(ctx context.Context, dsn string) (Store, io.Closer, error), after ...func()) {
	text := os.Getenv(childVariable)
	if text == "" {
		code := m.Run()
		for _, end := range after {
			end()
		}
		os.Exit(code)
	}
	if err := play(text, open); err != nil {
		say(event{Do: "failed", Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

func say(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", line)
}

func play(text string, open func(context.Context, string) (Store, io.Closer, error)) error {
	var s script
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("the script: %w", err)
	}
	// A child that nobody kills ends by itself: its parent may be gone.
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	store, closer, err := open(ctx, s.DSN)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = closer.Close() }()
	c := &child{Store: store, script: s, ctx: ctx}
	switch s.Do {
	case doHold:
		return c.hold()
	case doFreeze:
		return c.freeze()
	case doWork:
		return c.work()
	case doMaintain:
		return c.maintain()
	case doWatch:
		return c.watch()
	}
	return fmt.Errorf("unknown script %q", s.Do)
}

// child is a scripted worker.
type child struct {
	Store
	script script
	ctx    context.Context
	owner  ledger.Owner
}

func (c *child) entries() []ledger.Entry {
	out := make([]ledger.Entry, len(c.script.IDs))
	for i, id := range c.script.IDs {
		out[i] = ledger.Entry{
			Key: c.script.Keys[i], Fingerprint: ledger.BodyFingerprint([]byte(id)), Delivery: []byte(id + "#1"),
			Window: window, Solo: true, Ranged: c.script.Ranged,
		}
	}
	return out
}

func (c *child) join() (err error) {
	if c.owner, err = c.Ledger.Join(c.ctx, c.script.Lease); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	say(event{Do: "joined", Owner: c.owner.ID()})
	return nil
}

// claim joins and claims all.
func (c *child) claim() ([]ledger.Claim, error) {
	if err := c.join(); err != nil {
		return nil, err
	}
	claims, err := c.owner.Claim(c.ctx, c.entries())
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	runs := 0
	for _, claim := range claims {
		if claim.Answer == ledger.Run {
			runs++
		}
	}
	say(event{Do: "claimed", Owner: c.owner.ID(), Runs: runs})
	return claims, nil
}

func (c *child) hold() error {
	if _, err := c.claim(); err != nil {
		return err
	}
	tick := time.NewTicker(c.script.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := c.owner.Beat(c.ctx); err != nil {
				return fmt.Errorf("beat: %w", err)
			}
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

func (c *child) freeze() error {
	claims, err := c.claim()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(claims))
	for i, claim := range claims {
		wg.Go(func() {
			ctx := ledger.WithAttempt(c.ctx, ledger.NewAttempt(c.owner, claim.Ticket))
			errs[i] = c.InTx(ctx, func(ctx context.Context) error {
				if err := c.Effect(ctx, c.entries()[i].Key.String()); err != nil {
					return err
				}
				say(event{Do: "inside"})
				<-ctx.Done()
				return ctx.Err()
			})
		})
	}
	wg.Wait()
	return firstError(errs, nil)
}

// work claims, runs and settles until every message is done, and joins anew when it lost its lease.
func (c *child) work() error {
	if err := c.join(); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := c.workOnce()
		if ledger.IsLost(err) {
			err = c.join()
		}
		if err != nil {
			return err
		}
		if done == len(c.script.IDs) {
			say(event{Do: "done"})
			return c.owner.Leave(c.ctx)
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

// workOnce beats, and handles a few messages; it returns how many are done.
func (c *child) workOnce() (done int, err error) {
	if _, err := c.owner.Beat(c.ctx); err != nil {
		return 0, err
	}
	entries := c.entries()
	for from := 0; from < len(entries); from += 10 {
		claims, err := c.owner.Claim(c.ctx, entries[from:min(from+10, len(entries))])
		if err != nil {
			return 0, err
		}
		for i, claim := range claims {
			switch claim.Answer {
			case ledger.Done:
				done++
			case ledger.Run, ledger.Spent: // killed on purpose, so a spent one runs on here
				if err := c.handle(entries[from+i], claim); err != nil {
					return 0, err
				}
				say(event{Do: "handled"})
			}
		}
	}
	return done, nil
}

func (c *child) handle(m ledger.Entry, claim ledger.Claim) error {
	if c.InTx != nil {
		ctx := ledger.WithAttempt(c.ctx, ledger.NewAttempt(c.owner, claim.Ticket))
		return c.InTx(ctx, func(ctx context.Context) error { return c.Effect(ctx, m.Key.String()) })
	}
	errs, err := c.owner.Settle(c.ctx, []ledger.Settlement{succeed(claim)})
	return firstError(errs, err)
}

func (c *child) watch() error {
	if err := c.join(); err != nil {
		return err
	}
	b := ledger.BoardedOf(c.owner)
	b.Report(ledger.WorkerReport{PID: os.Getpid(), Started: time.Now()})
	tick := time.NewTicker(c.script.Lease / 3)
	defer tick.Stop()
	var known []string
	for {
		if _, err := c.owner.Beat(c.ctx); err != nil {
			return fmt.Errorf("beat: %w", err)
		}
		if now := scopesOf(b.Pauses()); !slices.Equal(now, known) {
			known = now
			say(event{Do: "pauses", Scopes: known})
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

func (c *child) maintain() error {
	m, ok := c.Ledger.(ledger.Maintainer)
	if !ok {
		return fmt.Errorf("%T is no ledger.Maintainer", c.Ledger)
	}
	say(event{Do: "maintaining"})
	return m.Maintain(c.ctx, ledger.MaintainConfig{Interval: time.Millisecond, Batch: 100, Report: func(r ledger.SweepReport) {
		say(event{Do: "pass", Report: &r})
	}})
}

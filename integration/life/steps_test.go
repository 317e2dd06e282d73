package life_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// Variables of a child process that makes an order's calls. In the gap that is named it ends or stops itself.
const (
	stepsLedger = "ACKLEDGER_LIFE_LEDGER" // a PostgreSQL URL, or the path of a SQLite file
	stepsOrder  = "ACKLEDGER_LIFE_ORDER"
	stepsLog    = "ACKLEDGER_LIFE_LOG" // where it writes what it has done, line by line
	stepsGap    = "ACKLEDGER_LIFE_GAP"
	stepsSignal = "ACKLEDGER_LIFE_SIGNAL" // SIGKILL or SIGSTOP
)

// stepsPatience bounds a process, and what is waited for.
const stepsPatience = 90 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(stepsLedger) == "" {
		os.Exit(m.Run())
	}
	if err := orderOnce(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var calls = []string{"charge", "ship", "notify"}

// gaps are the places between two lines of the order's function, and of the ledger's part in it.
func gaps() []string {
	list := []string{"begin"}
	for _, name := range calls {
		list = append(list, "called-"+name, "asked-"+name, "recorded-"+name, "returned-"+name)
	}
	return list
}

// gap ends or stops the process where it is told to.
func gap(name string) {
	if os.Getenv(stepsGap) != name {
		return
	}
	send := syscall.SIGKILL
	goesOn := make(chan os.Signal, 1)
	if os.Getenv(stepsSignal) == "SIGSTOP" {
		send = syscall.SIGSTOP
		signal.Notify(goesOn, syscall.SIGCONT)
		note("stopping")
	}
	if err := syscall.Kill(os.Getpid(), send); err != nil {
		panic(err)
	}
	<-goesOn // the signal is on its way
}

// note appends one line to the log, in one write.
func note(line string) {
	f, err := os.OpenFile(os.Getenv(stepsLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// observed is a ledger whose owners pass the gaps before and behind each recording.
type observed struct{ ledger.Ledger }

func (l observed) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	return observedOwner{o}, err
}

type observedOwner struct{ ledger.Owner }

func (o observedOwner) Unwrap() ledger.Owner { return o.Owner }

func (o observedOwner) Settle(ctx context.Context, s []ledger.Settlement) ([]error, error) {
	name := ""
	if s[0].Kind == ledger.RecordStep {
		name = s[0].Step.Name
		gap("asked-" + name)
	}
	errs, err := o.Owner.Settle(ctx, s)
	if name != "" && err == nil && errs[0] == nil {
		note("recorded " + name)
		gap("recorded-" + name)
	}
	return errs, err
}

// orderOnce does the order's work under one key, until the ledger says that it is done.
func orderOnce() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepsPatience)
	defer cancel()
	l, closer, err := openOrders(ctx, os.Getenv(stepsLedger))
	if err != nil {
		return err
	}
	defer func() { _ = closer() }()
	r, err := idempotency.New(observed{l}, idempotency.Options{Name: "orders", Lease: time.Second, NoMaintenance: true})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	for {
		if _, err = r.Do(ctx, idempotency.Request{Scope: "orders", Key: os.Getenv(stepsOrder)}, order); err == nil || ctx.Err() != nil {
			break
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

func openOrders(ctx context.Context, at string) (ledger.Ledger, func() error, error) {
	if strings.HasPrefix(at, "postgres") {
		return openPostgres(ctx, at)
	}
	l, err := sqlite.Open(ctx, at, nil)
	if err != nil {
		return nil, nil, err
	}
	return l, l.Close, nil
}

// order charges, ships and notifies: each a call of a service outside, which writes down the key that it was given.
func order(ctx context.Context) (idempotency.Result, error) {
	gap("begin")
	for _, name := range calls {
		_, err := consumer.Step(ctx, name, func(_ context.Context, key string) (string, error) {
			note("call " + name + " " + key)
			gap("called-" + name)
			return "done", nil
		})
		if ledger.IsLost(err) {
			note("lost " + name)
		}
		if err != nil {
			return idempotency.Result{}, idempotency.Release(err)
		}
		gap("returned-" + name)
	}
	note("finished")
	return idempotency.Result{Body: []byte("done")}, nil
}

// orderProcess is a process that does the order of an id.
type orderProcess struct {
	at, id, log string
}

// start starts it. In the gap it gets the signal.
func (p orderProcess) start(ctx context.Context, gap, signal string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), stepsLedger+"="+p.at, stepsOrder+"="+p.id, stepsLog+"="+p.log, stepsGap+"="+gap, stepsSignal+"="+signal)
	cmd.Stderr = os.Stderr
	return cmd, cmd.Start()
}

// run runs it to its end.
func (p orderProcess) run(ctx context.Context, gap, signal string) error {
	cmd, err := p.start(ctx, gap, signal)
	if err == nil {
		err = cmd.Wait()
	}
	return err
}

// lines is what it has done.
func (p orderProcess) lines() []string {
	text, err := os.ReadFile(p.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return []string{err.Error()}
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// check checks what the services saw: each call was made, always with one key, and never once its result was recorded.
func (p orderProcess) check() (err error) {
	lines := p.lines()
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	keys, recorded := map[string]string{}, map[string]int{}
	for _, line := range lines {
		what, rest, _ := strings.Cut(line, " ")
		name, key, _ := strings.Cut(rest, " ")
		switch what {
		case "recorded":
			recorded[name]++
		case "call":
			if recorded[name] > 0 {
				wrong("%s was called after its result was recorded", name)
			}
			if keys[name] != "" && keys[name] != key {
				wrong("%s was called with the keys %s and %s", name, keys[name], key)
			}
			keys[name] = key
		}
	}
	for _, name := range calls {
		if keys[name] == "" || recorded[name] > 1 {
			wrong("%s: key %q, recorded %d times", name, keys[name], recorded[name])
		}
	}
	if !slices.Contains(lines, "finished") {
		wrong("the order is not finished")
	}
	if err != nil {
		wrong("%s: %q", p.id, lines)
	}
	return err
}

// onOrders runs a test on both ledgers.
func onOrders(t *testing.T, test func(t *testing.T, at string)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "ledger.db"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := services.Postgres(t)
		conn, err := pgx.ParseConfig(db.URL)
		if err == nil {
			err = postgres.Migrate(t.Context(), conn, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		test(t, db.URL)
	})
}

// TestStepsKilled kills a process with SIGKILL in each gap of an order's calls. Another one finishes the order, and repeats no call whose
// result was recorded. Each has to wait for the end of a lease, so they go at once.
func TestStepsKilled(t *testing.T) {
	t.Parallel()
	onOrders(t, func(t *testing.T, at string) {
		dir := t.TempDir()
		var all errgroup.Group
		all.SetLimit(8)
		for _, gap := range gaps() {
			p := orderProcess{at: at, id: gap, log: filepath.Join(dir, gap)}
			all.Go(func() error {
				err := p.run(t.Context(), gap, "SIGKILL")
				if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					return fmt.Errorf("%s: ended with %w, want by SIGKILL: %q", gap, err, p.lines())
				}
				if err := p.run(t.Context(), "", ""); err != nil {
					return fmt.Errorf("%s: who came after: %w", gap, err)
				}
				return p.check()
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestStepsStale freezes a process within a call, until another one has taken over and finished the order. What the first then wants to
// record is refused.
func TestStepsStale(t *testing.T) {
	t.Parallel()
	onOrders(t, func(t *testing.T, at string) {
		p := orderProcess{at: at, id: "stale", log: filepath.Join(t.TempDir(), "log")}
		stale, err := p.start(t.Context(), "called-ship", "SIGSTOP")
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(stepsPatience); !slices.Contains(p.lines(), "stopping"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it does not stop: %q", p.lines())
			}
		}
		if err := p.run(t.Context(), "", ""); err != nil {
			t.Fatalf("who took over: %v", err)
		}
		if err := stale.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := stale.Wait(); err != nil {
			t.Fatalf("the stale one: %v", err)
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		if lines := p.lines(); !slices.Contains(lines, "lost ship") {
			t.Errorf("the stale process was not told: %q", lines)
		}
	})
}

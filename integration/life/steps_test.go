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

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/integration/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// Variables of a child process that makes an order's calls. In the gap that is named it ends or stops itself.
const (
	stepsLedger = "ACKLEDGER_LIFE_LEDGER" // a PostgreSQL URL, or the path of a SQLite file
	stepsLog    = "ACKLEDGER_LIFE_LOG"    // where it writes what it has done, line by line
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
	r, err := idempotency.New(observed{l}, idempotency.Options{Name: "orders", Lease: 2 * time.Second, NoMaintenance: true})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	for {
		if _, err = r.Do(ctx, idempotency.Request{Scope: "orders", Key: "order-1"}, order); err == nil || ctx.Err() != nil {
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

// orderProcess starts a process that does the order.
func orderProcess(t *testing.T, at, log, gap, signal string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), stepsLedger+"="+at, stepsLog+"="+log, stepsGap+"="+gap, stepsSignal+"="+signal)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func logged(t *testing.T, log string) []string {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// checkOrder checks what the services saw: each call was made, always with one key, and never once its result was recorded.
func checkOrder(t *testing.T, lines []string) {
	t.Helper()
	keys, recorded := map[string]string{}, map[string]int{}
	for _, line := range lines {
		what, rest, _ := strings.Cut(line, " ")
		name, key, _ := strings.Cut(rest, " ")
		switch what {
		case "recorded":
			recorded[name]++
		case "call":
			if recorded[name] > 0 {
				t.Errorf("%s was called after its result was recorded", name)
			}
			if keys[name] != "" && keys[name] != key {
				t.Errorf("%s was called with the keys %s and %s", name, keys[name], key)
			}
			keys[name] = key
		}
	}
	for _, name := range calls {
		if keys[name] == "" || recorded[name] > 1 {
			t.Errorf("%s: key %q, recorded %d times", name, keys[name], recorded[name])
		}
	}
	if !slices.Contains(lines, "finished") || t.Failed() {
		t.Errorf("the order: %q", lines)
	}
}

// onOrders runs a test on both ledgers, each with a place for its log.
func onOrders(t *testing.T, test func(t *testing.T, open func(t *testing.T) (at, log string))) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T) (string, string) {
			dir := t.TempDir()
			return filepath.Join(dir, "ledger.db"), filepath.Join(dir, "log")
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T) (string, string) {
			db := services.Postgres(t)
			conn, err := pgx.ParseConfig(db.URL)
			if err == nil {
				err = postgres.Migrate(t.Context(), conn, "")
			}
			if err != nil {
				t.Fatal(err)
			}
			return db.URL, filepath.Join(t.TempDir(), "log")
		})
	})
}

// TestStepsKilled kills a process with SIGKILL in each gap of an order's calls. Another one finishes the order, and repeats no call whose
// result was recorded.
func TestStepsKilled(t *testing.T) {
	t.Parallel()
	onOrders(t, func(t *testing.T, open func(t *testing.T) (at, log string)) {
		for _, gap := range gaps() {
			t.Run(gap, func(t *testing.T) {
				t.Parallel()
				at, log := open(t)
				killed := orderProcess(t, at, log, gap, "SIGKILL").Wait()
				exit, ok := errors.AsType[*exec.ExitError](killed)
				if status, is := exit.Sys().(syscall.WaitStatus); !ok || !is || status.Signal() != syscall.SIGKILL {
					t.Fatalf("ended with %v, want by SIGKILL: %q", killed, logged(t, log))
				}
				if err := orderProcess(t, at, log, "", "").Wait(); err != nil {
					t.Fatalf("who came after: %v", err)
				}
				checkOrder(t, logged(t, log))
			})
		}
	})
}

// TestStepsStale freezes a process within a call, until another one has taken over and finished the order. What the first then wants to
// record is refused.
func TestStepsStale(t *testing.T) {
	t.Parallel()
	onOrders(t, func(t *testing.T, open func(t *testing.T) (at, log string)) {
		at, log := open(t)
		stale := orderProcess(t, at, log, "called-ship", "SIGSTOP")
		for deadline := time.Now().Add(stepsPatience); !slices.Contains(logged(t, log), "stopping"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it does not stop: %q", logged(t, log))
			}
		}
		if err := orderProcess(t, at, log, "", "").Wait(); err != nil {
			t.Fatalf("who took over: %v", err)
		}
		if err := stale.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := stale.Wait(); err != nil {
			t.Fatalf("the stale one: %v", err)
		}
		lines := logged(t, log)
		checkOrder(t, lines)
		if !slices.Contains(lines, "lost ship") {
			t.Errorf("the stale process was not told: %q", lines)
		}
	})
}

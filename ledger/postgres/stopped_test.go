package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// sweeperVariable holds the URL of the ledger that a second process sweeps.
const sweeperVariable = "ACKLEDGER_POSTGRES_SWEEPER"

// sweeperName is what the second process calls its sessions.
const sweeperName = "the_sweeper"

// playSweeper sweeps without a pause, in small transactions, and says what went wrong, until it is killed.
func playSweeper(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // the test may be gone
	defer cancel()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := postgres.New(ctx, pool, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	for ctx.Err() == nil {
		if _, err := l.Sweep(ctx, ledger.MaintainConfig{Batch: 100}); err != nil {
			fmt.Println(err)
		}
	}
	return ctx.Err()
}

// sweeper is the second process, and the bench that it sweeps.
type sweeper struct {
	*bench
	process *os.Process
	lines   chan string // what it says; closed when it has ended
}

func startSweeper(t *testing.T, b *bench) *sweeper {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), sweeperVariable+"="+services.WithParameter(t, b.url, "application_name", sweeperName))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &sweeper{bench: b, process: cmd.Process, lines: make(chan string, 1000)}
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- lines.Text()
		}
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = s.process.Kill() // it may have ended by itself
		for line := range s.lines {
			t.Errorf("the sweeper says: %s", line)
		}
	})
	return s
}

func (s *sweeper) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.process.Signal(sig); err != nil {
		t.Fatalf("%v: %v", sig, err)
	}
}

// stop stops it at a random moment of a statement like that, with the turn in its hands.
func (s *sweeper) stop(t *testing.T, statement string, while func()) {
	t.Helper()
	for {
		poll(t, "it sweeps: "+statement, func() bool {
			return s.number(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
				AND application_name = '`+sweeperName+`' AND query LIKE '%`+statement+`%'`) > 0
		})
		timer := time.NewTimer(rand.N(8 * time.Millisecond))
		<-timer.C
		s.signal(t, syscall.SIGSTOP)
		while()
		poll(t, "its last statement is over, and no transaction of it is open", func() bool {
			return s.number(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = '`+sweeperName+`'
				AND (state <> 'idle' OR state_change > clock_timestamp() - interval '50 ms')`) == 0
		})
		if s.number(t, "SELECT count(*) FROM ackledger.maintenance WHERE holder IS NOT NULL AND lease_end > clock_timestamp()") == 1 {
			return
		}
		s.signal(t, syscall.SIGCONT) // it was between two passes
	}
}

// work claims and settles fresh rows, and records in logs that the sweep locks, as another process does.
func (s *sweeper) work(t *testing.T, o ledger.Owner, round string, offset int64) (done []ledger.Entry) {
	t.Helper()
	for log := range 2 {
		rows := manyEntries(fmt.Sprint(round, " ", log, " "), 20)
		ranged := records("s", 60*log, offset, 20)
		for _, entries := range [][]ledger.Entry{rows, ranged} {
			began := time.Now()
			succeedAll(t, o, claimsOf(t, o, entries, ledger.Run))
			if took := time.Since(began); took > 5*time.Second { // milliseconds, on a machine that has nothing else to do
				t.Errorf("round %s: a claim and settle beside a sweeper that is stopped took %s", round, took)
			}
			done = append(done, entries...)
		}
	}
	return done
}

// lost waits until it says that its turn was lost.
func (s *sweeper) lost(t *testing.T) {
	t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok || !strings.Contains(line, "the turn to sweep was lost to another process") {
			t.Errorf("it woke up and said: %s", line)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it woke up, and does not say that its turn was lost")
	}
}

// TestStoppedSweeper: a sweeper that is stopped (SIGSTOP) wherever it is keeps nobody waiting, loses its turn with its lease,
// and when it wakes up it removes nothing.
func TestStoppedSweeper(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, `CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_sleep(TG_ARGV[0]::double precision); RETURN NULL; END $$`)
	for table, seconds := range map[string]string{"message": "0.005", "segment": "0.005", "archive": "0.03"} { // with all its locks
		b.exec(t, "CREATE TRIGGER linger AFTER DELETE ON ackledger."+table+" FOR EACH STATEMENT EXECUTE FUNCTION linger("+seconds+")")
	}
	fillMessages(t, b, 500, time.Hour)
	o := join(t, b, time.Minute)
	e := entry("archived")
	if err := settleOne(t, o, failed(e, claimOne(t, o, e, ledger.Run))); err != nil {
		t.Fatal(err)
	}
	for log := range 120 {
		succeedAll(t, o, claimsOf(t, o, records("s", log, 0, 3), ledger.Run))
	}
	s := startSweeper(t, b)
	var done []ledger.Entry
	rounds := []string{"sweep_message", "sweep_log", "", "sweep_message", "sweep_log", "sweep_archive", "", "sweep_message", "sweep_log", ""}
	for i, statement := range rounds {
		fillMessages(t, b, 1000, -time.Hour)
		s.stop(t, statement, func() { done = append(done, s.work(t, o, fmt.Sprint(i, " ", len(done)), int64(100+len(done)))...) })
		s.takeTurn(t)
		fillMessages(t, b, 300, -time.Hour)
		if _, err := o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.signal(t, syscall.SIGCONT)
		s.lost(t)
		if n := b.number(t, "SELECT count(*) FROM ackledger.message WHERE expiry < now()"); n != 300 {
			t.Errorf("round %d: it woke up without its turn, and removed %d messages", i, 300-n)
		}
		b.exec(t, "UPDATE ackledger.maintenance SET holder = NULL, lease_end = '-infinity'")
	}
	poll(t, "it sweeps on when it is its turn", func() bool {
		return b.number(t, "SELECT count(*) FROM ackledger.message WHERE expiry < now()") == 0
	})
	claimsOf(t, o, done, ledger.Done)
	if n, rows := b.number(t, "SELECT count(*) FROM ackledger.message"), 501+len(done)/2; n != rows {
		t.Errorf("%d messages are there, want %d", n, rows)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.archive"); n != 1 {
		t.Errorf("%d archived deliveries are there, want 1", n)
	}
}

// takeTurn ends the lease of the sweeper that is stopped, sweeps, and takes the turn for the test, so that the sweeper finds
// none when it wakes up.
func (s *sweeper) takeTurn(t *testing.T) {
	t.Helper()
	began := time.Now()
	s.exec(t, "UPDATE ackledger.maintenance SET lease_end = now() - interval '1 second'")
	r, err := s.Sweep(t.Context(), ledger.MaintainConfig{})
	if err != nil {
		t.Fatalf("the sweep of another process: %+v, %v", r, err)
	}
	if n := s.number(t, "SELECT count(*) FROM ackledger.message WHERE expiry < now()"); n != 0 {
		t.Errorf("the sweep of another process left %d messages that had expired", n)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the sweep of another process took %s", took)
	}
	s.exec(t, "UPDATE ackledger.maintenance SET holder = 2, lease_end = now() + interval '1 minute'")
}

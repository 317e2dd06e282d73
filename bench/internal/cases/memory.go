package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// growth is how much larger the process is in the last third of the time than in the middle one, in percent.
const growth = "growth %"

func memoryCases() []suite.Case {
	return []suite.Case{{Group: "memory", Name: "ours, backlog, 50 ms handlers", Main: suite.Resident, N: manyRecords, Once: true,
		Note: "a process of its own (VmRSS, its highest) with a backlog of 2 million records (quick: 400,000), the PostgreSQL ledger and default settings, for 30 s (quick: 8 s)",
		Run:  resident}}
}

// childEnv tells this program that it is the child, and what to do: a childTask as JSON.
const childEnv = "ACKLEDGER_BENCH_CHILD"

type childTask struct {
	Brokers       []string
	Topic, Group  string
	URL, Schema   string
	Measure, Step time.Duration
}

// Child is called by main, and by TestMain, before all else: in a process that a case has started it does that case's
// work and ends the process.
func Child() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	go func() { // the parent holds the other end
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(3)
	}()
	sizes, err := task.run(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(sizes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// resident runs the child and reads what it measured.
func resident(ctx context.Context, r *suite.Run) (suite.Result, error) {
	c, topic, err := newTopic(ctx, r, r.N)
	if err != nil {
		return nil, err
	}
	l, err := freshRows(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	task := childTask{Brokers: c.brokers, Topic: topic, Group: c.newGroup(r), URL: l.db.url, Schema: l.schema, Step: 100 * time.Millisecond,
		Measure: map[suite.Mode]time.Duration{suite.Full: 30 * time.Second, suite.Quick: 8 * time.Second, suite.Smoke: time.Second}[r.Mode]}
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("child: %w: %s", err, problems.String())
	}
	var sizes []float64
	if err := json.Unmarshal(out.Bytes(), &sizes); err != nil {
		return nil, err
	}
	if len(sizes) < 3 {
		return nil, fmt.Errorf("%d measurements, want 3 at least", len(sizes))
	}
	third := len(sizes) / 3
	_, highest := suite.Spread(sizes)
	middle, last := suite.Median(sizes[third:2*third]), suite.Median(sizes[2*third:])
	return suite.Result{suite.Resident: highest, growth: 100 * (last - middle) / middle}, nil
}

// run consumes for a while and measures this process' size, in MiB.
func (t childTask) run(ctx context.Context) (sizes []float64, err error) {
	pool, err := pgxpool.New(ctx, t.URL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	l, err := postgres.New(ctx, pool, &postgres.Config{Schema: t.Schema})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(t.Brokers...), kgo.ConsumerGroup(t.Group), kgo.ConsumeTopics(t.Topic)},
		l, sleeping(50*time.Millisecond), nil)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithTimeout(ctx, t.Measure)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	tick := time.NewTicker(t.Step)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			size, err := residentSize()
			if err != nil {
				return nil, errors.Join(err, <-ended)
			}
			sizes = append(sizes, size)
		case err := <-ended:
			return sizes, err
		}
	}
}

// residentSize is VmRSS (proc_pid_status(5)), in MiB.
func residentSize() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("the resident size is read from Linux' /proc: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmRSS")
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/internal/services"
)

// patience is how long a fleet may take to finish what was offered, and to end.
const patience = time.Minute

// conf is that of the harness' PostgreSQL where it differs from the server's defaults. Autovacuum looks every second, not
// every minute: phases are as much shorter, and a held horizon shows by what it cannot remove.
var conf = map[string]string{"max_connections": "400", "shared_buffers": "256MB", "work_mem": "8MB", "maintenance_work_mem": "128MB",
	"autovacuum_naptime": "1s"}

const warmUp = "warm-up"

// fleet is the replicas of a cell and what they need.
type fleet struct {
	cell     cell
	phase    time.Duration
	brokers  string
	topic    string
	dir      string
	tables   []string
	server   *services.PostgresServer
	kafka    *kgo.Client
	replicas []*replica

	mu   sync.Mutex
	name string // of the phase
	said map[string][]reading
	done map[*replica]int64 // what each process has completed, those that were killed as well
}

// replica is one process of the adapter.
type replica struct {
	cmd   *exec.Cmd
	ended chan error
}

// kill ends the process without a word, and waits until it has gone.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	r.ended <- <-r.ended
}

// startKafka takes the brokers that the environment names, or starts one.
func startKafka(ctx context.Context) (brokers string, stop func() error, err error) {
	if brokers = os.Getenv(services.EnvKafka); brokers != "" {
		return brokers, func() error { return nil }, nil
	}
	server, err := services.StartKafka(ctx, services.KafkaOptions{})
	if err != nil {
		return "", nil, err
	}
	return strings.Join(server.Brokers(), ","), server.Close, nil
}

// newFleet starts a PostgreSQL and the replicas. The fleet is to be closed also beside an error.
func newFleet(ctx context.Context, c cell, brokers string) (*fleet, error) {
	f := &fleet{cell: c, brokers: brokers, name: warmUp, said: map[string][]reading{}, done: map[*replica]int64{}, replicas: make([]*replica, c.replicas)}
	var m struct {
		Tables []string `json:"event_tables"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return f, err
	}
	f.tables = m.Tables
	var err error
	if f.dir, err = os.MkdirTemp("", "harness-"); err != nil {
		return f, err
	}
	f.topic = filepath.Base(f.dir)
	if err := f.offer(float64(c.rate)); err != nil {
		return f, err
	}
	if f.server, err = services.StartPostgres(ctx, services.PostgresOptions{Conf: conf}); err != nil {
		return f, err
	}
	if f.kafka, err = kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...)); err != nil {
		return f, err
	}
	for i := range f.replicas {
		if err := f.start(i); err != nil {
			return f, err
		}
	}
	return f, nil
}

// close ends everything.
func (f *fleet) close(err error) error {
	errs := []error{err}
	for _, r := range f.replicas {
		if r != nil {
			r.kill()
		}
	}
	if f.kafka != nil {
		_, err := kadm.NewClient(f.kafka).DeleteTopic(context.Background(), f.topic)
		errs = append(errs, err)
		f.kafka.Close()
	}
	if f.server != nil {
		errs = append(errs, f.server.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// offer says at which rate each replica produces from now on.
func (f *fleet) offer(rate float64) error {
	return os.WriteFile(filepath.Join(f.dir, "rate"), strconv.AppendFloat(nil, rate, 'f', 1, 64), 0o644)
}

// start starts the i-th replica, and reads what it says.
func (f *fleet) start(i int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r := &replica{cmd: exec.Command(self), ended: make(chan error, 1)}
	r.cmd.Stderr = os.Stderr
	r.cmd.Env = append(os.Environ(), "SCENARIO=long_horizon", "DATABASE_URL="+f.server.URL(), "ACKLEDGER_KAFKA="+f.brokers,
		"ACKLEDGER_TOPIC="+f.topic, "ACKLEDGER_TAKE_OVER_S=6", "ACKLEDGER_WINDOW_S=1", "SAMPLE_EVERY_S=1",
		"PRODUCER_RATE_CONTROL_FILE="+filepath.Join(f.dir, "rate"), "PRODUCER_RATE="+strconv.Itoa(f.cell.rate),
		"WORKER_COUNT="+strconv.Itoa(f.cell.workers), "BENCH_INSTANCE_ID="+strconv.Itoa(i))
	if f.cell.effects {
		r.cmd.Env = append(r.cmd.Env, "ACKLEDGER_EFFECTS=1")
	}
	if f.cell.depth > 0 { // as the harness sets its batches for the fastest of its systems
		r.cmd.Env = append(r.cmd.Env, "PRODUCER_MODE=depth-target", "TARGET_DEPTH="+strconv.Itoa(f.cell.depth), "PRODUCER_BATCH_MAX=1000")
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	f.replicas[i] = r
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.hear(r, lines.Bytes())
		}
		r.ended <- r.cmd.Wait()
	}()
	return nil
}

func (f *fleet) hear(r *replica, line []byte) {
	var now reading
	if err := json.Unmarshal(line, &now); err != nil || now.Kind != "adapter" {
		return // the descriptor, or the last line of one that was killed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Metric == completedTotal {
		f.done[r] = int64(now.Value)
	}
	f.said[f.name] = append(f.said[f.name], now)
}

// begun waits until every replica has completed something.
func (f *fleet) begun(ctx context.Context) error {
	for deadline := time.Now().Add(patience); ; {
		f.mu.Lock()
		idle := slices.IndexFunc(f.replicas, func(r *replica) bool { return f.done[r] == 0 })
		f.mu.Unlock()
		if idle < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("replica %d has completed nothing within %s", idle, patience)
		}
		if !pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// live lets a phase pass. An error of what disturbs ends it.
func (f *fleet) live(ctx context.Context, name string, long time.Duration) error {
	f.mu.Lock()
	f.name, f.phase = name, long
	f.mu.Unlock()
	passing, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	if name == "stress" && f.cell.stress != nil {
		if err := f.cell.stress(passing, f); err != nil {
			return err
		}
	}
	<-passing.Done()
	for i, r := range f.replicas {
		select {
		case err := <-r.ended:
			r.ended <- err
			return fmt.Errorf("replica %d has ended: %w", i, err)
		default:
		}
	}
	return ctx.Err()
}

// figures are a phase's, of the seconds in which a replica said something.
func (f *fleet) figures(phase string) figures {
	f.mu.Lock()
	defer f.mu.Unlock()
	rates, worst := map[string]float64{}, 0.0
	var middle []float64
	for _, r := range f.said[phase] {
		switch second := r.At[:len("2006-01-02T15:04:05")]; r.Metric {
		case "completion_rate":
			rates[second] += r.Value
		case "end_to_end_p50_ms":
			if r.Value > 0 { // something was completed
				middle = append(middle, r.Value)
			}
		case "end_to_end_p99_ms":
			worst = max(worst, r.Value)
		}
	}
	all := make([]float64, 0, len(rates))
	for _, rate := range rates {
		all = append(all, rate)
	}
	return figures{rate: median(all), p50: median(middle), p99: worst}
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}

// connected has a connection of its own.
func (f *fleet) connected(do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, f.server.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(ctx, conn)
}

// dead is how many dead tuples the adapter's tables have.
func (f *fleet) dead(ctx context.Context) (n int64, err error) {
	return n, f.connected(func(_ context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname || '.' || relname = ANY($1)",
			f.tables).Scan(&n)
	})
}

// finish stops the offer, lets what was offered come to its end, ends the replicas, and counts.
func (f *fleet) finish(ctx context.Context, o *outcome) error {
	if err := f.offer(0); err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	for calm := 0; calm < 3; { // three times the same: no replica is still producing
		jobs := o.jobs
		if err := f.count(ctx, o); err != nil {
			return err
		}
		if calm++; o.jobs != jobs || o.lost > 0 {
			calm = 0
		}
		if time.Now().After(deadline) {
			break // what is not done by now is lost
		}
		if !pause(ctx, time.Second/2) {
			return ctx.Err()
		}
	}
	for i, r := range f.replicas {
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case err := <-r.ended:
			r.ended <- err
			if err != nil {
				return fmt.Errorf("replica %d: %w", i, err)
			}
		case <-time.After(patience):
			return fmt.Errorf("replica %d does not end", i)
		}
	}
	return f.count(ctx, o)
}

// count compares the records of the topic with what was done.
func (f *fleet) count(ctx context.Context, o *outcome) error {
	ends, err := kadm.NewClient(f.kafka).ListEndOffsets(ctx, f.topic)
	if err != nil {
		return err
	}
	o.jobs = 0
	ends.Each(func(e kadm.ListedOffset) { o.jobs += e.Offset })
	var done, once int64
	if f.cell.effects {
		err = f.connected(func(_ context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT count(*), count(DISTINCT (part, pos)) FROM public.effect").Scan(&done, &once)
		})
	} else {
		f.mu.Lock()
		for _, n := range f.done {
			done += n
		}
		f.mu.Unlock()
		once = min(done, o.jobs)
	}
	o.lost, o.repeated = o.jobs-once, done-once
	return err
}

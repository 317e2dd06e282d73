package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/bench/internal/soak"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// site is the servers, and the worker process on them.
type site struct {
	orders orders
	kafka  *kgo.Client
	queues *awssqs.Client
	undo   []func() error

	cmd  *exec.Cmd
	done chan error // of the worker process

	mu     sync.Mutex
	status status
}

// newSite starts the servers and makes a topic and a queue. Kafka keeps records for a few minutes, so that the disk bears
// any duration. The site is to be closed also beside an error.
func newSite(ctx context.Context) (*site, error) {
	s := &site{done: make(chan error, 1)}
	name := "soak-" + strings.ToLower(rand.Text()[:8])
	pg, err := services.StartPostgres(ctx, services.PostgresOptions{})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, pg.Close)
	config, err := pgx.ParseConfig(pg.URL())
	if err != nil {
		return s, err
	}
	if err := postgres.Migrate(ctx, config, postgres.DefaultSchema); err != nil {
		return s, err
	}
	broker, err := services.StartKafka(ctx, services.KafkaOptions{Properties: map[string]string{"log.retention.check.interval.ms": "20000"}})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, broker.Close)
	if s.kafka, err = kgo.NewClient(kgo.SeedBrokers(broker.Brokers()...), kgo.DefaultProduceTopic(name)); err != nil {
		return s, err
	}
	s.undo = append(s.undo, func() error { s.kafka.Close(); return nil })
	if _, err := kadm.NewClient(s.kafka).CreateTopic(ctx, 8, 1, map[string]*string{"retention.ms": kadm.StringPtr("600000"), "segment.ms": kadm.StringPtr("60000")}, name); err != nil {
		return s, err
	}
	mq, err := services.StartElasticMQ(ctx)
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, mq.Close)
	s.queues = newSQSClient(mq.Endpoint())
	made, err := s.queues.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		return s, err
	}
	s.orders = orders{Database: pg.URL(), Topic: name, Queue: *made.QueueUrl, Endpoint: mq.Endpoint(), Brokers: broker.Brokers()}
	return s, nil
}

// close undoes everything, the last thing first.
func (s *site) close() error {
	var errs []error
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill() // it may have ended
	}
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// start starts the worker process, and reads what it says of itself.
func (s *site) start() error {
	text, err := json.Marshal(s.orders)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.cmd = exec.Command(self)
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), childEnv+"="+string(text)), os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var now status
			if err := json.Unmarshal(lines.Bytes(), &now); err == nil {
				s.mu.Lock()
				s.status = now
				s.mu.Unlock()
			}
		}
		s.done <- s.cmd.Wait()
	}()
	return nil
}

func (s *site) now() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// soak loads the workers for so long and samples their process. Then everything must come to its end.
func (s *site) soak(ctx context.Context, duration time.Duration) ([]soak.Sample, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	loading, stop := context.WithTimeout(ctx, duration)
	defer stop()
	l := &load{site: s}
	loaded := make(chan error, 1)
	go func() { loaded <- l.run(loading) }()
	samples, err := s.watch(loading, l)
	stop()
	if err = errors.Join(err, <-loaded, ctx.Err()); err != nil {
		return nil, err
	}
	if err := s.calm(ctx, l); err != nil {
		return nil, err
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	select {
	case err := <-s.done:
		if err != nil {
			return nil, fmt.Errorf("the worker process: %w", err)
		}
	case <-time.After(2 * time.Minute):
		return nil, errors.New("the worker process does not end")
	}
	return samples, s.settled(ctx)
}

// watch samples until the load is over.
func (s *site) watch(ctx context.Context, l *load) (out []soak.Sample, err error) {
	const every = 5 * time.Second
	began, tick := time.Now(), time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return out, nil
		case err := <-s.done:
			return out, fmt.Errorf("the worker process has ended: %w", err)
		case <-tick.C:
		}
		resident, files, err := process(s.cmd.Process.Pid)
		if err != nil {
			return out, err
		}
		now := s.now()
		out = append(out, soak.Sample{At: time.Since(began), Resident: resident, Heap: now.Heap, Goroutines: now.Goroutines, Files: files,
			Handled: now.Handled, Backlog: l.backlog()})
		if n%12 == 0 {
			fmt.Fprintf(os.Stderr, "%6s  %4.0f MiB  %4d goroutines  %3d files  %+v  %d behind\n",
				time.Since(began).Round(time.Second), resident, now.Goroutines, files, now.Handled, l.backlog())
		}
	}
}

// calm waits until everything that was sent is handled.
func (s *site) calm(ctx context.Context, l *load) error {
	const patience = 5 * time.Minute
	for deadline := time.Now().Add(patience); l.backlog() > 0 || l.queued() > 0; {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d records and %d messages are not handled %s after the load ended: %+v", l.backlog(), l.queued(), patience, s.now().Handled)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// settled says that the ledger has nothing pending.
func (s *site) settled(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.orders.Database)
	if err != nil {
		return err
	}
	var pending int
	err = conn.QueryRow(ctx, `SELECT count(*) FROM ackledger.message WHERE state = 1`).Scan(&pending)
	if err = errors.Join(err, conn.Close(ctx)); err == nil && pending > 0 {
		err = fmt.Errorf("%d messages are pending after a clean drain", pending)
	}
	return err
}

// process reads a process' resident size, in MiB, and how many files it has open (proc_pid_status(5), proc_pid_fd(5)).
func process(pid int) (resident float64, files int, err error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	text, err := os.ReadFile(dir + "status")
	if err != nil {
		return 0, 0, fmt.Errorf("a process' size is read from Linux' /proc: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 64)
	if err != nil {
		return 0, 0, fmt.Errorf("%sstatus: VmRSS: %w", dir, err)
	}
	list, err := os.ReadDir(dir + "fd")
	return kib / 1024, len(list), err
}

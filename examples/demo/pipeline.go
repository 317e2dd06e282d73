package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	tick     = 50 * time.Millisecond
	patience = 2 * time.Minute // then something hangs
	stopTime = 30 * time.Second
)

// pipeline is the parent: it sends, kills, watches, and counts what the workers tell it.
type pipeline struct {
	brokers *brokers
	db      *sql.DB
	setup   setup
	kills   int
	show    *progress

	plans map[string][]message
	total int // orders

	mu      sync.Mutex
	counts  map[string]map[kind]int
	scopes  map[string]string
	garbage error
}

func newPipeline(b *brokers, db *sql.DB, ledgerPath string, orders, kills int, out *os.File) *pipeline {
	p := &pipeline{
		brokers: b, db: db, kills: kills, total: 2 * orders, show: newProgress(out),
		setup:  setup{Ledger: ledgerPath, Endpoint: b.sqs.URL, QueueURL: b.queueURL, Kafka: b.cluster.ListenAddrs()},
		counts: map[string]map[kind]int{"sqs": {}, "kafka": {}}, scopes: map[string]string{},
		plans: map[string][]message{},
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same orders in each run
	for _, broker := range []string{"sqs", "kafka"} {
		p.plans[broker] = plan(broker, orders, random)
	}
	return p
}

// run ends when every order is charged and both brokers are empty.
func (p *pipeline) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not finished within %s", patience))
	defer cancel()
	sent := make(chan error, 2)
	go func() { sent <- p.brokers.sendSQS(ctx, p.plans["sqs"]) }()
	go func() { sent <- p.brokers.sendKafka(ctx, p.plans["kafka"]) }()
	w, err := p.startWorker(ctx)
	if err != nil {
		return err
	}
	defer func() { w.kill() }()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for killed, sending := 0, 2; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-sent:
			if sending--; err != nil {
				return fmt.Errorf("send: %w", err)
			}
			continue
		case <-w.done:
			return errors.Join(errors.New("the worker ended by itself"), w.failure())
		case <-ticker.C:
		}
		v, n, err := p.view(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		v.killed = killed
		p.show.at(v)
		switch {
		case killed < p.kills && n >= p.total*(killed+1)/(p.kills+1):
			killed++
			w.kill()
			p.show.say("killed the worker (SIGKILL %d of %d) at %d charges, starting another", killed, p.kills, n)
			next, err := p.startWorker(ctx)
			if err != nil {
				return err
			}
			w = next
		case n >= p.total && sending == 0:
			if empty, err := p.brokers.empty(ctx); err != nil || empty {
				return errors.Join(err, w.stop())
			}
		}
	}
}

// view is how things stand, and how many orders are charged.
func (p *pipeline) view(ctx context.Context) (v view, charged int, err error) {
	v.kill = p.kills
	for _, broker := range []string{"sqs", "kafka"} {
		r := row{broker: broker, orders: p.total / 2}
		if err := p.db.QueryRowContext(ctx, "SELECT count(*) FROM charges WHERE broker = ?", broker).Scan(&r.charged); err != nil {
			return v, 0, err
		}
		p.mu.Lock()
		counts := p.counts[broker]
		r.delivered, r.ran, r.caught, r.declined = counts[delivered], counts[ran], counts[answered], counts[declined]
		p.mu.Unlock()
		charged += r.charged
		v.brokers = append(v.brokers, r)
	}
	switch {
	case charged == p.total:
		v.note = "all are charged; what comes again is caught"
	case charged > 0:
		v.note = "SIGKILL comes while messages are in hand; another worker takes over"
	}
	return v, charged, nil
}

// count takes in what a worker says, until its output ends.
func (p *pipeline) count(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var e event
		err := json.Unmarshal(lines.Bytes(), &e)
		p.mu.Lock()
		switch counts := p.counts[e.Broker]; {
		case err != nil || counts == nil:
			p.garbage = fmt.Errorf("the worker said %q", lines.Text())
		case e.Kind == started:
			p.scopes[e.Broker] = e.Scope
		default:
			counts[e.Kind] += e.N
		}
		p.mu.Unlock()
	}
}

// process is one life of the worker.
type process struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	done   chan struct{} // closed when it has ended and all it said is counted
	err    error
}

func (p *pipeline) startWorker(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(p.setup)
	if err != nil {
		return nil, err
	}
	w := &process{cmd: exec.CommandContext(ctx, self), stderr: &bytes.Buffer{}, done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerVariable+"="+string(config))
	w.cmd.Stderr = w.stderr
	stdin, err := w.cmd.StdinPipe() // it ends with this process, and the worker with it
	if err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.done)
		p.count(stdout)
		w.err = errors.Join(w.cmd.Wait(), ignoreClosed(stdin.Close()))
	}()
	return w, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// kill ends the process with SIGKILL, if it still runs.
func (w *process) kill() {
	_ = w.cmd.Process.Kill() // an error means that it has ended
	<-w.done
}

// stop lets the process drain.
func (w *process) stop() error {
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.failure()
	case <-time.After(stopTime):
		return fmt.Errorf("the worker has not drained within %s", stopTime)
	}
}

// failure is why an ended process did not end well.
func (w *process) failure() error {
	if text := bytes.TrimSpace(w.stderr.Bytes()); len(text) > 0 {
		return errors.Join(w.err, errors.New(string(text)))
	}
	return w.err
}

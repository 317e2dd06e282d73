package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/integration/services"
)

// startLimit bounds the start of all servers, with a first download over a slow line.
const startLimit = 15 * time.Minute

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: withservices [--] command [argument ...]")
		os.Exit(2)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	code, err := run(args, signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservices:", err)
	}
	os.Exit(code)
}

// run returns the exit code.
func run(args []string, signals <-chan os.Signal) (code int, err error) {
	folder, err := os.MkdirTemp("", "withservices-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	missing := filepath.Join(folder, "missing")
	code, err = serve(args, missing, signals)
	return code, errors.Join(err, tellMissing(os.Stderr, missing))
}

// tellMissing says what tests could not test here, where nobody overlooks it.
func tellMissing(out io.Writer, file string) error {
	lines, err := services.ReadMissing(file)
	if len(lines) > 0 {
		fmt.Fprintln(out, "withservices: ATTENTION: NOT ALL WAS TESTED, since this machine lacks something:")
	}
	for _, line := range lines {
		fmt.Fprintln(out, "withservices: NOT TESTED:", line)
	}
	return err
}

// serve runs the command beside the servers.
func serve(args []string, missing string, signals <-chan os.Signal) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	all := &started{env: []string{services.EnvMissing + "=" + missing}}
	defer func() {
		if closeErr := all.close(); closeErr != nil {
			code, err = max(code, 1), errors.Join(err, closeErr)
		}
	}()
	ready := make(chan error, 1)
	go func() { ready <- all.start(ctx) }()
	select {
	case err := <-ready:
		if err != nil {
			return 1, err
		}
	case sig := <-signals:
		cancel()
		return exitCode(sig), errors.Join(fmt.Errorf("%v while the servers started", sig), <-ready)
	}
	return runCommand(args, all.env, signals)
}

// runCommand runs the command in a process group of its own and hands every signal to the whole group: go test alone
// would leave its test processes behind.
func runCommand(args, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if err := syscall.Kill(-cmd.Process.Pid, sig.(syscall.Signal)); err != nil && !errors.Is(err, syscall.ESRCH) {
				return 1, fmt.Errorf("forward %v: %w", sig, err)
			}
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				status := exit.Sys().(syscall.WaitStatus)
				if status.Signaled() {
					return exitCode(status.Signal()), nil
				}
				return status.ExitStatus(), nil
			}
			if err != nil {
				return 1, err
			}
			return 0, nil
		}
	}
}

// exitCode is what a shell makes of a signal.
func exitCode(sig os.Signal) int { return 128 + int(sig.(syscall.Signal)) }

// started holds the servers and what names them.
type started struct {
	mu      sync.Mutex
	env     []string
	closers []func() error
}

// start starts what the environment does not name, all at once.
func (s *started) start(ctx context.Context) error {
	starters := []struct {
		name, env string
		start     func(context.Context) (value string, closer func() error, err error)
	}{
		{"PostgreSQL 18", services.EnvPostgres, postgres(18)},
		{"PostgreSQL 14", services.EnvPostgres14, postgres(14)},
		{"Apache Kafka", services.EnvKafka, kafka},
		{"ElasticMQ", services.EnvSQS, elasticMQ},
		{"Dynoxide", services.EnvDynamoDB, dynamoDB},
	}
	errs := make([]error, len(starters))
	var wg sync.WaitGroup
	for i, st := range starters {
		if os.Getenv(st.env) != "" {
			fmt.Fprintf(os.Stderr, "withservices: %s: as named in %s\n", st.name, st.env)
			continue
		}
		wg.Go(func() {
			begin := time.Now()
			value, closer, err := st.start(ctx)
			if errors.Is(err, services.ErrNoDynamoDB) {
				fmt.Fprintln(os.Stderr, "withservices:", err)
				return // its tests skip
			}
			if errs[i] = err; err != nil {
				return
			}
			fmt.Fprintf(os.Stderr, "withservices: %s answers after %.1f s: %s=%s\n", st.name, time.Since(begin).Seconds(), st.env, value)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.env = append(s.env, st.env+"="+value)
			s.closers = append(s.closers, closer)
		})
	}
	wg.Wait()
	return services.JoinErrors(errs...)
}

func (s *started) close() error {
	var errs []error
	for _, closer := range s.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

func postgres(version int) func(context.Context) (string, func() error, error) {
	return func(ctx context.Context) (string, func() error, error) {
		server, err := services.StartPostgres(ctx, services.PostgresOptions{Version: version})
		if err != nil {
			return "", nil, err
		}
		return server.URL(), server.Close, nil
	}
}

func kafka(ctx context.Context) (string, func() error, error) {
	cluster, err := services.StartKafka(ctx, services.KafkaOptions{})
	if err != nil {
		return "", nil, err
	}
	return strings.Join(cluster.Brokers(), ","), cluster.Close, nil
}

func elasticMQ(ctx context.Context) (string, func() error, error) {
	server, err := services.StartElasticMQ(ctx)
	if err != nil {
		return "", nil, err
	}
	return server.Endpoint(), server.Close, nil
}

func dynamoDB(ctx context.Context) (string, func() error, error) {
	server, err := services.StartDynamoDBInMemory(ctx)
	if err != nil {
		return "", nil, err
	}
	return server.Endpoint(), server.Close, nil
}

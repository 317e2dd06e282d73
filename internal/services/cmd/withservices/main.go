package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/internal/services"
)

// startLimit bounds the start of all servers, with a first download over a slow line.
const startLimit = 15 * time.Minute

func main() {
	only := flag.String("only", "", "start these alone, with commas between them: "+strings.Join(names(), ", "))
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: withservices [-only server,...] [--] command [argument ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	wanted, err := choose(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservices:", err)
		os.Exit(2)
	}
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	code, err := run(wanted, flag.Args(), signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservices:", err)
	}
	os.Exit(code)
}

// run returns the exit code.
func run(wanted []server, args []string, signals <-chan os.Signal) (code int, err error) {
	folder, err := os.MkdirTemp("", "withservices-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	missing := filepath.Join(folder, "missing")
	code, err = serve(wanted, args, missing, signals)
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
func serve(wanted []server, args []string, missing string, signals <-chan os.Signal) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	all := &started{env: []string{services.EnvMissing + "=" + missing}}
	defer func() {
		if closeErr := all.close(); closeErr != nil {
			code, err = max(code, 1), errors.Join(err, closeErr)
		}
	}()
	ready := make(chan error, 1)
	go func() { ready <- all.start(ctx, wanted) }()
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

// server is one that can be started.
type server struct {
	name, env string
	short     string // its name in -only
	start     func(context.Context) (value string, closer func() error, err error)
}

// servers are all of them.
func servers() []server {
	return []server{
		{"PostgreSQL 18", services.EnvPostgres, "postgres", postgres(18)},
		{"PostgreSQL 14", services.EnvPostgres14, "postgres14", postgres(14)},
		{"Apache Kafka", services.EnvKafka, "kafka", kafka},
		{"ElasticMQ", services.EnvSQS, "sqs", elasticMQ},
		{"Dynoxide", services.EnvDynamoDB, "dynamodb", dynamoDB},
	}
}

// names are what -only takes.
func names() (all []string) {
	for _, s := range servers() {
		all = append(all, s.short)
	}
	return all
}

// choose are the servers that -only names; all of them, where it names none.
func choose(only string) (wanted []server, err error) {
	if only == "" {
		return servers(), nil
	}
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(), name)
		if i < 0 {
			return nil, fmt.Errorf("-only names %q, which is none of %s", name, strings.Join(names(), ", "))
		}
		wanted = append(wanted, servers()[i])
	}
	return wanted, nil
}

// start starts what the environment does not name, all at once.
func (s *started) start(ctx context.Context, starters []server) error {
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

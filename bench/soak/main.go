// Command soak runs workers at full load for long and watches the size of their process. `make soak DURATION=30m` runs it:
// it fails if memory is not flat, and writes the numbers into docs/reliability.md and the chart docs/soak.svg.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/bench/internal/soak"
	"github.com/ackledger/ackledger/internal/reliability"
)

func main() {
	if text := os.Getenv(childEnv); text != "" {
		end(child(text))
	}
	duration := flag.Duration("duration", 30*time.Minute, "how long the load lasts, 1m at least")
	out := flag.String("out", "", "`folder` of reliability.md and soak.svg; empty: print only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	end(run(ctx, *duration, *out))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is the whole soak. What is not flat is an error, after the page says so.
func run(ctx context.Context, duration time.Duration, out string) error {
	if duration < time.Minute {
		return fmt.Errorf("-duration must be 1m at least, is %s", duration)
	}
	s, err := newSite(ctx)
	if err != nil {
		return errors.Join(err, s.close())
	}
	began := time.Now()
	samples, err := s.soak(ctx, duration)
	if err = errors.Join(err, s.close()); err != nil {
		return err
	}
	r := &soak.Run{
		Began: began, Took: duration, Samples: samples, Verdict: soak.Judge(samples),
		Machine: fmt.Sprintf("%s/%s, %d processors for everything, servers included", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
	}
	fmt.Println(r.Section("soak.svg"))
	if out == "" {
		return r.Verdict
	}
	return errors.Join(write(r, out), r.Verdict)
}

// write puts chart and section where they belong.
func write(r *soak.Run, dir string) error {
	var chart bytes.Buffer
	if err := soak.Chart(&chart, r.Samples); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "soak.svg"), chart.Bytes(), 0o644); err != nil {
		return err
	}
	return reliability.Section(filepath.Join(dir, "reliability.md"), "soak", r.Section("soak.svg"))
}

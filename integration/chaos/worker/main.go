package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/chaos/plan"
)

func main() {
	before := openFiles()
	var o plan.Orders
	err := json.Unmarshal([]byte(os.Getenv(plan.Variable)), &o)
	if err == nil {
		err = work(&o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "process %s: %v\n", o.Name, err)
		os.Exit(1)
	}
	if left := leftBehind(before); left != "" {
		fmt.Fprintf(os.Stderr, "process %s has left behind: %s\n", o.Name, left)
		os.Exit(3)
	}
}

// work runs the worker until SIGTERM. All that it opens it closes.
func work(o *plan.Orders) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	page, err := plan.OpenPage(o.Page)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, page.Close()) }()
	page.Add(plan.Ready, 1)
	config := zap.NewProductionConfig()
	config.Sampling = nil // a timeline needs every line
	config.InitialFields = map[string]any{"process": o.Name}
	log, err := config.Build()
	if err != nil {
		return err
	}
	s, err := openStore(ctx, o, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	h, err := newHandler(o, page, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.journal.Close()) }()
	w, end, err := newWorker(o, log, s, h)
	if err != nil {
		return err
	}
	defer end()
	done := make(chan struct{})
	measured := make(chan struct{})
	go func() { defer close(measured); measure(page, done) }()
	defer func() { close(done); <-measured }()
	return consumer.Run(ctx, w)
}

// measure notes the most memory that the process has needed.
func measure(page *plan.Page, done <-chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		page.Raise(plan.Memory, int64(m.HeapAlloc))
		select {
		case <-t.C:
		case <-done:
			return
		}
	}
}

// leftBehind says which goroutines, connections and files are left of a worker that has drained, beside those files that were
// open before it; empty: none.
func leftBehind(before map[string]string) string {
	if err := goleak.Find(); err != nil {
		return err.Error()
	}
	var left []string
	for number, name := range openFiles() {
		if before[number] != name && !strings.HasPrefix(name, "anon_inode:") { // the runtime's poller
			left = append(left, name)
		}
	}
	return strings.Join(left, ", ")
}

// openFiles are the process' files and connections by number, on Linux.
func openFiles() map[string]string {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil // no Linux
	}
	open := map[string]string{}
	for _, f := range files {
		if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil { // or it is the folder that was read
			open[f.Name()] = name
		}
	}
	return open
}

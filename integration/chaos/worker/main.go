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
	var o plan.Orders
	err := json.Unmarshal([]byte(os.Getenv(plan.Variable)), &o)
	if err == nil {
		err = work(&o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "process %s: %v\n", o.Name, err)
		os.Exit(1)
	}
	if left := leftBehind(); left != "" {
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

// leftBehind says which goroutines and connections are left of a worker that has drained; empty: none.
func leftBehind() string {
	if err := goleak.Find(); err != nil {
		return err.Error()
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "" // no Linux
	}
	var sockets []string
	for _, f := range files {
		if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(name, "socket:") {
			sockets = append(sockets, name)
		}
	}
	if len(sockets) > 0 {
		return fmt.Sprintf("%d connections", len(sockets))
	}
	return ""
}

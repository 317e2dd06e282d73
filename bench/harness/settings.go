package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// settings are what an adapter is told in its environment. The names are the harness' own, but for ACKLEDGER_*: what a queue
// that is Kafka needs beside.
type settings struct {
	database, brokers, topic, control   string
	effects, depthTarget                bool
	instance, rate, depth, batch        int
	workers, payload, conns             int
	tick, work, every, window, takeOver time.Duration
}

// read takes the settings from the environment.
func read(get func(string) string) (settings, error) {
	var errs []error
	number := func(name string, preset, least int) int {
		n, err := strconv.Atoi(cmp.Or(get(name), strconv.Itoa(preset)))
		if err != nil || n < least {
			errs = append(errs, fmt.Errorf("%s must be a number of %d at least, is %q", name, least, get(name)))
		}
		return n
	}
	duration := func(name string, unit time.Duration, preset, least int) time.Duration {
		return time.Duration(number(name, preset, least)) * unit
	}
	s := settings{
		database: get("DATABASE_URL"), brokers: get("ACKLEDGER_KAFKA"), topic: get("ACKLEDGER_TOPIC"),
		control: get("PRODUCER_RATE_CONTROL_FILE"), effects: get("ACKLEDGER_EFFECTS") != "", depthTarget: get("PRODUCER_MODE") == "depth-target",
		instance: number("BENCH_INSTANCE_ID", 0, 0), rate: number("PRODUCER_RATE", 800, 0), depth: number("TARGET_DEPTH", 1000, 1),
		batch: number("PRODUCER_BATCH_MAX", 128, 1), tick: duration("PRODUCER_BATCH_MS", time.Millisecond, 10, 1),
		workers: number("WORKER_COUNT", 32, 1), conns: number("MAX_CONNECTIONS", 32, 1),
		payload: number("JOB_PAYLOAD_BYTES", 256, 0), work: duration("JOB_WORK_MS", time.Millisecond, 1, 0),
		every: duration("SAMPLE_EVERY_S", time.Second, 5, 1), window: duration("ACKLEDGER_WINDOW_S", time.Second, 30, 1),
		takeOver: duration("ACKLEDGER_TAKE_OVER_S", time.Second, 10, 6),
	}
	for name, value := range map[string]string{"DATABASE_URL": s.database, "ACKLEDGER_KAFKA": s.brokers} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s must be set", name))
		}
	}
	return s, errors.Join(errs...)
}

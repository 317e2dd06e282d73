package sqs

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

var nothing = consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })

func TestNewWorkerRefusesWhatIsMissing(t *testing.T) {
	client, l, c := awssqs.New(awssqs.Options{}), memory.New(), &Config{Options: consumer.Options{Name: "tests"}}
	batches := func(context.Context, []*consumer.Message) []error { return nil }
	for _, tt := range []struct {
		want   string
		client API
		url    string
		l      ledger.Ledger
		h      consumer.Handler
		c      *Config
	}{
		{"client must not be nil", nil, "u", l, nothing, c},
		{"client must not be nil", (*awssqs.Client)(nil), "u", l, nothing, c},
		{"queue URL must not be empty", client, "", l, nothing, c},
		{"ledger must not be nil", client, "u", nil, nothing, c},
		{"ledger must not be nil", client, "u", (*memory.Ledger)(nil), nothing, c},
		{"handler must not be nil", client, "u", l, nil, c},
		{"handler must not be nil", client, "u", l, consumer.HandlerFunc(nil), c},
		{"BatchSize must be 1 to 10000, is 0", client, "u", l, consumer.Batch(0, batches), c},
		{"BatchSize must be 1 to 10000, is 10001", client, "u", l, consumer.Batch(consumer.MaxBatch+1, batches), c},
		{"Config.Name: must be 1 to 255 bytes, is empty", client, "u", l, nothing, nil},
	} {
		w, err := NewWorker(tt.client, tt.url, tt.l, tt.h, tt.c)
		if w != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("NewWorker: error %v, want %q", err, tt.want)
		}
	}
}

func TestConfigErrorsNameFieldBoundAndValue(t *testing.T) {
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.VisibilityTimeout = time.Second }, "Config.VisibilityTimeout: must be 2s to 12h0m0s, is 1s"},
		{func(c *Config) { c.VisibilityTimeout = -time.Second }, "Config.VisibilityTimeout: must be 2s to 12h0m0s, is -1s"},
		{func(c *Config) { c.VisibilityTimeout = 12*time.Hour + time.Second }, "Config.VisibilityTimeout: must be 2s to 12h0m0s, is 12h0m1s"},
		{func(c *Config) { c.VisibilityTimeout = 2500 * time.Millisecond }, "Config.VisibilityTimeout: must be whole seconds, is 2.5s"},
		{func(c *Config) { c.VisibilityTimeout, c.WaitTime = 10*time.Second, 10*time.Second },
			"Config.VisibilityTimeout: must be at least 11s (WaitTime and 1 s), is 10s"},
		{func(c *Config) { c.WaitTime = 21 * time.Second }, "Config.WaitTime: must be 1s to 20s, is 21s"},
		{func(c *Config) { c.WaitTime = -time.Second }, "Config.WaitTime: must be 1s to 20s, is -1s"},
		{func(c *Config) { c.WaitTime = 1500 * time.Millisecond }, "Config.WaitTime: must be whole seconds, is 1.5s"},
		{func(c *Config) { c.MaxPollers = -1 }, "Config.MaxPollers: must be 1 to 100, is -1"},
		{func(c *Config) { c.MaxPollers = 101 }, "Config.MaxPollers: must be 1 to 100, is 101"},
		{func(c *Config) { c.Name = strings.Repeat("n", 256) }, "Options.Name: must be at most 255 bytes, is 256 bytes"},
		{func(c *Config) { c.Concurrency = -1 }, "Options.Concurrency: must be 1 to 10000, is -1"},
		{func(c *Config) { c.Concurrency = math.MaxInt }, "Options.Concurrency: must be 1 to 10000"},
		{func(c *Config) { c.HandlerTimeout = 12 * time.Hour }, "Options.HandlerTimeout: must be 1ms to 11h0m0s, is 12h0m0s"},
		{func(c *Config) { c.BackoffMax = 13 * time.Hour }, "Options.BackoffMax: must be 1s to 12h0m0s, is 13h0m0s"},
		{func(c *Config) { c.MaxHeldBytes = -1 }, "Options.MaxHeldBytes: must be 1 to"},
	} {
		c := &Config{Options: consumer.Options{Name: "tests"}}
		tt.change(c)
		_, err := NewWorker(awssqs.New(awssqs.Options{}), "u", memory.New(), nothing, c)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	for _, tt := range []struct{ visibility, want, wait time.Duration }{
		{0, 60 * time.Second, 10 * time.Second},
		{2 * time.Second, 2 * time.Second, time.Second},
		{15 * time.Second, 15 * time.Second, 7 * time.Second},
		{12 * time.Hour, 12 * time.Hour, 10 * time.Second},
	} {
		s, err := newSettings(&Config{Options: consumer.Options{Name: "tests"}, VisibilityTimeout: tt.visibility})
		if err != nil || s.VisibilityTimeout != tt.want || s.WaitTime != tt.wait || s.MaxPollers != 10 {
			t.Errorf("visibility %s: %s, wait %s, %d pollers, %v", tt.visibility, s.VisibilityTimeout, s.WaitTime, s.MaxPollers, err)
		}
	}
}

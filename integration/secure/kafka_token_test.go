package secure_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/ackledger/ackledger/internal/services"
)

// tokens are the options of a client that logs in with tokens, each good for a while, and how many it has asked for.
func (c *cluster) tokens(lifetime time.Duration) (opts []kgo.Opt, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	login := oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		asked.Add(1)
		now := time.Now()
		return oauth.Auth{Token: services.UnsecuredToken(user, now.Add(-time.Minute), now.Add(lifetime))}, nil
	})
	return []kgo.Opt{
		kgo.SeedBrokers(c.SASLBrokers()...), kgo.DialTLSConfig(&tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}), kgo.SASL(login),
	}, asked
}

// TestKafkaWithOAUTHBEARER: a worker and the command log in with tokens, which is how Amazon MSK takes IAM from clients that have no
// mechanism for it. The worker goes on when its token has expired, with another one.
func TestKafkaWithOAUTHBEARER(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.stillBad.Store(true)
	opts, asked := c.tokens(5 * time.Second)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := c.worker(opts...)
	go func() { ended <- w.Run(ctx) }()
	producer := c.client(c.safe(password)...)
	send := func(value string, total int64) {
		t.Helper()
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: c.topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%d messages handled", total), func() bool { return c.completed.Load() >= total })
	}
	send("bad 1", 1)
	first := asked.Load()
	eventually(t, "each connection has another token", func() bool { return asked.Load() >= 3*first })
	send("good 2", 2)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	c.stillBad.Store(false)
	now := time.Now()
	for name, v := range map[string]struct {
		token, want string
		code        int
	}{
		"an expired token": {services.UnsecuredToken(user, now.Add(-2*time.Hour), now.Add(-time.Hour)), "SASL_AUTHENTICATION_FAILED", 1},
		"no token":         {"hush", "SASL_AUTHENTICATION_FAILED", 1},
	} {
		if r := c.replayToken(v.token); r.code != v.code || !strings.Contains(r.text, v.want) || strings.Contains(r.text, v.token) {
			t.Errorf("%s: code %d: %s", name, r.code, r.text)
		}
	}
	if r := c.replayToken(services.UnsecuredToken(user, now.Add(-time.Minute), now.Add(time.Hour))); r.code != 0 || !strings.Contains(r.text, "1 replayed") {
		t.Errorf("replay: code %d: %s", r.code, r.text)
	}
	expired, _ := c.tokens(-time.Second)
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.worker(expired...).Run(limited); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a worker with an expired token: %v", err)
	}
}

// replayToken is the command with a token in a file.
func (c *cluster) replayToken(token string) said {
	c.Helper()
	return ackledger(c.T, "replay", "--ledger", c.file, "--source", "kafka:"+c.topic+".dlq", "--to", "source", "--yes", "--tls-ca", c.ca,
		"--brokers", strings.Join(c.SASLBrokers(), ","), "--sasl", "oauthbearer", "--sasl-password-file", c.write("token", token+"\n"))
}

package secure_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

const (
	user     = "worker"
	password = "hush-s3cret/of@the:worker"
	wrong    = "hush-wr0ng/of@the:worker"
)

// cluster is a broker with secure listeners, a topic and its dead-letter topic.
type cluster struct {
	*testing.T
	*services.KafkaCluster
	roots     *x509.CertPool
	identity  tls.Certificate // of a client
	ca        string          // file
	topic     string
	ledger    *sqlite.Ledger
	file      string // of the ledger
	log       *zap.Logger
	logged    *lines
	stillBad  atomic.Bool
	completed atomic.Int64
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	services.NeedServers(t)
	authority, err := services.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Issue("broker")
	if err != nil {
		t.Fatal(err)
	}
	k, err := services.StartKafka(t.Context(), services.KafkaOptions{
		Secure: &services.SecureKafka{Authority: authority, Server: server, Users: map[string]string{user: password}, Tokens: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{T: t, KafkaCluster: k, roots: x509.NewCertPool(), topic: services.Name(t), logged: new(lines)}
	c.roots.AppendCertsFromPEM(authority.PEM)
	c.ca = c.write("ca.pem", string(authority.PEM))
	own, err := authority.Issue(user)
	if err == nil {
		c.identity, err = tls.X509KeyPair(own.Cert, own.Key)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.file = filepath.Join(t.TempDir(), "ledger.db")
	if c.ledger, err = sqlite.Open(t.Context(), c.file, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.ledger.Close() })
	c.log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(c.logged), zap.DebugLevel))
	adm := kadm.NewClient(c.client(c.safe(password)...))
	if _, err := adm.CreateTopics(t.Context(), 2, 1, nil, c.topic, c.topic+".dlq"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) write(name, text string) string {
	c.Helper()
	path := filepath.Join(c.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	return path
}

// safe are the options of a client that speaks TLS and logs in with a password.
func (c *cluster) safe(password string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.SASLBrokers()...), kgo.DialTLSConfig(&tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}),
		kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()),
	}
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.UnknownTopicRetries(-1)}, opts...)...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(client.Close)
	return client
}

// handle fails what is bad while the bug is there.
func (c *cluster) handle(_ context.Context, m *consumer.Message) error {
	defer c.completed.Add(1)
	if c.stillBad.Load() && strings.HasPrefix(string(m.Body), "bad") {
		return consumer.Terminal(errors.New("the bug"))
	}
	return nil
}

func (c *cluster) worker(opts ...kgo.Opt) *kafka.Worker {
	c.Helper()
	dead, err := kafka.NewDeadLetterTopic(c.client(c.safe(password)...), c.topic+".dlq")
	if err != nil {
		c.Fatal(err)
	}
	w, err := kafka.NewWorker(append(opts, kgo.ConsumerGroup(c.topic), kgo.ConsumeTopics(c.topic)), c.ledger, consumer.HandlerFunc(c.handle),
		&kafka.Config{Options: consumer.Options{DeadLetter: dead, Logger: c.log}})
	if err != nil {
		c.Fatal(err)
	}
	return w
}

// work runs a worker until n messages were handled.
func (c *cluster) work(n int64, opts ...kgo.Opt) {
	c.Helper()
	c.completed.Store(0)
	ctx, stop := context.WithCancel(c.Context())
	ended := make(chan error, 1)
	w := c.worker(opts...)
	go func() { ended <- w.Run(ctx) }()
	eventually(c.T, fmt.Sprintf("%d messages handled", n), func() bool { return c.completed.Load() >= n })
	stop()
	if err := <-ended; err != nil {
		c.Fatalf("Run: %v", err)
	}
	if got := c.completed.Load(); got != n {
		c.Errorf("%d messages handled, want %d", got, n)
	}
}

func (c *cluster) failed() (n int) {
	c.Helper()
	for _, err := range c.ledger.DeadLetters(c.Context(), ledger.Filter{State: ledger.Failed}) {
		if err != nil {
			c.Fatal(err)
		}
		n++
	}
	return n
}

// TestKafkaOverTLSAndSCRAM: a worker, its dead letters and their replay by the command, all over TLS with a login; and
// what goes wrong with either ends in a clear error, without the password.
func TestKafkaOverTLSAndSCRAM(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.refused()
	c.stillBad.Store(true)
	var records []*kgo.Record
	for i := range 20 {
		value := fmt.Sprintf("good %d", i)
		if i%4 == 0 {
			value = fmt.Sprintf("bad %d", i)
		}
		records = append(records, &kgo.Record{Topic: c.topic, Key: []byte(value), Value: []byte(value)})
	}
	if err := c.client(c.safe(password)...).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.work(20, c.safe(password)...)
	if n := c.failed(); n != 5 {
		t.Fatalf("%d dead letters, want 5", n)
	}
	c.stillBad.Store(false)
	c.refusesToReplay()
	if r := c.replay(password, "--tls-ca", c.ca); r.code != 0 || !strings.Contains(r.text, "5 replayed") {
		t.Fatalf("replay: code %d: %s", r.code, r.text)
	}
	// The other secure listener takes a certificate of the client's in place of a login.
	c.work(5, kgo.SeedBrokers(c.TLSBrokers()...), kgo.DialTLSConfig(&tls.Config{
		RootCAs: c.roots, Certificates: []tls.Certificate{c.identity}, MinVersion: tls.VersionTLS12,
	}))
	if n := c.failed(); n != 0 {
		t.Errorf("%d messages are still failed", n)
	}
	c.logged.without(t, password, wrong)
}

// refused: Run ends by itself, and says why.
func (c *cluster) refused() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	err := c.worker(c.safe(wrong)...).Run(ctx)
	if !errors.Is(err, kerr.SaslAuthenticationFailed) || strings.Contains(err.Error(), wrong) {
		c.Errorf("a wrong password: %v", err)
	}
	c.Logf("a wrong password: %v", err)
	stranger := append(c.safe(password), kgo.DialTLSConfig(&tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}))
	err = c.worker(stranger...).Run(ctx)
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok || strings.Contains(err.Error(), password) {
		c.Errorf("an unknown authority: %v", err)
	}
	c.Logf("an unknown authority: %v", err)
}

func (c *cluster) replay(password string, more ...string) said {
	c.Helper()
	return ackledger(c.T, slices.Concat([]string{
		"replay", "--ledger", c.file, "--source", "kafka:" + c.topic + ".dlq", "--to", "source", "--yes",
		"--brokers", strings.Join(c.SASLBrokers(), ","), "--sasl", "scram-sha-512", "--sasl-user", user,
		"--sasl-password-file", c.write("password", password+"\n"),
	}, more)...)
}

// refusesToReplay: the command fails in one line, and replays nothing.
func (c *cluster) refusesToReplay() {
	c.Helper()
	stranger, err := services.NewAuthority()
	if err != nil {
		c.Fatal(err)
	}
	for name, v := range map[string]struct {
		password, ca, want string
	}{
		"a wrong password":     {wrong, c.ca, "SASL_AUTHENTICATION_FAILED"},
		"an unknown authority": {password, c.write("stranger.pem", string(stranger.PEM)), "certificate"},
	} {
		r := c.replay(v.password, "--tls-ca", v.ca)
		if r.code != 1 || !strings.Contains(r.text, v.want) || strings.Count(r.text, "\n") != 1 || strings.Contains(r.text, v.password) {
			c.Errorf("%s: code %d: %s", name, r.code, r.text)
		}
		c.Logf("%s: %s", name, r.text)
	}
}

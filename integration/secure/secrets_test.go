package secure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// awsSecret is a secret access key.
const awsSecret = "hush-aws/s3cret"

// asksForPasswords makes every role but the superuser log in with a password, and makes one.
func asksForPasswords(t *testing.T, admin, role, password string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var file string
	if err := conn.QueryRow(t.Context(), "SHOW hba_file").Scan(&file); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, password),
		"COPY (VALUES ('host all postgres 127.0.0.1/32 trust'), ('host all all 127.0.0.1/32 scram-sha-256')) TO '" + file + "'",
		"SELECT pg_reload_conf()",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// notes is all that a worker tells anybody but its caller.
type notes struct {
	noop.TracerProvider
	lines
	reader *sdkmetric.ManualReader
}

func newNotes() *notes { return &notes{reader: sdkmetric.NewManualReader()} }

func (n *notes) options(name string) consumer.Options {
	return consumer.Options{
		Name: name, TracerProvider: n, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(n.reader)), Lease: 3 * time.Second, Drain: time.Second,
		Logger: zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&n.lines), zap.DebugLevel)),
	}
}

// Tracer writes down what spans are begun with.
func (n *notes) Tracer(string, ...trace.TracerOption) trace.Tracer { return spans{of: n} }

type spans struct {
	noop.Tracer
	of *notes
}

// Start writes down a span's name and attributes.
func (s spans) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(options...)
	fmt.Fprintf(s.of, "span %s %s\n", name, attributes(attribute.NewSet(c.Attributes()...)))
	return ctx, &span{of: s.of}
}

type span struct {
	noop.Span
	of *notes
}

// SetAttributes writes them down.
func (s *span) SetAttributes(kv ...attribute.KeyValue) {
	fmt.Fprintf(s.of, "span %s\n", attributes(attribute.NewSet(kv...)))
}

// RecordError writes it down.
func (s *span) RecordError(err error, _ ...trace.EventOption) {
	fmt.Fprintf(s.of, "span error %v\n", err)
}

func attributes(set attribute.Set) string {
	var text strings.Builder
	for _, kv := range set.ToSlice() {
		fmt.Fprintf(&text, " %s=%s", kv.Key, kv.Value.String())
	}
	return text.String()
}

// without adds the metrics, and says that no secret is in anything.
func (n *notes) without(t *testing.T, secrets ...string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := n.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			var sets []attribute.Set
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					sets = append(sets, p.Attributes)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					sets = append(sets, p.Attributes)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					sets = append(sets, p.Attributes)
				}
			}
			for _, s := range sets {
				fmt.Fprintf(&n.lines, "metric %s %s\n", m.Name, attributes(s))
			}
		}
	}
	n.lines.without(t, secrets...)
}

// has says that something is in what was noted: a test of nothing would pass, too.
func (n *notes) has(t *testing.T, part string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !strings.Contains(n.text.String(), part) {
		t.Errorf("%q is not among the notes:\n%s", part, n.text.String())
	}
}

// queue is a server in process whose client has a secret key, and one queue with one message.
func queue(t *testing.T) (*sqstest.Server, *awssqs.Client, string) {
	t.Helper()
	server := sqstest.Start(t, nil)
	client := server.Client(func(o *awssqs.Options) {
		o.Credentials, o.Retryer = credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", awsSecret, ""), aws.NopRetryer{}
	})
	url, err := server.CreateQueue("orders", map[string]string{"VisibilityTimeout": "60"})
	if err == nil {
		_, err = client.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("body")})
	}
	if err != nil {
		t.Fatal(err)
	}
	return server, client, url
}

// TestPostgresPasswordsStayOut: a ledger whose login is refused says so in what Join and Run return and log, without the
// password, whether it was in a URL or in key=value.
func TestPostgresPasswordsStayOut(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	db, err := services.StartPostgres(t.Context(), services.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	const role, right, bad = "clerk", "hush-right", "hush-wrong"
	asksForPasswords(t, db.URL(), role, right)
	c, err := pgx.ParseConfig(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"URL":       fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable", role, bad, db.Addr()),
		"parameter": fmt.Sprintf("postgres://%s/postgres?sslmode=disable&user=%s&password=%s", db.Addr(), role, bad),
		"key=value": fmt.Sprintf("host=%s port=%d dbname=postgres sslmode=disable user=%s password='%s'", c.Host, c.Port, role, bad),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := postgres.New(t.Context(), openPool(t, url, pgx.QueryExecModeExec), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if _, err = l.Join(t.Context(), time.Minute); !ledger.Unusable(err) || !strings.Contains(err.Error(), "refuses the login") || strings.Contains(err.Error(), bad) {
				t.Errorf("Join: %v", err)
			}
			n := newNotes()
			_, client, queueURL := queue(t)
			w, err := sqs.NewWorker(client, queueURL, l, nothing, &sqs.Config{Options: n.options("clerk")})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Run(t.Context()); !ledger.Unusable(err) || strings.Contains(err.Error(), bad) {
				t.Errorf("Run: %v", err)
			}
			n.without(t, bad, awsSecret)
			// The command takes the password from the environment too, and shows neither.
			r := ackledger(t, "stats", "--ledger", url)
			if r.code == 0 || r.text == "" || strings.Contains(r.text, bad) {
				t.Errorf("stats: code %d: %s", r.code, r.text)
			}
		})
	}
}

var nothing = consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })

// TestAWSSecretsStayOut: a worker that is refused, throttled and cut off, and then works, tells nobody its secret key.
func TestAWSSecretsStayOut(t *testing.T) {
	t.Parallel()
	server, client, url := queue(t)
	l, err := sqlite.Open(t.Context(), t.TempDir()+"/ledger.db", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	n := newNotes()
	failing := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return consumer.Terminal(errors.New("the bug")) })
	w, err := sqs.NewWorker(client, url, l, failing, &sqs.Config{Options: n.options("clerk"), WaitTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, f := range []sqstest.Fault{
		{Action: "ReceiveMessage", Status: 500}, {Action: "DeleteMessageBatch", Code: "RequestThrottled"}, {Action: "DeleteMessageBatch", Drop: true},
	} {
		server.Inject(f)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	eventually(t, "the queue is empty", func() bool { return server.Queue("orders").Depth() == 0 })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	remove := server.Inject(sqstest.Fault{Action: "GetQueueAttributes", Code: "AccessDenied", Status: 403, Times: -1})
	defer remove()
	again, err := sqs.NewWorker(client, url, l, nothing, &sqs.Config{Options: consumer.Options{Name: "clerk"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") || strings.Contains(err.Error(), awsSecret) {
		t.Errorf("Run: %v", err)
	}
	n.without(t, awsSecret)
	for _, part := range []string{"span ", "metric ", "InternalError"} {
		n.has(t, part)
	}
}

// TestNoServerIsTakenForAFile: the address of a server is no SQLite file, and is not named, since passwords are in such.
func TestNoServerIsTakenForAFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postgres://u:hush@h/db", "host=h user=u password=hush"} {
		l, err := sqlite.Open(t.Context(), name, nil)
		if err == nil {
			_ = l.Close()
		}
		if _, ok := errors.AsType[*ledger.InvalidError](err); !ok || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v", err)
		}
	}
}

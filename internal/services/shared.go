package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Servers named in the environment are used instead of own ones.
const (
	// EnvPostgres is a URL (postgres://…) of PostgreSQL whose user may CREATE DATABASE.
	EnvPostgres = "ACKLEDGER_TEST_POSTGRES"
	// EnvPostgres14 is the same for the oldest supported version.
	EnvPostgres14 = "ACKLEDGER_TEST_POSTGRES14"
	// EnvKafka is a list of brokers, host:port, separated by commas.
	EnvKafka = "ACKLEDGER_TEST_KAFKA"
	// EnvSQS is the endpoint of an SQS-compatible server, or [AWS] for a real account.
	EnvSQS = "ACKLEDGER_TEST_SQS"
	// EnvUnit, when not empty, skips every test that asks for a server, and says so: `make unit`.
	EnvUnit = "ACKLEDGER_UNIT"
)

// Servers started for this process, once. They end with it.
var (
	ownPostgres18 = sync.OnceValues(func() (string, error) { return sharedPostgres(18) })
	ownPostgres14 = sync.OnceValues(func() (string, error) { return sharedPostgres(14) })

	ownKafka = sync.OnceValues(func() ([]string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
		defer cancel()
		cluster, err := StartKafka(ctx, KafkaOptions{})
		if err != nil {
			return nil, err
		}
		return cluster.Brokers(), nil
	})

	ownElasticMQ = sync.OnceValues(func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
		defer cancel()
		server, err := StartElasticMQ(ctx)
		if err != nil {
			return "", err
		}
		return server.Endpoint(), nil
	})
)

func sharedPostgres(version int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	server, err := StartPostgres(ctx, PostgresOptions{Version: version})
	if err != nil {
		return "", err
	}
	return server.URL(), nil
}

// PG is a fresh, empty database on a PostgreSQL server.
type PG struct {
	URL      string // of the fresh database
	Database string // its name
	AdminURL string // of the server, for a user who may create databases
}

// Postgres returns a fresh database on PostgreSQL 18, or on the server named in [EnvPostgres]. It is dropped, with its
// sessions, when the test ends. The server is shared: a test that stops it or sets it up uses [StartPostgres].
func Postgres(tb testing.TB) *PG {
	tb.Helper()
	return freshDatabase(tb, EnvPostgres, ownPostgres18)
}

// Postgres14 is [Postgres] on the oldest supported version, or on the server named in [EnvPostgres14].
func Postgres14(tb testing.TB) *PG {
	tb.Helper()
	return freshDatabase(tb, EnvPostgres14, ownPostgres14)
}

// Kafka returns the brokers of the shared cluster, or those named in [EnvKafka]. Topics and groups get names of their
// own ([Name]); deleting them is left to the test.
func Kafka(tb testing.TB) []string {
	tb.Helper()
	named, ok := fromEnv(tb, EnvKafka)
	if !ok {
		return start(tb, ownKafka)
	}
	brokers := strings.FieldsFunc(named, func(r rune) bool { return r == ',' || r == ' ' })
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	if err := askKafka(ctx, brokers); err != nil {
		tb.Fatalf("services: %s=%s: %v", EnvKafka, named, err)
	}
	return brokers
}

// ElasticMQ returns the endpoint of the shared SQS-compatible server, or the one named in [EnvSQS]. With "aws" there it
// is ElasticMQ all the same: what fills queues by the thousand is not for an account that somebody pays for ([SQS] is).
// Queues get names of their own ([Name]); deleting them is left to the test.
func ElasticMQ(tb testing.TB) string {
	tb.Helper()
	if named := SQS(tb); named != AWS {
		return named
	}
	return start(tb, ownElasticMQ)
}

// AWS is the value of [EnvSQS] and of [EnvDynamoDB] that means a real account.
const AWS = "aws"

// SQS returns what [EnvSQS] says, [AWS] too; without it the endpoint of the shared ElasticMQ.
func SQS(tb testing.TB) string {
	tb.Helper()
	if named, ok := fromEnv(tb, EnvSQS); ok {
		return named
	}
	return start(tb, ownElasticMQ)
}

// Name returns a new name made of the test's name and chance: at most 48 of a-z, 0-9 and _, a letter first. It fits as
// a database, schema, topic, group or queue (add .fifo), and so lets tests share servers, run at once and run again.
func Name(tb testing.TB) string {
	const keep = 30
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, strings.TrimPrefix(tb.Name(), "Test"))
	return "t_" + name[:min(keep, len(name))] + "_" + strings.ToLower(rand.Text()[:12])
}

// NeedServers skips the test when [EnvUnit] asks for no servers. [StartPostgres], [StartKafka], [StartElasticMQ] and
// [StartDynamoDB] know no test: one that calls them calls this first.
func NeedServers(tb testing.TB) {
	tb.Helper()
	if os.Getenv(EnvUnit) != "" {
		tb.Skipf("services: %s is set: tests that need a server are left out", EnvUnit)
	}
}

// fromEnv returns the server that the user named.
func fromEnv(tb testing.TB, name string) (string, bool) {
	tb.Helper()
	NeedServers(tb)
	value := strings.TrimSpace(os.Getenv(name))
	return value, value != ""
}

func start[T any](tb testing.TB, own func() (T, error)) T {
	tb.Helper()
	server, err := own()
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

func freshDatabase(tb testing.TB, env string, own func() (string, error)) *PG {
	tb.Helper()
	admin, named := fromEnv(tb, env)
	if !named {
		admin = start(tb, own)
	}
	u, err := url.Parse(admin)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		tb.Fatalf("services: %s must be a URL postgres://user:password@host:port/database", env) // not the value: it may hold a password
	}
	pg := &PG{Database: Name(tb), AdminURL: admin}
	u.Path, u.RawPath = "/"+pg.Database, ""
	pg.URL = u.String()
	quoted := pgx.Identifier{pg.Database}.Sanitize()
	if err := execPostgres(tb.Context(), admin, "CREATE DATABASE "+quoted+" TEMPLATE template0"); err != nil {
		tb.Fatalf("services: the server of %s must be reachable and its user must have the right CREATEDB: %v", env, err)
	}
	tb.Cleanup(func() { // tb.Context is over here
		if err := execPostgres(context.Background(), admin, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
			tb.Errorf("services: drop the test's database %s: %v", pg.Database, err)
		}
	})
	return pg
}

// WithParameter sets a parameter in a server's URL, which may have some or none.
func WithParameter(tb testing.TB, server, name, value string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal("services: the server's URL cannot be read") // not the value: it may hold a password
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func execPostgres(ctx context.Context, url, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// askKafka sees whether the named brokers answer, so that a wrong name is not met as a test that hangs.
func askKafka(ctx context.Context, brokers []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).BrokerMetadata(ctx); err != nil {
		return fmt.Errorf("no answer to a Metadata request: %w", err)
	}
	return nil
}

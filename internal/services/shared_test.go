package services

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestFreshDatabases(t *testing.T) {
	t.Parallel()
	var kept, gone *PG
	t.Run("inner", func(t *testing.T) {
		gone = Postgres(t)
		if err := execPostgres(t.Context(), gone.URL, "CREATE TABLE mine ()"); err != nil {
			t.Error(err)
		}
	})
	kept = Postgres(t)
	if got := queryPostgres(t, kept.URL, "SELECT current_database()"); got != kept.Database || got == gone.Database {
		t.Errorf("want %s, not %s: got %s", kept.Database, gone.Database, got)
	}
	if got := queryPostgres(t, kept.URL, "SELECT count(*)::text FROM pg_tables WHERE tablename = 'mine'"); got != "0" {
		t.Error("a fresh database is not empty")
	}
	left := "SELECT count(*)::text FROM pg_database WHERE datname = '" + gone.Database + "'"
	if got := queryPostgres(t, kept.AdminURL, left); got != "0" {
		t.Error("the database is still there after its test")
	}
}

func TestSharedKafkaAndElasticMQ(t *testing.T) {
	t.Parallel()
	brokers, again := Kafka(t), Kafka(t)
	if fmt.Sprint(brokers) != fmt.Sprint(again) {
		t.Errorf("not shared: %v and %v", brokers, again)
	}
	if err := askKafka(t.Context(), brokers); err != nil {
		t.Error(err)
	}
	endpoint := ElasticMQ(t)
	if endpoint != ElasticMQ(t) {
		t.Error("not shared")
	}
	if err := askSQS(t.Context(), endpoint); err != nil {
		t.Error(err)
	}
}

// recorder stands in for a test that ends early.
type recorder struct {
	testing.TB
	failed, skipped string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func record(t *testing.T, f func(testing.TB)) *recorder {
	r, done := &recorder{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestNamedServers(t *testing.T) {
	t.Setenv(EnvUnit, "") // this test asks no server that answers
	t.Setenv(EnvPostgres, "host=secret password=hunter2")
	got := record(t, func(tb testing.TB) { Postgres(tb) })
	if !strings.Contains(got.failed, EnvPostgres+" must be a URL") || strings.Contains(got.failed, "hunter2") {
		t.Errorf("not a URL: %q", got.failed)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvPostgres, "postgres://me:hunter2@"+loopback(ports[0])+"/db")
	got = record(t, func(tb testing.TB) { Postgres(tb) })
	if !strings.Contains(got.failed, EnvPostgres) || !strings.Contains(got.failed, "CREATEDB") || strings.Contains(got.failed, "hunter2") {
		t.Errorf("nobody there: %q", got.failed)
	}
	t.Setenv(EnvSQS, "aws")
	if endpoint := SQS(t); endpoint != AWS {
		t.Errorf("want aws, got %s", endpoint)
	}
	t.Setenv(EnvUnit, "1")
	got = record(t, func(tb testing.TB) { Kafka(tb) })
	if !strings.Contains(got.skipped, EnvUnit) {
		t.Errorf("not skipped: %+v", got)
	}
}

// A test that joined its parameters to a URL by hand failed with a URL of the other kind.
func TestWithParameter(t *testing.T) {
	for server, want := range map[string]string{
		"postgres://me:it%40s@h:1/db":                     "postgres://me:it%40s@h:1/db?application_name=a+b",
		"postgres://h/db?sslmode=x":                       "postgres://h/db?application_name=a+b&sslmode=x",
		"postgres://h/db?application_name=c&sslmode=x%26": "postgres://h/db?application_name=a+b&sslmode=x%26",
	} {
		if got := WithParameter(t, server, "application_name", "a b"); got != want {
			t.Errorf("%s: %s, want %s", server, got, want)
		}
	}
	for version, want := range map[int]bool{0: false, 14: true, 18: false} {
		p := &PostgresServer{Server: &Server{addr: "h:1"}, version: version}
		if got := strings.Contains(p.URL(), "?"); got != want {
			t.Errorf("the URL of version %d has parameters: %v", version, got)
		}
	}
}

func TestName(t *testing.T) {
	t.Run("Long/with Ünïcode and, all kinds of * characters in it, far too many of them", func(t *testing.T) {
		a, b := Name(t), Name(t)
		if a == b {
			t.Errorf("twice %s", a)
		}
		if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`).MatchString(a) {
			t.Errorf("does not fit everywhere: %s", a)
		}
	})
}

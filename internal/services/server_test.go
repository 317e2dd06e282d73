package services

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func queryPostgres(t *testing.T, url, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	err = conn.QueryRow(t.Context(), query).Scan(&got)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return got
}

func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	s, err := StartPostgres(t.Context(), PostgresOptions{Conf: map[string]string{
		"synchronous_commit": "off", "application_name": "it's", "port": "1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, s) })
	for setting, want := range map[string]string{
		"synchronous_commit": "off", "application_name": "it's", "fsync": "on", "max_connections": "200", "listen_addresses": "127.0.0.1",
	} {
		if got := queryPostgres(t, s.URL(), "SHOW "+setting); got != want {
			t.Errorf("%s: want %s, got %s", setting, want, got)
		}
	}
	if err := execPostgres(t.Context(), s.URL(), "CREATE TABLE kept AS SELECT 'here' AS word"); err != nil {
		t.Fatal(err)
	}
	// synchronous_commit=off: a crash may lose the last commits. What follows is about those before.
	if err := execPostgres(t.Context(), s.URL(), "CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	restarts(t, s.Server, func() {
		if got := queryPostgres(t, s.URL(), "SELECT word FROM kept"); got != "here" {
			t.Errorf("after a restart: %q", got)
		}
	})
}

// restarts ends the server both ways and starts it again on its port.
func restarts(t *testing.T, s *Server, check func()) {
	t.Helper()
	addr := s.Addr()
	for name, end := range map[string]func() error{"stop": s.Stop, "kill": s.Kill} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if listening(addr) {
			t.Fatalf("%s: %s still listens", name, addr)
		}
		if err := end(); err != nil {
			t.Fatalf("%s again: %v", name, err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatalf("start after %s: %v", name, err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatalf("start while it runs: %v", err)
		}
		check()
	}
}

func closeServer(t *testing.T, s interface{ Close() error }) {
	t.Helper()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestPostgres14(t *testing.T) {
	t.Parallel()
	if got := queryPostgres(t, Postgres14(t).URL, "SHOW server_version"); !strings.HasPrefix(got, "14.") {
		t.Errorf("want PostgreSQL 14, got %s", got)
	}
}

func TestClosedServerStaysClosed(t *testing.T) {
	t.Parallel()
	s, err := StartElasticMQ(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	restarts(t, s.Server, func() {
		if err := askSQS(t.Context(), s.Endpoint()); err != nil {
			t.Error(err)
		}
	})
	closeServer(t, s)
	if listening(s.Addr()) || isDir(s.folder.path) {
		t.Error("a closed server left its port or its folder")
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("started after Close: %v", err)
	}
}

func TestKafkaRestarts(t *testing.T) {
	t.Parallel()
	cluster, err := StartKafka(t.Context(), KafkaOptions{Brokers: 2, Properties: map[string]string{"auto.create.topics.enable": "false"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, cluster) })
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers()...), kgo.ConsumeTopics("kept"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	brokers, err := admin.ListBrokers(t.Context())
	if err != nil || !slices.Equal(brokers.NodeIDs(), []int32{1, 2}) {
		t.Fatalf("want brokers 1 and 2, got %v (%v)", brokers.NodeIDs(), err)
	}
	if _, err := admin.CreateTopic(t.Context(), 2, 2, nil, "kept"); err != nil {
		t.Fatal(err)
	}
	want := []string{"begin"}
	produce := func(word string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte(word)}).FirstErr(); err != nil {
			t.Fatalf("produce %s: %v", word, err)
		}
	}
	produce("begin")
	addrs := cluster.Brokers()
	for _, step := range []struct {
		name       string
		end, start func() error
	}{
		{"stop", cluster.Stop, func() error { return cluster.Start(t.Context()) }},
		{"kill", cluster.Kill, func() error { return cluster.Start(t.Context()) }},
		{"kill one", cluster.Broker(1).Kill, func() error { return cluster.Broker(1).Start(t.Context()) }},
	} {
		if err := step.end(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if up := listening(addrs[0]); up != (step.name == "kill one") || listening(addrs[1]) {
			t.Fatalf("%s: broker 0 listens: %t, broker 1: %t", step.name, up, listening(addrs[1]))
		}
		if err := step.start(); err != nil {
			t.Fatalf("start after %s: %v", step.name, err)
		}
		produce(step.name)
		want = append(want, step.name)
	}
	got := consume(t, client, len(want))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("want the records %v, got %v", want, got)
	}
}

func consume(t *testing.T, client *kgo.Client, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("only %v after a minute: %v", got, fetches.Err())
		}
		for r := range fetches.RecordsAll() {
			got = append(got, string(r.Value))
		}
	}
	slices.Sort(got)
	return got
}

// A server that cannot start says why, with the end of its own log, and at once.
func TestStartFailureShowsTheLog(t *testing.T) {
	t.Parallel()
	_, err := StartPostgres(t.Context(), PostgresOptions{Conf: map[string]string{"shared_buffers": "nonsense"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "shared_buffers"`) {
		t.Errorf("got %v", err)
	}
	if _, err := StartPostgres(t.Context(), PostgresOptions{Version: 9}); err == nil || !strings.Contains(err.Error(), "Version: 14 to 18") {
		t.Errorf("version 9: got %v", err)
	}
	if _, err := StartKafka(t.Context(), KafkaOptions{Brokers: 3}); err == nil || !strings.Contains(err.Error(), "got 3") {
		t.Errorf("3 brokers: got %v", err)
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		l, err := net.Listen("tcp4", loopback(p))
		if err != nil || seen[p] || p >= 32768 {
			t.Errorf("port %d: taken, double or in the range of outgoing connections (%v)", p, err)
			continue
		}
		seen[p] = true
		defer l.Close()
	}
}

func TestPostgresPlatform(t *testing.T) {
	for _, c := range []struct {
		version      int
		os, arch     string
		want, absent string
	}{
		{18, "linux", "amd64", "linux-amd64", ""},
		{18, "linux", "arm64", "linux-arm64v8", ""},
		{18, "darwin", "arm64", "darwin-arm64v8", ""},
		{14, "darwin", "arm64", "darwin-amd64", ""},
		{14, "linux", "arm64", "linux-arm64v8", ""},
		{18, "windows", "amd64", "", "windows/amd64"},
		{18, "linux", "riscv64", "", "linux/riscv64"},
	} {
		got, err := postgresPlatform(c.version, c.os, c.arch)
		if got != c.want || (err != nil) != (c.absent != "") || err != nil && !strings.Contains(err.Error(), c.absent) {
			t.Errorf("%d %s/%s: got %q, %v", c.version, c.os, c.arch, got, err)
		}
	}
}

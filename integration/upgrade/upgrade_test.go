package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/internal/services"
)

const (
	root       = "../.."
	versionAt  = "ledger/postgres/version.go"
	migrations = "ledger/postgres/migrations"
	workerAt   = "cmd/upgradeworker" // of an older tree
)

var versionIs = regexp.MustCompile(`program = versions\{worker: (\d+)`)

// git answers a question about the history.
func git(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	return exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).Output()
}

// previous returns the youngest commit of the version of the schema before today's; empty: the history does not reach there. Its
// last migration is as it is today: what stood there while a branch was made was nobody's schema.
func previous(t *testing.T) (commit string, version int) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(root, versionAt))
	if err != nil {
		t.Fatal(err)
	}
	version = versionIn(t, program) - 1
	files, err := filepath.Glob(filepath.Join(root, migrations, fmt.Sprintf("%05d_*.sql", version)))
	if err != nil || len(files) != 1 {
		t.Fatalf("migration %d: %v, %v", version, files, err)
	}
	last := migrations + "/" + filepath.Base(files[0])
	today, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	list, err := git(t, "log", "--format=%H", "--", path.Dir(migrations))
	if err != nil {
		return "", version
	}
	for _, c := range strings.Fields(string(list)) {
		was, err := git(t, "show", c+":"+last)
		if err != nil || !bytes.Equal(was, today) {
			continue
		}
		if program, err := git(t, "show", c+":"+versionAt); err == nil && versionIn(t, program) == version {
			return c, version
		}
	}
	return "", version
}

// versionIn is the schema that workers know by their source; 0 if it does not say.
func versionIn(t *testing.T, source []byte) int {
	t.Helper()
	found := versionIs.FindSubmatch(source)
	if found == nil {
		return 0
	}
	version, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// buildOld builds the worker in a tree of its own.
func buildOld(t *testing.T, commit string) string {
	t.Helper()
	tree := t.TempDir()
	packed, err := git(t, "archive", commit)
	if err != nil {
		t.Fatal(err)
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", tree)
	unpack.Stdin = bytes.NewReader(packed)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v, %s", err, out)
	}
	source, err := os.ReadFile(filepath.Join("worker", "main.go"))
	if err == nil {
		err = os.MkdirAll(filepath.Join(tree, workerAt), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tree, workerAt, "main.go"), source, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return build(t, filepath.Join(tree, workerAt))
}

// build builds the worker whose source is in dir.
func build(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "worker")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", file, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off") // an older tree is a module by itself
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build in %s: %v, %s", dir, err, out)
	}
	return file
}

// site is a topic and a database.
type site struct {
	*testing.T
	url, brokers, topic string
	conn                *pgx.Conn
	client              *kgo.Client
	sent                int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, url: services.Postgres(t).URL, topic: services.Name(t)}
	brokers := services.Kafka(t)
	s.brokers = strings.Join(brokers, ",")
	var err error
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	if _, err := kadm.NewClient(s.client).CreateTopic(t.Context(), 4, 1, nil, s.topic); err != nil {
		t.Fatal(err)
	}
	if s.conn, err = pgx.Connect(t.Context(), s.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close(context.Background()) })
	if _, err := s.conn.Exec(t.Context(), "CREATE TABLE effect (message text, worker text)"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) send(n int) {
	s.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: s.topic, Key: fmt.Appendf(nil, "%d", s.sent%50), Value: fmt.Appendf(nil, "%d", s.sent)}
		s.sent++
	}
	if err := s.client.ProduceSync(s.Context(), records...).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// migrate brings the tables to the version of a program.
func (s *site) migrate(program string) {
	s.Helper()
	if out, err := exec.CommandContext(s.Context(), program, "migrate", s.url).CombinedOutput(); err != nil {
		s.Fatalf("migrate: %v, %s", err, out)
	}
}

// start starts a worker, and returns what ends it: a drain, which must be clean.
func (s *site) start(program, name string) (end func()) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), program, "work", s.url, s.brokers, s.topic, name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return func() {
		s.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.Errorf("worker %s: %v", name, err)
		}
		if err := cmd.Wait(); err != nil {
			s.Errorf("worker %s: %v, %s", name, err, out.String())
		}
	}
}

// handled waits until all that was sent has had its effect, once, and some of it by each of the named workers since the last call.
func (s *site) handled(by ...string) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var all, different int
		var workers []string
		if err := s.conn.QueryRow(s.Context(), "SELECT count(*), count(DISTINCT message), coalesce(array_agg(DISTINCT worker), '{}') FROM effect").
			Scan(&all, &different, &workers); err != nil {
			s.Fatal(err)
		}
		if all > different {
			s.Fatalf("%d effects of %d messages", all, different)
		}
		missing := false
		for _, name := range by {
			missing = missing || !strings.Contains(" "+strings.Join(workers, " ")+" ", " "+name+" ")
		}
		if different == s.sent && !missing {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%d of %d messages were handled, by %v", different, s.sent, workers)
		}
		if different == s.sent {
			s.send(20) // somebody has handled nothing yet
		}
		select {
		case <-s.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A build of the version before works on before, while and after the schema is migrated, beside those of today, and alone again when
// these are rolled back; the schema stays. Each message has its effect once.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	if os.Getenv("ACKLEDGER_LONG") == "" {
		t.Skip("SKIPPED: it builds a program of the history: ACKLEDGER_LONG=1")
	}
	services.NeedServers(t)
	commit, version := previous(t)
	if commit == "" {
		services.Missing(t, fmt.Sprintf("an upgrade from a build of version %d of the schema: the history (.git) does not reach there", version))
	}
	was, is := buildOld(t, commit), build(t, "worker")
	s := newSite(t)
	s.migrate(was)
	endOld := s.start(was, "old")
	s.send(500)
	s.handled("old")

	s.send(500)
	s.migrate(is)
	s.send(500)
	s.handled()
	endNew := s.start(is, "new")
	s.handled("new") // both, in one group
	endOld()
	s.send(500)
	s.handled()

	endOld = s.start(was, "back") // a rollback of the binaries
	endNew()
	s.send(500)
	s.handled("back")
	endOld()
	s.migrate(was) // a program of before leaves the tables as they are
	endNew = s.start(is, "again")
	s.send(500)
	s.handled("again")
	endNew()
}

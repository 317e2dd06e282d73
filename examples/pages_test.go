package examples_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"go/format"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// block is one piece of Go in a page.
type block struct {
	page, heading, source string
	n                     int
}

var goBlock = regexp.MustCompile("(?ms)^## ([^\n]+)$|^```go\n(.*?)^```$")

// blocks returns all Go of README.md and docs/. docs/design/ is left out: it shows the shape of the API, no programs.
func blocks(t *testing.T) (all []block) {
	t.Helper()
	for _, page := range pages(t) {
		if strings.Contains(page, "/design/") {
			continue
		}
		heading, n := "", 0
		for _, m := range goBlock.FindAllStringSubmatch(read(t, page), -1) {
			if m[1] != "" {
				heading = m[1]
				continue
			}
			n++
			all = append(all, block{page: filepath.Base(page), heading: heading, source: m[2], n: n})
		}
	}
	return all
}

// name is that of the block's package, and of the program or the tests that are made of it.
func (b block) name() string {
	return fmt.Sprintf("%s_%d", strings.ToLower(strings.TrimSuffix(b.page, ".md")), b.n)
}

// tests says whether the block is the tests of somebody's handler.
func (b block) tests() bool { return strings.Contains(b.source, "testing.T") }

// compileBlocks compiles all blocks at once, and puts the programs and tests that they are into the folder of programs. Each
// block is a package that exists in the go command's overlay alone.
func compileBlocks(all []block) error {
	dir, err := os.MkdirTemp(programs, "pages-")
	if err != nil {
		return err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	const folder = "examples/internal"
	overlay := map[string]string{}
	build := []string{"build"}
	test := []string{"test", "-c", "-vet=off"} // vet wants the folders to be there
	for _, b := range all {
		file, of := "block.go", &build
		if b.tests() {
			file, of = "block_test.go", &test
		}
		source := filepath.Join(dir, b.name()+".go")
		if err := os.WriteFile(source, []byte(b.source), 0o600); err != nil {
			return err
		}
		overlay[filepath.Join(root, folder, b.name(), file)] = source
		*of = append(*of, "./"+folder+"/"+b.name())
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{build, test} {
		cmd := exec.Command("go", slices.Insert(args, 1, "-overlay", filepath.Join(dir, "overlay.json"), "-ldflags=-w", "-o", programs+"/")...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off") // each module by itself
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

var compiled struct {
	once sync.Once
	err  error
}

// compile returns the path of what is made of the block.
func (b block) compile(t *testing.T) string {
	t.Helper()
	compiled.once.Do(func() { compiled.err = compileBlocks(blocks(t)) })
	if compiled.err != nil {
		t.Fatal(compiled.err)
	}
	return filepath.Join(programs, b.name())
}

func TestThePagesCompileAsTheyStand(t *testing.T) {
	all := blocks(t)
	if len(all) < 5 {
		t.Fatalf("found %d blocks of Go", len(all))
	}
	for _, b := range all {
		t.Run(fmt.Sprintf("%s_%d", b.page, b.n), func(t *testing.T) {
			t.Parallel()
			formatted, err := format.Source([]byte(b.source))
			if err != nil || string(formatted) != b.source {
				t.Errorf("not formatted (%v):\n%s", err, b.source)
			}
			if path := b.compile(t); b.tests() {
				if out, err := exec.CommandContext(t.Context(), path+".test", "-test.v").CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
					t.Errorf("%v\n%s", err, out)
				}
			}
		})
	}
}

// The first workers are short, and they work: each handles one order and drains.
func TestTheFirstWorkersRun(t *testing.T) {
	for _, b := range blocks(t) {
		if !strings.HasPrefix(b.heading, "A first ") {
			continue
		}
		t.Run(b.heading, func(t *testing.T) {
			t.Parallel()
			_, code, _ := strings.Cut(b.source, "\n)\n")
			lines := 0
			for l := range strings.Lines(code) {
				if strings.TrimSpace(l) != "" {
					lines++
				}
			}
			if lines > 20 {
				t.Errorf("%d lines below the imports, want at most 20", lines)
			}
			p := start(t, b.broker(t), b.compile(t))
			p.logs = true
			p.waitLine("charging 1")
			p.signal()
			if got := p.end(); len(got) != 2 || got[1] != "drained" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// The API pays once for a request that comes twice, and says so twice.
func TestTheAPIRuns(t *testing.T) {
	t.Parallel()
	all := blocks(t)
	b := all[slices.IndexFunc(all, func(b block) bool { return b.heading == "An HTTP API" })]
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE payment (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	p := startIn(t, dir, []string{"ADDR=" + addr}, b.compile(t))
	p.logs = true
	post := func() (status int, body, replayed string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/payments", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", `"8e03978e"`)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, "", ""
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return 0, "", ""
		}
		return answer.StatusCode, string(text), answer.Header.Get("Idempotent-Replayed")
	}
	waitUntil(t, "payment", func() bool {
		status, body, _ := post()
		return status == http.StatusCreated && body == "payment 1\n"
	})
	if status, body, replayed := post(); status != http.StatusCreated || body != "payment 1\n" || replayed != "true" {
		t.Errorf("again: %d %q, replayed %q", status, body, replayed)
	}
	p.signal()
	if got := p.end(); !slices.Equal(got, []string{"drained"}) {
		t.Errorf("got %q", got)
	}
}

// The one with a ledger in PostgreSQL, and one charge in the application's table.
func TestTheWorkerOnPostgresRuns(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "CREATE TABLE charges (order_id text NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	all := blocks(t)
	b := all[slices.IndexFunc(all, func(b block) bool { return b.heading == "Your own PostgreSQL" })]
	p := start(t, append(b.broker(t), "DATABASE_URL="+db.URL), b.compile(t))
	p.logs = true
	waitUntil(t, "charge", func() bool {
		var charges int
		return conn.QueryRow(t.Context(), "SELECT count(*) FROM charges WHERE order_id = '1'").Scan(&charges) == nil && charges == 1
	})
	p.signal()
	if got := p.end(); !slices.Equal(got, []string{"drained"}) {
		t.Errorf("got %q", got)
	}
}

// broker starts the server that the block's program wants, with one order in it, and returns where it is.
func (b block) broker(t *testing.T) []string {
	t.Helper()
	if strings.Contains(b.heading, "SQS") {
		queues := sqstest.Start(t, nil)
		url := createQueue(t, queues, "orders")
		sendOrder(t, queues.Client(), url, "1")
		return append(realSQS(queues), "QUEUE_URL="+url)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	produceOrder(t, cluster.ListenAddrs(), "orders", "1")
	return []string{"KAFKA_BROKERS=" + cluster.ListenAddrs()[0]}
}

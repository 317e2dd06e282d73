package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// program builds the command once, and killable once more, with the steps at which it can be told to die.
var program, killable = built("ackledger"), built("killable", "-tags", "killpoints")

// programs is the folder of what is built.
var programs string

func built(name string, flags ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(programs, name)
		args := append([]string{"build", "-ldflags=-w", "-o", path}, flags...)
		if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return path, nil
	})
}

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "ackledger-command-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// result is how a run of the built command ended.
type result struct {
	code        int
	out, errors string
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return commandOf(t, program, args...)
}

func commandOf(t *testing.T, program func() (string, error), args ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), ledgerVariable+"=")
	return cmd
}

func ackledger(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, command(t, args...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// done checks that a run said nothing but its answer.
func done(t *testing.T, args ...string) string {
	t.Helper()
	r := ackledger(t, args...)
	if r.code != exitDone || r.errors != "" {
		t.Fatalf("ackledger %v: code %d, %s%s", args, r.code, r.errors, r.out)
	}
	return r.out
}

func TestWrongUsageIsOneLineAndDoesNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	for args, want := range map[string]string{
		"frobnicate":                                                          `unknown command "frobnicate"`,
		"stats":                                                               "--ledger is missing",
		"stats extra --ledger " + file:                                        "extra",
		"stats --colour":                                                      "unknown flag: --colour",
		"migrate --ledger mysql://u:hush@h/db":                                `is of the kind "mysql"`,
		"migrate --ledger postgres:hush":                                      "must be a postgres:// URL, a SQLite file or dynamodb:TABLE",
		"migrate --ledger file:hush.db?mode=memory":                           "without key=value or file:",
		"migrate --ledger password=hush":                                      "without key=value or file:",
		"migrate --worker-role w --ledger " + file:                            "are for a ledger in Postgres",
		"stats --schema s --ledger " + file:                                   "--schema is for a ledger in Postgres",
		"stats --accept aurora --ledger " + file:                              "--accept is for a ledger in Postgres",
		"stats --ledger-region eu-west-1 --ledger " + file:                    "--ledger-endpoint-url are for a ledger in DynamoDB",
		"list --ledger dynamodb:orders --endpoint-url http://127.0.0.1:1":     "unknown flag: --endpoint-url (of a ledger in DynamoDB it is --ledger-endpoint-url)",
		"doctor --region":                                                     "flag needs an argument: --region\n",
		"stats --ledger postgres://u@h/d --accept oracle":                     "--accept must be one of alloydb, aurora",
		"migrate --ledger postgres://u@h/d --accept oracle":                   "--accept must be one of alloydb, aurora",
		"maintain --batch 3 --ledger " + file:                                 "--batch must be 100 to 100000 rows, is 3",
		"maintain --batch 0 --ledger " + file:                                 "--batch must be 100 to 100000 rows, is 0",
		"maintain --keep 5y --ledger " + file:                                 `invalid argument "5y" for "--keep"`,
		"maintain --keep 0d --ledger " + file:                                 "must be above 0",
		"maintain --keep 99999999d":                                           "must be at most 36500d",
		"stats --ledger postgres://u:hu@sh@h/d":                               "write @ as %40",
		"stats --ledger postgres://u:hu/sh@h/d":                               "/ as %2F",
		"stats --ledger postgres://u:hu%zz@h/d":                               "cannot parse",
		"stats --ledger postgres://u@h/d --schema " + strings.Repeat("s", 64): "--schema must be",
	} {
		r := ackledger(t, strings.Fields(args)...)
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.errors, want) || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("ackledger %s: code %d, output %q, error %q; want code 2 and one line with %q", args, r.code, r.out, r.errors, want)
		}
		if strings.Contains(r.errors, "hush") || strings.Contains(r.errors, "hu%zz") {
			t.Errorf("ackledger %s prints the password: %s", args, r.errors)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("wrong usage made a ledger")
	}
}

func TestFailuresAreOneLineWithoutPasswords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ledger.db")
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("these are notes\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"stats --ledger " + file:                                    "there is no ledger in " + file,
		"maintain --once --ledger " + file:                          "`ackledger migrate` makes one",
		"stats --ledger " + filepath.Join(dir, "no", "l.db"):        "its folder " + filepath.Join(dir, "no") + " does not exist",
		"stats --ledger " + dir:                                     "is a folder",
		"migrate --ledger " + filepath.Join(dir, "no", "l.db"):      filepath.Join(dir, "no", "l.db"),
		"stats --ledger " + text:                                    text,
		"stats --ledger postgres://u:hush@127.0.0.1:1/d":            "127.0.0.1",
		"migrate --ledger postgres://u@127.0.0.1:1/d?password=hush": "127.0.0.1",
		"maintain --ledger postgres://u:hush@127.0.0.1:1/d":         "127.0.0.1",
	} {
		r := ackledger(t, strings.Fields(args)...)
		if r.code != exitFailed || r.out != "" || !strings.Contains(r.errors, want) || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("ackledger %s: code %d, output %q, error %q; want code 1 and one line with %q", args, r.code, r.out, r.errors, want)
		}
		if strings.Contains(r.errors, "hush") {
			t.Errorf("ackledger %s prints the password: %s", args, r.errors)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("asking for a ledger made one")
	}
}

// TestSQLite goes through the life of a ledger in a file.
func TestSQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	for range 2 {
		if out := done(t, "migrate", "--ledger", file); !strings.Contains(out, "has the tables of this version: "+file) {
			t.Errorf("migrate says %q", out)
		}
	}
	l, err := sqlite.Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	use(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	sweepAndCount(t, file)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t).URL
	if r := ackledger(t, "stats", "--ledger", url); r.code != exitFailed || !strings.Contains(r.errors, "run `ackledger migrate`") {
		t.Errorf("stats without tables: code %d, %s", r.code, r.errors)
	}
	if r := ackledger(t, "maintain", "--ledger", url); r.code != exitFailed || !strings.Contains(r.errors, "run `ackledger migrate`") {
		t.Errorf("maintain without tables: code %d, %s", r.code, r.errors)
	}
	for range 2 {
		if out := done(t, "migrate", "--ledger", url); !strings.Contains(out, `schema "ackledger"`) {
			t.Errorf("migrate says %q", out)
		}
	}
	done(t, "migrate", "--ledger", url, "--schema", `odd "name"`)
	done(t, "stats", "--ledger", url, "--schema", `odd "name"`)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	grants(t, pool, url)
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	use(t, l)
	sweepAndCount(t, url)
}

// grants: a worker's role may do what workers do, and delete nothing.
func grants(t *testing.T, pool *pgxpool.Pool, url string) {
	t.Helper()
	role := pool.Config().ConnConfig.Database + "_worker"
	newRole(t, pool, url, role)
	done(t, "migrate", "--ledger", url, "--worker-role", role)
	r := ackledger(t, "migrate", "--ledger", url, "--worker-role", role, "--operator-role", "no_such_role_here")
	if r.code != exitPartly || !strings.Contains(r.errors, "no_such_role_here") || strings.Count(r.errors, "\n") != 1 {
		t.Errorf("a role that does not exist: code %d, %s", r.code, r.errors)
	}
	var selects, deletes bool
	err := pool.QueryRow(t.Context(), `SELECT has_table_privilege($1, 'ackledger.message', 'SELECT'),
		has_table_privilege($1, 'ackledger.message', 'DELETE')`, role).Scan(&selects, &deletes)
	if err != nil || !selects || deletes {
		t.Errorf("the worker's role: select %t, delete %t, %v", selects, deletes, err)
	}
}

// newRole makes a role for the time of a test.
func newRole(t *testing.T, pool *pgxpool.Pool, url, role string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
}

// use leaves three expired messages that succeeded, one that is pending for a long time, and one that is abandoned.
func use(t *testing.T, l ledger.Ledger) {
	t.Helper()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(id string, window time.Duration) ledger.Entry {
		return ledger.Entry{Key: ledger.Key{Scope: "shop\x1b[2J", ID: []byte(id)}, Delivery: []byte(id), Window: window,
			Fingerprint: ledger.BodyFingerprint([]byte(id))}
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{
		entry("a", time.Millisecond), entry("b", time.Millisecond), entry("c", time.Millisecond),
		entry("long", time.Hour), entry("abandoned", time.Millisecond),
	})
	if err != nil {
		t.Fatal(err)
	}
	var settlements []ledger.Settlement
	for _, c := range claims[:3] {
		settlements = append(settlements, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	}
	errs, err := o.Settle(t.Context(), settlements)
	if err := errors.Join(append(errs, err, o.Leave(t.Context()))...); err != nil {
		t.Fatal(err)
	}
}

func sweepAndCount(t *testing.T, name string) {
	t.Helper()
	if out := done(t, "stats", "--ledger", name); !strings.Contains(out, "no pass of the sweep has ended yet") {
		t.Errorf("stats before a pass: %s", out)
	}
	var pass sweep
	decode(t, done(t, "maintain", "--once", "--json", "--ledger", name), &pass)
	if pass.Messages != 3 || pass.Dropped != 0 || pass.Abandoned != 1 || len(pass.Oldest) != 1 || pass.Oldest[0].ID != "abandoned" {
		t.Errorf("the pass: %+v, want 3 messages removed and 1 abandoned", pass)
	}
	var s statistics
	decode(t, done(t, "stats", "--json", "--ledger", name), &s)
	if len(s.Scopes) != 1 || s.Scopes[0].Pending != 2 || s.Scopes[0].Abandoned != 1 || s.Scopes[0].Succeeded != 0 ||
		s.Scopes[0].Scope != `"shop\x1b[2J"` || s.At == nil || s.Pass == nil || s.Pass.Messages != 3 || len(s.Tables) == 0 {
		t.Errorf("statistics: %+v", s)
	}
	for _, args := range [][]string{{"stats"}, {"maintain", "--once"}} {
		out := done(t, append(args, "--ledger", name)...)
		if !strings.Contains(out, `shop\x1b[2J`) || strings.Contains(out, "\x1b") {
			t.Errorf("%v: %q", args, out)
		}
	}
	if out := done(t, "maintain", "--once", "--keep", "1ms", "--ledger", name); !strings.Contains(out, "1 pending ones long past") {
		t.Errorf("maintain --keep 1ms: %s", out)
	}
	maintainUntilSignal(t, name)
}

// maintainUntilSignal: a signal ends it cleanly, after whole lines.
func maintainUntilSignal(t *testing.T, name string) {
	t.Helper()
	cmd := command(t, "maintain", "--interval", "1ms")
	cmd.Env = append(cmd.Env, ledgerVariable+"="+name)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4096)
	n, err := out.Read(first)
	if err != nil || !strings.Contains(string(first[:n]), "looked at") {
		t.Errorf("the first pass: %q, %v", first[:n], err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("maintain after SIGTERM: %v, %s", err, errs.String())
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// TestRefusedLogin: a server that asks for a password and gets a wrong one.
func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	c, err := pgx.ParseConfig(services.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("postgres://no_such_role:hush@%s:%d/%s?sslmode=disable", c.Host, c.Port, c.Database)
	for _, args := range [][]string{{"stats"}, {"migrate"}, {"maintain"}, {"maintain", "--once"}} {
		r := ackledger(t, append(args, "--ledger", url)...)
		if r.code != exitFailed || !strings.Contains(r.errors, "refuses the login") || strings.Contains(r.errors, "hush") {
			t.Errorf("%v: code %d, %s", args, r.code, r.errors)
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	if out := done(t, "version"); !strings.HasPrefix(out, "ackledger ") || strings.Count(out, "\n") != 1 {
		t.Errorf("version says %q", out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := done(t, "completion", shell); !strings.Contains(out, "ackledger") {
			t.Errorf("no completion for %s", shell)
		}
	}
	if r := ackledger(t, "__completeNoDesc", "ma"); r.code != exitDone || !strings.HasPrefix(r.out, "maintain\n") {
		t.Errorf("ma completes to %q", r.out)
	}
}

// interrupted is a ledger whose sweep ends in the middle.
type interrupted struct {
	opened
	removed int64
}

func (i interrupted) Sweep(context.Context, ledger.MaintainConfig) (ledger.SweepReport, error) {
	return ledger.SweepReport{Messages: i.removed}, context.Canceled
}

func TestAnInterruptedPassIsPartlyDone(t *testing.T) {
	t.Parallel()
	for removed, code := range map[int64]int{0: exitFailed, 7: exitPartly} {
		err := begun(func(*cobra.Command) error {
			return (&maintain{once: true}).run(t.Context(), interrupted{removed: removed}, new(bytes.Buffer))
		})(nil, nil)
		if o, ok := errors.AsType[*outcome](err); !ok || o.code != code || !errors.Is(err, context.Canceled) {
			t.Errorf("%d rows removed: %v, want code %d", removed, err, code)
		}
	}
}

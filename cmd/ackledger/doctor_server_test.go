package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
)

func TestDoctorOfServers(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	line := func(g grade, says, remedy string) string {
		if (g == good) != (remedy == "") {
			t.Errorf("%s, with the remedy %q", g, remedy)
		}
		return fmt.Sprintf("%s %s", g, says)
	}
	for want, got := range map[string]string{
		"ok 80 of":         line(gradeConnections(80, 100)),
		"warning 81 of":    line(gradeConnections(81, 100)),
		"ok there is none": line((&standbys{}).grade()),
		"problem synchronous_standby_names is \"a":  line((&standbys{names: "a"}).grade()),
		"problem synchronous_standby_names is \"b":  line((&standbys{names: "b", all: 1, asynchronous: 1}).grade()),
		"warning 2 standbys are asynchronous":       line((&standbys{all: 2, asynchronous: 2}).grade()),
		"ok 1 of 2":                                 line((&standbys{names: "c", all: 2, synchronous: 1, asynchronous: 1}).grade()),
		"note 1 standbys":                           line((&standbys{all: 1}).grade()),
		"ok the ledger's tables have 1.0 MiB":       line(gradeDisk(2<<20, 1<<20, 1<<20, "s")),
		"warning replication slot s keeps":          line(gradeDisk(2<<20, 1<<20, slotLate+1, "s")),
		"ok the server's clock is 900ms":            line(gradeClock(at, at.Add(900*time.Millisecond), at, standbys{})),
		"ok the server's clock is 1.9s":             line(gradeClock(at, at.Add(2900*time.Millisecond), at.Add(2*time.Second), standbys{})),
		"warning the server's clock is 1.1s":        line(gradeClock(at, at.Add(-1100*time.Millisecond), at, standbys{})),
		"warning a standby's clock is 2.0 s ahead":  line(gradeClock(at, at, at, standbys{ahead: 2})),
		"warning a standby's last reply is of 31 s": line(gradeClock(at, at, at, standbys{behind: -31})),
		"ok the server's clock is 0s":               line(gradeClock(at, at, at, standbys{behind: -9})),
	} {
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A server whose synchronous standby is away, and one that is in order: what is asked can be asked.
func TestDoctorAsksTheServer(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	done(t, "migrate", "--ledger", server.URL())
	wants(t, done(t, "doctor", "--ledger", server.URL()), "ok       connections: ", "ok       standby: there is none", "ok       disk: the ledger's tables have", "ok       clock: ")
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, text := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'away'", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		r := ackledger(t, "doctor", "--ledger", server.URL())
		if strings.Contains(r.out, "problem  standby: synchronous_standby_names is \"away\"") && strings.Contains(r.out, doctorPage+"#standby") && r.code == exitFailed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a standby that is away: code %d, %s", r.code, r.out)
		}
	}
}

// checkNames are the first words of the names of all checks in the source: the second argument of add, and what is said of a name that is
// one there.
func checkNames(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("doctor*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	note := func(at string, e ast.Expr) {
		for {
			sum, ok := e.(*ast.BinaryExpr)
			if !ok {
				break
			}
			e = sum.X
		}
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && regexp.MustCompile(`^[a-z]`).MatchString(s) {
				word, _, _ := strings.Cut(s, " ")
				found[word] = at
			}
		}
	}
	named := regexp.MustCompile(`^(check|name|encryption)$`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "add" && len(n.Args) == 4 || f.Sel.Name == "ask" && len(n.Args) > 2) {
					note(file, n.Args[1])
				}
			case *ast.AssignStmt:
				if id, ok := n.Lhs[0].(*ast.Ident); ok && named.MatchString(id.Name) {
					note(file, n.Rhs[0])
				}
			case *ast.ValueSpec:
				for i := range n.Values {
					if named.MatchString(n.Names[i].Name) {
						note(file, n.Values[i])
					}
				}
			}
			return true
		})
	}
	return found
}

// Each check that the doctor names has a heading on the page that it prints.
func TestDoctorsPage(t *testing.T) {
	t.Parallel()
	_, name, _ := strings.Cut(doctorPage, "/blob/main/")
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	found := checkNames(t)
	if len(found) < 25 {
		t.Errorf("only %d checks were found in the source: %v", len(found), found)
	}
	for check, file := range found {
		if !strings.Contains(string(page), "\n## "+check+"\n") {
			t.Errorf("%s names the check %q, and %s has no heading of it", file, check, name)
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(string(page), -1) {
		if found[heading[1]] == "" {
			t.Errorf("%s explains %q, which no check is named", name, heading[1])
		}
	}
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/reliability"
)

// pkg is a package to change.
type pkg struct {
	Dir, ImportPath, Name string
	GoFiles               []string
	sources               map[string][]byte
}

// load reads a package and finds all of its mutants.
func load(ctx context.Context, path string) (*pkg, []candidate, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=Dir,ImportPath,Name,GoFiles,Export,DepOnly", path).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list %s: %w", path, err)
	}
	exports := map[string]string{}
	p := &pkg{sources: map[string][]byte{}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var one struct {
			pkg
			Export  string
			DepOnly bool
		}
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		if exports[one.ImportPath] = one.Export; !one.DepOnly {
			p.Dir, p.ImportPath, p.Name, p.GoFiles = one.Dir, one.ImportPath, one.Name, one.GoFiles
		}
	}
	found, err := p.find(func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return p, found, err
}

func (p *pkg) find(exports importer.Lookup) ([]candidate, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		source, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.sources[name], files = source, append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", exports)}
	if _, err := conf.Check(p.ImportPath, fset, files, info); err != nil {
		return nil, err
	}
	var found []candidate
	for i, file := range files {
		f := &finder{fset: fset, info: info, name: p.GoFiles[i], source: p.sources[p.GoFiles[i]]}
		f.walk(file)
		found = append(found, f.found...)
	}
	return found, nil
}

// sample draws n of the mutants by a seed, and keeps them in their order.
func sample(all []candidate, n int, seed uint64) []candidate {
	if n >= len(all) {
		return all
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	picked := rnd.Perm(len(all))[:n]
	slices.Sort(picked)
	out := make([]candidate, n)
	for i, at := range picked {
		out[i] = all[at]
	}
	return out
}

// program is the tests of one package, built with the mutants of one.
type program struct {
	path  string // of the tests' package
	bin   string
	dir   string
	tests []test
}

// test is one top-level test, by itself.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool // mutants
}

var position = regexp.MustCompile(`([\w.-]+\.go):(\d+):\d+`)

// build builds the tests, without those mutants that the compiler does not take.
func (p *pkg) build(ctx context.Context, tmp string, paths []string, chosen []candidate) ([]*program, []candidate, error) {
	for {
		overlay, err := p.instrument(tmp, chosen)
		if err != nil {
			return nil, nil, err
		}
		var programs []*program
		var said []byte
		for i, path := range paths {
			pr := &program{path: path, bin: filepath.Join(tmp, "tests"+strconv.Itoa(i))}
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay, "-o", pr.bin, path)
			if said, err = cmd.CombinedOutput(); err != nil {
				break
			}
			dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", path).Output()
			if err != nil {
				return nil, nil, err
			}
			pr.dir = strings.TrimSpace(string(dir))
			programs = append(programs, pr)
		}
		if len(programs) == len(paths) {
			return programs, chosen, nil
		}
		left := without(chosen, position.FindAllStringSubmatch(string(said), -1))
		if len(left) == len(chosen) {
			return nil, nil, fmt.Errorf("%s with its mutants: %w\n%s", p.ImportPath, err, said)
		}
		chosen = left
	}
}

// without leaves out the mutants of lines that the compiler complains of; where it complains of others, the files' SQL, whose
// constants became variables.
func without(chosen []candidate, said [][]string) []candidate {
	bad, files := map[string]bool{}, map[string]bool{}
	for _, m := range said {
		bad[m[1]+":"+m[2]], files[m[1]] = true, true
	}
	left := slices.DeleteFunc(slices.Clone(chosen), func(c candidate) bool { return bad[c.file+":"+strconv.Itoa(c.line)] })
	if len(left) == len(chosen) {
		left = slices.DeleteFunc(left, func(c candidate) bool { return c.kind == "sql" })
	}
	return left
}

// survey runs each of these tests in a process of its own, some at once, and notes how long it takes and which mutants it reaches. Tests
// that fail as the code stands, or take longer than limit, are left out.
func (pr *program) survey(ctx context.Context, tmp, tests string, limit time.Duration, atOnce int, say func(string, ...any)) error {
	cmd := exec.CommandContext(ctx, pr.bin, "-test.list", tests)
	cmd.Dir = pr.dir
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: listing the tests: %w", pr.path, err)
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz") {
			pr.tests = append(pr.tests, test{name: name})
		}
	}
	next := make(chan *test)
	errs := make([]error, atOnce)
	var runs sync.WaitGroup
	for i := range atOnce {
		runs.Go(func() {
			trace := filepath.Join(tmp, "trace"+strconv.Itoa(i))
			for t := range next {
				began := time.Now()
				said, err := pr.run(ctx, []string{t.name}, 0, trace, limit)
				if t.took = time.Since(began); err != nil {
					say("%s: %s is left out: %v %.200s", pr.path, t.name, err, tail(said))
				} else if t.reaches, err = readTrace(trace); err != nil {
					errs[i] = err
				}
				_ = os.Remove(trace) // there may be none
			}
		})
	}
	for i := range pr.tests {
		next <- &pr.tests[i]
	}
	close(next)
	runs.Wait()
	pr.tests = slices.DeleteFunc(pr.tests, func(t test) bool { return t.reaches == nil })
	slices.SortFunc(pr.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return errors.Join(append(errs, ctx.Err())...)
}

// readTrace reads which mutants a test has reached.
func readTrace(trace string) (map[int]bool, error) {
	text, err := os.ReadFile(trace)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	reached := map[int]bool{}
	for line := range strings.Lines(string(text)) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			reached[n] = true
		}
	}
	return reached, nil
}

func tail(text []byte) []byte { return text[max(len(text)-400, 0):] }

// run runs tests with one mutant on; 0: none.
func (pr *program) run(ctx context.Context, names []string, mutant int, trace string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, pr.bin, "-test.run", "^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.timeout", "0")
	cmd.Dir, cmd.WaitDelay = pr.dir, time.Second
	cmd.Env = environment(mutant, trace)
	return cmd.CombinedOutput()
}

// environment is that of the tests with one mutant on. They are short, so they record nothing of theirs in the page of long runs.
func environment(mutant int, trace string) []string {
	return append(os.Environ(), pickVariable+"="+strconv.Itoa(mutant), traceVariable+"="+trace, "RAPID_NOFAILFILE=1", reliability.Variable+"=")
}

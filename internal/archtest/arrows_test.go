package archtest_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// An arrow goes from a file to another file of its package whose names it uses: types, functions, methods, fields.
type arrow struct{ from, to string }

// upward says how many arrows of a package may point back up, against the order that its doc.go gives: the first file stands at
// the top, and each uses what stands below it. Files of one pattern stand side by side, and none uses another.
var upward = map[string]int{"internal/engine": 1, "internal/flow": 0, "internal/locks": 0, "internal/offsets": 0, "internal/visibility": 0, "kafka": 0, "ledger/postgres": 0}

func TestFilesUseWhatStandsBelow(t *testing.T) {
	for path, most := range upward {
		t.Run(path, func(t *testing.T) {
			files, arrows := arrowsOf(t, path)
			order := contents(t, path)
			for _, f := range files {
				if placeOf(f, order) < 0 && f != "doc.go" {
					t.Errorf("doc.go does not name %s", f)
				}
			}
			for _, f := range order {
				if !slices.ContainsFunc(files, func(file string) bool { return matches(f, file) }) {
					t.Errorf("doc.go names %s, which is not there", f)
				}
			}
			up := pointsUp(arrows, order)
			if len(up) > most {
				t.Errorf("%d arrows point back up, at most %d may:\n%s", len(up), most, strings.Join(up, "\n"))
			}
		})
	}
}

// pointsUp lists the arrows whose end stands above their beginning, and the names that are used.
func pointsUp(arrows map[arrow][]string, order []string) (up []string) {
	for a, names := range arrows {
		if from, to := placeOf(a.from, order), placeOf(a.to, order); to < from || to == from && to >= 0 {
			slices.Sort(names)
			up = append(up, fmt.Sprintf("%s uses %s: %s", a.from, a.to, strings.Join(slices.Compact(names), ", ")))
		}
	}
	slices.Sort(up)
	return up
}

// placeOf is where a file stands in the order: by its name, or by a pattern; -1: nowhere.
func placeOf(file string, order []string) int {
	return slices.IndexFunc(order, func(pattern string) bool { return matches(pattern, file) })
}

func matches(pattern, file string) bool {
	ok, err := filepath.Match(pattern, file)
	return ok && err == nil
}

var content = regexp.MustCompile(`(?m)^//\s+([\w*]+\.go)\s`)

// contents is the order of a package's files in its doc.go.
func contents(t *testing.T, path string) (order []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range content.FindAllSubmatch(text, -1) {
		order = append(order, string(m[1]))
	}
	return order
}

// checked is a package that was type-checked.
type checked struct {
	files  []string
	set    *token.FileSet
	parsed []*ast.File
	pkg    *types.Package
	info   *types.Info
}

// file is the name of the file in which something stands.
func (c *checked) file(p token.Pos) string { return filepath.Base(c.set.Position(p).Filename) }

// check type-checks a package, against what the compiler has exported of those that it imports.
func check(t *testing.T, path string) *checked {
	t.Helper()
	all, err := exports()
	if err != nil {
		t.Fatal(err)
	}
	names := all[module+"/"+path].GoFiles
	c := &checked{files: names, set: token.NewFileSet(), info: &types.Info{
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Defs: map[*ast.Ident]types.Object{},
		Types: map[ast.Expr]types.TypeAndValue{},
	}}
	for _, name := range names {
		f, err := parser.ParseFile(c.set, filepath.Join("../..", path, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		c.parsed = append(c.parsed, f)
	}
	open := func(of string) (io.ReadCloser, error) { return os.Open(all[of].Export) }
	c.pkg, err = (&types.Config{Importer: importer.ForCompiler(c.set, "gc", open)}).Check(module+"/"+path, c.set, c.parsed, c.info)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func arrowsOf(t *testing.T, path string) (files []string, arrows map[arrow][]string) {
	t.Helper()
	c := check(t, path)
	arrows = map[arrow][]string{}
	for ident, object := range c.info.Uses {
		if object.Pkg() != c.pkg || object.Name() == "" || !object.Pos().IsValid() {
			continue
		}
		if a := (arrow{c.file(ident.Pos()), c.file(object.Pos())}); a.from != a.to {
			arrows[a] = append(arrows[a], object.Name())
		}
	}
	return c.files, arrows
}

// compiled is what `go list -export` says of a package.
type compiled struct {
	ImportPath, Export string
	GoFiles            []string
}

// exports are the packages that are type-checked, and all that they import, by import path: one call compiles and lists them.
var exports = sync.OnceValues(func() (map[string]compiled, error) {
	paths := append(slices.Collect(maps.Keys(upward)), purePackages...)
	for i, path := range paths {
		paths[i] = "./" + path
	}
	all := map[string]compiled{}
	err := goList(func(d *json.Decoder) error {
		var p compiled
		if err := d.Decode(&p); err != nil {
			return err
		}
		all[p.ImportPath] = p
		return nil
	}, append([]string{"-export", "-deps", "-json=ImportPath,Export,GoFiles"}, paths...)...)
	return all, err
})

package archtest_test

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"testing"
)

// What the pure core may import: values and their algorithms, and nothing that waits, draws, talks or writes.
var pureImports = []string{
	"cmp", "container/heap", "encoding/binary", "errors", "maps", "math", "slices", "time",
	module + "/internal/adaptive", module + "/internal/backoff", module + "/internal/flow", module + "/ledger",
}

// What of package time is a value; the rest is a clock.
var pureTime = []string{
	"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour", "Seconds", "String", "Time",
	"Before", "IsZero", "Sub",
}

// purePackages are those that decide.
var purePackages = []string{"internal/adaptive", "internal/flow", "internal/locks", "internal/offsets", "internal/slots", "internal/visibility"}

// What decides has no lock, goroutine, clock, chance, context, I/O or log.
func TestTheCoreIsPure(t *testing.T) {
	for _, path := range purePackages {
		t.Run(path, func(t *testing.T) { mustBePure(t, check(t, path)) })
	}
}

func mustBePure(t *testing.T, c *checked) {
	t.Helper()
	for _, f := range c.parsed {
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); !slices.Contains(pureImports, path) {
				t.Errorf("%s imports %s", c.file(i.Pos()), path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s: %T: a goroutine or a channel", c.set.Position(n.Pos()), n)
			}
			return true
		})
	}
	for ident, object := range c.info.Uses {
		if p := object.Pkg(); p != nil && p.Path() == "time" && !slices.Contains(pureTime, object.Name()) {
			t.Errorf("%s: time.%s: a clock", c.set.Position(ident.Pos()), object.Name())
		}
	}
}

// Bounds of a type that is read in one sitting.
const (
	mostFields = 15
	mostFiles  = 3 // in which methods of one type stand
)

// What carries out the core's decisions is small: each type has one thing to do, in one place.
func TestShellsAreSmall(t *testing.T) {
	c := check(t, "internal/engine")
	methods := map[string]map[string]bool{}
	for _, f := range c.parsed {
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
				of := types.ExprString(m.Recv.List[0].Type)
				if methods[of] == nil {
					methods[of] = map[string]bool{}
				}
				methods[of][c.file(m.Pos())] = true
			}
		}
	}
	for of, files := range methods {
		if len(files) > mostFiles {
			t.Errorf("the methods of %s stand in %d files, at most %d: %v", of, len(files), mostFiles, slices.Sorted(maps.Keys(files)))
		}
	}
	for _, name := range c.pkg.Scope().Names() {
		s, ok := c.pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if _, isType := c.pkg.Scope().Lookup(name).(*types.TypeName); ok && isType && s.NumFields() > mostFields {
			t.Errorf("%s has %d fields, at most %d", name, s.NumFields(), mostFields)
		}
	}
}

package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	flag.Parse()
	text, err := list(*root)
	if err == nil {
		err = os.WriteFile(filepath.Join(*root, "docs", "api.txt"), text, 0o644) //nolint:gosec // A document that all may read.
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apilist:", err)
		os.Exit(1)
	}
}

// notImported are folders whose packages users do not import.
var notImported = []string{"internal", "cmd", "examples", "integration", "bench", "docs", "bin", "testdata", "node_modules"}

// list returns the exported declarations of all packages below root, those of modules of their own as well.
func list(root string) ([]byte, error) {
	var lines []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (slices.Contains(notImported, d.Name()) || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil || file.Name.Name == "main" {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, l := range exported(file) {
			lines = append(lines, filepath.ToSlash(dir)+": "+l+"\n")
		}
		return err
	})
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), "")), err
}

// exported returns a line for each exported declaration of a file.
func exported(file *ast.File) []string {
	var lines []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
				lines = append(lines, oneLine(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}))
			}
		case *ast.GenDecl:
			for i, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						lines = append(lines, typeLines(s)...)
					}
				case *ast.ValueSpec:
					lines = append(lines, valueLines(d.Tok, i, s)...)
				}
			}
		}
	}
	return lines
}

// receiver is the name of a method's type, without its pointer and its type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// valueLines has the values of constants, which are part of the API, and not those of variables. A constant that stands without a value has
// its place in the group, for its value is counted from there.
func valueLines(tok token.Token, place int, s *ast.ValueSpec) []string {
	var lines []string
	for i, n := range s.Names {
		if !n.IsExported() {
			continue
		}
		line := tok.String() + " " + n.Name
		if s.Type != nil {
			line += " " + oneLine(s.Type)
		}
		switch {
		case tok == token.CONST && i < len(s.Values):
			line += " = " + oneLine(s.Values[i])
		case tok == token.CONST:
			line += fmt.Sprintf(" = place %d", place)
		}
		lines = append(lines, line)
	}
	return lines
}

// typeLines has a line for the type and one for each exported field of a struct; an interface has one for each of its methods, also
// the unexported ones, which say who may implement it.
func typeLines(s *ast.TypeSpec) []string {
	var fields *ast.FieldList
	head := *s
	head.Doc, head.Comment = nil, nil
	all := false
	switch t := s.Type.(type) {
	case *ast.StructType:
		fields, head.Type = t.Fields, ast.NewIdent("struct")
	case *ast.InterfaceType:
		fields, head.Type, all = t.Methods, ast.NewIdent("interface"), true
	default:
		return []string{"type " + oneLine(&head)}
	}
	lines := []string{"type " + oneLine(&head)}
	for _, f := range fields.List {
		if len(f.Names) == 0 && (all || ast.IsExported(embedded(f.Type))) {
			lines = append(lines, "type "+s.Name.Name+", embeds "+oneLine(f.Type))
		}
		for _, n := range f.Names {
			if all || n.IsExported() {
				lines = append(lines, "type "+s.Name.Name+", "+n.Name+" "+oneLine(f.Type))
			}
		}
	}
	return lines
}

// embedded is the name that a field has by the type it embeds.
func embedded(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		return embedded(star.X)
	}
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return receiver(e)
}

// oneLine prints syntax with each run of white space as one space.
func oneLine(node any) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

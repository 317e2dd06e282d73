package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// mutant is one change.
type mutant struct {
	n    int    // its number in the package, from 1
	kind string // delete, negate, boundary, zero, sql
	file string // base name
	line int
	text string // the line of the source, trimmed
	what string // what is changed, for people
}

func (m *mutant) String() string { return fmt.Sprintf("%s:%d %s: %s", m.file, m.line, m.kind, m.what) }

// insertion is text that goes in at an offset of a file. Those at one offset go in by rank.
type insertion struct {
	at, rank int
	cut      int // bytes of the source that it takes the place of
	text     string
}

// candidate is a mutant with the insertions that put it in.
type candidate struct {
	mutant
	edits func(n int) []insertion
}

// finder looks for mutants in one file.
type finder struct {
	fset   *token.FileSet
	info   *types.Info
	name   string
	source []byte
	found  []candidate
	depth  int
}

// walk looks at a file. depth is four times that of the node, so that there is room for what goes around one node twice.
func (f *finder) walk(n ast.Node) {
	ast.PreorderStack(n, nil, func(n ast.Node, stack []ast.Node) bool {
		f.depth = 4 * len(stack)
		switch n := n.(type) {
		case *ast.BlockStmt:
			f.list(n.List, stack)
		case *ast.CaseClause:
			f.list(n.Body, stack)
		case *ast.CommClause:
			f.list(n.Body, stack)
		case *ast.IfStmt:
			f.negate(n.Cond)
		case *ast.ForStmt:
			if n.Cond != nil {
				f.negate(n.Cond)
			}
		case *ast.BinaryExpr:
			f.binary(n)
		case *ast.GenDecl:
			f.constants(n)
		}
		return true
	})
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	text := strings.Join(strings.Fields(string(f.source[f.offset(n.Pos()):f.offset(n.End())])), " ")
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return text
}

func (f *finder) add(at token.Pos, kind, what string, edits func(n int) []insertion) {
	line := f.fset.Position(at).Line
	f.found = append(f.found, candidate{mutant{kind: kind, file: f.name, line: line, text: lineOf(f.source, line), what: what}, edits})
}

func lineOf(source []byte, line int) string {
	lines := strings.Split(string(source), "\n")
	return strings.TrimSpace(lines[line-1])
}

// around puts text before and behind a node; the outer of two nodes that begin or end at one place goes outside.
func (f *finder) around(n ast.Node, depth int, before, behind string) []insertion {
	return []insertion{{at: f.offset(n.Pos()), rank: depth, text: before}, {at: f.offset(n.End()), rank: -depth, text: behind}}
}

// list looks at statements.
func (f *finder) list(list []ast.Stmt, stack []ast.Node) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && deletable(call) {
				f.remove(s)
			}
		case *ast.DeferStmt:
			if deletable(s.Call) {
				f.remove(s)
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !isBlank(s.Lhs) {
				f.remove(s)
			}
		case *ast.IncDecStmt, *ast.SendStmt:
			f.remove(s)
		case *ast.ReturnStmt:
			f.zero(s, stack)
		}
	}
}

func isBlank(list []ast.Expr) bool {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

// locks are calls whose deletion hangs, or races: the race detector's matter.
var locks = map[string]bool{"Lock": true, "Unlock": true, "RLock": true, "RUnlock": true, "unlock": true, "panic": true}

// levels are the log's.
var levels = map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true}

// deletable says whether a call is worth deleting: not one that locks or logs.
func deletable(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return !locks[fun.Name]
	case *ast.SelectorExpr:
		if levels[fun.Sel.Name] {
			_, isLog := call.Fun.(*ast.SelectorExpr).X.(*ast.SelectorExpr)
			if x, ok := fun.X.(*ast.Ident); isLog || ok && x.Name == "log" {
				return false
			}
		}
		return !locks[fun.Sel.Name]
	}
	return true
}

func (f *finder) remove(s ast.Stmt) {
	depth := f.depth + 4
	f.add(s.Pos(), "delete", f.text(s), func(n int) []insertion {
		return f.around(s, depth, fmt.Sprintf("if !mutantOn(%d) { ", n), " }")
	})
}

// zero returns zero values in a return statement's place.
func (f *finder) zero(s *ast.ReturnStmt, stack []ast.Node) {
	var results *ast.FieldList
	for _, n := range stack { // the innermost function around
		switch n := n.(type) {
		case *ast.FuncDecl:
			results = n.Type.Results
		case *ast.FuncLit:
			results = n.Type.Results
		}
	}
	if len(s.Results) == 0 || results == nil || f.zeros(s.Results) {
		return
	}
	var values []string
	for _, field := range results.List {
		t := string(f.source[f.offset(field.Type.Pos()):f.offset(field.Type.End())])
		for range max(len(field.Names), 1) {
			values = append(values, "*new("+t+")")
		}
	}
	at := insertion{at: f.offset(s.Pos()), rank: f.depth + 4}
	f.add(s.Pos(), "zero", f.text(s), func(n int) []insertion {
		in := at
		in.text = fmt.Sprintf("if mutantOn(%d) { return %s }; ", n, strings.Join(values, ", "))
		return []insertion{in}
	})
}

// zeros says whether all are zero values as they stand.
func (f *finder) zeros(list []ast.Expr) bool {
	for _, e := range list {
		v := f.info.Types[e]
		switch lit, isLit := e.(*ast.CompositeLit); {
		case v.IsNil(), isLit && len(lit.Elts) == 0 && isStruct(v.Type):
		case v.Value != nil && (v.Value.String() == "0" || v.Value.String() == "false" || v.Value.String() == `""`):
		default:
			return false
		}
	}
	return true
}

func isStruct(t types.Type) bool { _, ok := t.Underlying().(*types.Struct); return ok }

// binary negates comparisons that are no condition of their own, and the operands of && and ||, and shifts boundaries.
func (f *finder) binary(e *ast.BinaryExpr) {
	switch e.Op {
	case token.LAND, token.LOR:
		f.negate(e.X)
		f.negate(e.Y)
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		f.shift(e)
	}
}

func (f *finder) negate(e ast.Expr) {
	if b, ok := f.info.TypeOf(e).(*types.Basic); !ok || b.Info()&types.IsBoolean == 0 || f.info.Types[e].Value != nil {
		return
	}
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		return // its operands are negated
	}
	depth := f.depth + 4
	f.add(e.Pos(), "negate", f.text(e), func(n int) []insertion {
		return f.around(e, depth, fmt.Sprintf("mutantNot(%d, ", n), ")")
	})
}

var shifted = map[token.Token]string{token.LSS: "mutantLess", token.LEQ: "mutantLessEq", token.GTR: "mutantMore", token.GEQ: "mutantMoreEq"}

// shift makes < of <=, and so on.
func (f *finder) shift(e *ast.BinaryExpr) {
	x, y := f.info.Types[e.X], f.info.Types[e.Y]
	if x.Value != nil && y.Value != nil || !types.Identical(types.Default(x.Type), types.Default(y.Type)) && x.Value == nil && y.Value == nil {
		return
	}
	depth := f.depth + 2
	f.add(e.OpPos, "boundary", f.text(e), func(n int) []insertion {
		list := f.around(e, depth, fmt.Sprintf("%s(%d, ", shifted[e.Op], n), ")")
		return append(list, insertion{at: f.offset(e.OpPos), cut: len(e.Op.String()), text: ","})
	})
}

// constants drops conjuncts of the SQL in a declaration of constants, which become variables for it.
func (f *finder) constants(d *ast.GenDecl) {
	if d.Tok != token.CONST && d.Tok != token.VAR {
		return
	}
	toVar := insertion{at: f.offset(d.TokPos), cut: len(d.Tok.String()), text: "var"}
	for _, spec := range d.Specs {
		for _, v := range spec.(*ast.ValueSpec).Values {
			ast.Inspect(v, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value, "`") {
					f.statement(lit, toVar, d.Tok == token.CONST)
				}
				return true
			})
		}
	}
}

// statement drops the conjuncts of one text, one at a time.
func (f *finder) statement(lit *ast.BasicLit, toVar insertion, isConst bool) {
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return
	}
	from := f.offset(lit.Pos()) + 1
	for i, c := range conjuncts(text) {
		at := f.fset.File(lit.Pos()).Pos(from + c.from)
		f.add(at, "sql", strings.Join(strings.Fields(text[c.from:c.to]), " "), func(n int) []insertion {
			list := []insertion{
				{at: from + c.from, rank: 100 + i, text: "` + mutantText(" + strconv.Itoa(n) + ", ` (`) + `"},
				{at: from + len(strings.TrimRight(text[:c.to], " \n\t")), rank: -100 - i, text: "` + mutantText(" + strconv.Itoa(n) + ", ` OR true) `) + `"},
			}
			if isConst {
				list = append(list, toVar)
			}
			return list
		})
	}
}

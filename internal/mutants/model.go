package main

import (
	"context"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const modelPackage = "./internal/model"

// A line of TestEveryGuardIsNeeded: the rule, how many states hold with it, the steps that break a promise without it, and
// which one that is.
var ruleLine = regexp.MustCompile(`(?m)^ +guards_test\.go:\d+: rule (\w+): (\d+) states hold with it; without it, after (\d+) steps: (.+)$`)

// rules runs the model's test and returns the rows of its table, in the order of the rules.
func rules(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", "^TestEveryGuardIsNeeded$", modelPackage)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("the rules of the model: %w\n%s", err, tail(string(out)))
	}
	said := map[string][]string{}
	for _, m := range ruleLine.FindAllStringSubmatch(string(out), -1) {
		said[m[1]] = m[2:]
	}
	names, texts, err := guards(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, name := range names {
		m, ok := said[name]
		if !ok {
			return "", fmt.Errorf("the rules of the model: the test says nothing of %s", name)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, texts[i], m[0], m[2], m[1])
	}
	return b.String(), nil
}

// guards reads the names of the model's rules, and the comment that stands behind each, from its source.
func guards(root string) (names, texts []string, err error) {
	file, err := goparser.ParseFile(token.NewFileSet(), filepath.Join(root, modelPackage, "guards.go"), nil, goparser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Comment != nil {
			names = append(names, spec.Names[0].Name)
			texts = append(texts, strings.TrimSpace(spec.Comment.Text()))
		}
		return true
	})
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%s/guards.go has no rule with a comment behind it", modelPackage)
	}
	return names, texts, nil
}

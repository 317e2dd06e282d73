package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// helpers is what the mutants of a package call. The environment picks the one that is on.
const helpers = `package %s

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantIs, _ = strconv.Atoi(os.Getenv(%q))
	mutantTrace = os.Getenv(%q)
	mutantSeen  [%d]atomic.Bool
)

func mutantOn(n int) bool {
	if mutantTrace != "" && !mutantSeen[n].Swap(true) {
		if f, err := os.OpenFile(mutantTrace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = f.WriteString(strconv.Itoa(n) + "\n")
			_ = f.Close()
		}
	}
	return n == mutantIs
}

func mutantNot(n int, b bool) bool { return b != mutantOn(n) }
func mutantText(n int, s string) string {
	if mutantOn(n) {
		return s
	}
	return ""
}
func mutantLess[T cmp.Ordered](n int, a, b T) bool {
	if mutantOn(n) {
		return a <= b
	}
	return a < b
}
func mutantLessEq[T cmp.Ordered](n int, a, b T) bool {
	if mutantOn(n) {
		return a < b
	}
	return a <= b
}
func mutantMore[T cmp.Ordered](n int, a, b T) bool {
	if mutantOn(n) {
		return a >= b
	}
	return a > b
}
func mutantMoreEq[T cmp.Ordered](n int, a, b T) bool {
	if mutantOn(n) {
		return a > b
	}
	return a >= b
}
`

const (
	pickVariable  = "ACKLEDGER_MUTANT"
	traceVariable = "ACKLEDGER_MUTANT_TRACE"
)

// instrument writes the package's files with all mutants in them, numbered from 1, and the overlay that puts them in place.
func (p *pkg) instrument(tmp string, chosen []candidate) (overlay string, err error) {
	edits := map[string][]insertion{}
	for i := range chosen {
		chosen[i].n = i + 1
		edits[chosen[i].file] = append(edits[chosen[i].file], chosen[i].edits(i+1)...)
	}
	replace := map[string]string{}
	put := func(name, text string) error {
		to := filepath.Join(tmp, name)
		replace[filepath.Join(p.Dir, name)] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	for name, list := range edits {
		if err := put(name, apply(p.sources[name], list)); err != nil {
			return "", err
		}
	}
	if err := put("zz_mutants.go", fmt.Sprintf(helpers, p.Name, pickVariable, traceVariable, len(chosen)+1)); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(tmp, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// apply puts insertions into a source. What begins outside comes first, and what ends outside last.
func apply(source []byte, list []insertion) string {
	slices.SortStableFunc(list, func(a, b insertion) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
	var out strings.Builder
	done := 0
	for i, in := range list {
		if i > 0 && in.cut > 0 && list[i-1] == in {
			continue // two mutants of one declaration make variables of its constants
		}
		out.Write(source[done:in.at])
		out.WriteString(in.text)
		done = in.at + in.cut
	}
	out.Write(source[done:])
	return out.String()
}

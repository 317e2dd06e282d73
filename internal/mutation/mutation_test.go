package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConjuncts(t *testing.T) {
	for text, want := range map[string][]string{
		"SELECT 1 FROM t WHERE a = 1 AND b = 2 ORDER BY a":                                 {"a = 1", "b = 2"},
		"UPDATE t SET a = 1 WHERE a BETWEEN 1 AND 2 AND b IS NULL RETURNING a":             {"a BETWEEN 1 AND 2", "b IS NULL"},
		"SELECT (SELECT 1 FROM u WHERE u.a = t.a) FROM t WHERE x IN (1, 2) FOR UPDATE":     {"u.a = t.a", "x IN (1, 2)"},
		"DELETE FROM t WHERE (a AND b) OR c":                                               {"(a AND b)", "b"},
		"SELECT CASE WHEN a AND b THEN 1 ELSE 2 END FROM t WHERE c = 'x AND y' -- AND d\n": {"b", "c = 'x AND y'"},
		"no statement WHERE a AND b":                                                       nil,
	} {
		var got []string
		for _, c := range conjuncts(text) {
			got = append(got, strings.TrimSpace(strings.Split(text[c.from:c.to], " --")[0]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}

// Every mutant of a small package comes to the end that its tests deserve.
func TestJudges(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	p, all, err := load(t.Context(), "./testdata/limits")
	if err != nil {
		t.Fatal(err)
	}
	programs, chosen, err := p.build(t.Context(), tmp, []string{"./testdata/limits"}, sample(all, 1000, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := programs[0].survey(t.Context(), tmp, everyTest, time.Minute, 2, t.Logf); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i := range chosen {
		end, err := judge(t.Context(), programs, &chosen[i].mutant, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got[chosen[i].kind+" "+chosen[i].what] = end
	}
	want := map[string]string{
		"negate n < 0": killed, "boundary n < 0": killed, "boundary n <= 10": survived, "zero return n <= 10": killed,
		"delete twice += n": killed, "zero return twice, nil": killed, "zero return 1": unreached, "zero return statement": survived,
		"sql (a = 1 OR b = 2)": survived, "sql c BETWEEN 3 AND 4": survived, "sql d = 5": killed,
	}
	for what, end := range want {
		if got[what] != end {
			t.Errorf("%s: %q, want %q", what, got[what], end)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d mutants, want %d: %v", len(got), len(want), got)
	}
}

// The same seed draws the same sample.
func TestSample(t *testing.T) {
	all := make([]candidate, 100)
	for i := range all {
		all[i].line = i
	}
	lines := func(list []candidate) (out []int) {
		for _, c := range list {
			out = append(out, c.line)
		}
		return out
	}
	one, again, other := lines(sample(all, 10, 7)), lines(sample(all, 10, 7)), lines(sample(all, 10, 8))
	if !slices.Equal(one, again) || slices.Equal(one, other) || len(one) != 10 || !slices.IsSorted(one) {
		t.Errorf("%v, %v, %v", one, again, other)
	}
}

// What a former run printed is judged again, and nothing that merely looks like it.
func TestPrinted(t *testing.T) {
	mutants := func(list ...mutant) (out []candidate) {
		for _, m := range list {
			out = append(out, candidate{mutant: m})
		}
		return out
	}
	all := mutants(
		mutant{kind: "negate", file: "a.go", line: 1, what: "a", text: "if a && b {"},
		mutant{kind: "negate", file: "a.go", line: 1, what: "a && b", text: "if a && b {"},
		mutant{kind: "delete", file: "a.go", line: 12, what: "f()", text: "f()"},
		mutant{kind: "delete", file: "b.go", line: 12, what: "f()", text: "f()"},
		mutant{kind: "delete", file: "b.go", line: 13, what: "f()", text: "f()"},
	)
	former := "# ./dir: surveyed\nsurvived dir/a.go:1 negate: a && b\n    if a && b {\nhung dir/b.go:12 delete: f()\n    f()"
	var got []string
	for _, c := range printed(all, "./dir", former) {
		got = append(got, c.String())
	}
	if want := []string{"a.go:1 negate: a && b", "b.go:12 delete: f()"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is excused is in the code: a line that changed has to be looked at again.
func TestEquivalentsAreThere(t *testing.T) {
	list, err := readEquivalents(equivalents)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]candidate{}
	for _, e := range list {
		dir := "./" + e.file[:strings.LastIndex(e.file, "/")]
		if found[dir] == nil {
			if _, found[dir], err = load(t.Context(), "../../"+dir); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.ContainsFunc(found[dir], func(c candidate) bool { return excuse([]equivalent{e}, strings.TrimPrefix(dir, "./"), &c.mutant) != "" }) {
			t.Errorf("%s %s: no such mutant: %s: %s", e.file, e.kind, e.text, e.what)
		}
	}
}

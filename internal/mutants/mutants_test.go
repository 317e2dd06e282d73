package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// The list cannot rot: every pitfall has its entry, every text to change is there once, every test exists.
func TestListIsWhole(t *testing.T) {
	all, err := readLists(root)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= pitfalls; n++ {
		if has := slices.ContainsFunc(all, func(e entry) bool { return e.number == n }); has == slices.Contains(unused, n) {
			t.Errorf("pitfall %d has no entry, or is unused and has one", n)
		}
	}
	for _, e := range all {
		if _, err := e.mutate(root); err != nil {
			t.Error(err)
		}
		if err := e.exists(root); err != nil {
			t.Errorf("pitfall %d: %v", e.number, err)
		}
	}
}

// The page has the list's rows.
func TestPageHasTheList(t *testing.T) {
	all, err := readLists(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/pitfalls.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := table(all, outcomes(string(page), all), rulesOf(string(page))); string(page) != want {
		t.Error("docs/pitfalls.md is not that of the list: run make mutants, at least for the pitfalls that changed")
	}
	for _, result := range []string{survives, notRun} {
		if strings.Contains(string(page), "| "+result+" |") {
			t.Errorf("docs/pitfalls.md has a guard of which it says %q", result)
		}
	}
	names, texts, err := guards(root)
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Split(strings.TrimSpace(rulesOf(string(page))), "\n")
	for i, name := range names {
		if i >= len(told) || !strings.HasPrefix(told[i], "| "+name+" | "+texts[i]+" | ") {
			t.Errorf("docs/pitfalls.md does not say what breaks without the model's rule %s: run make mutants", name)
		}
	}
	if len(told) != len(names) {
		t.Errorf("docs/pitfalls.md has %d rules of the model, which has %d", len(told), len(names))
	}
}

// What ends a test process is only a crash if it says so: an exit for another reason shows nothing.
func TestCrashes(t *testing.T) {
	for output, want := range map[string]bool{
		"=== RUN   TestA\npanic: boom\n\ngoroutine 1":                         true,
		"fatal error: all goroutines are asleep - deadlock!\n":                true,
		"SIGQUIT: quit\nPC=0x46":                                              true,
		"=== RUN   TestA\nno database: set ACKLEDGER_POSTGRES\nexit status 2": false,
		"    a_test.go:3: panic: as the test says":                            false,
	} {
		if got := crashed.MatchString(output); got != want {
			t.Errorf("%q: %v", output, got)
		}
	}
	if err := exec.CommandContext(t.Context(), "sh", "-c", "kill -9 $$").Run(); !signalled(err) {
		t.Errorf("%v is no signal", err)
	}
	if err := exec.CommandContext(t.Context(), "sh", "-c", "exit 2").Run(); signalled(err) {
		t.Errorf("%v is a signal", err)
	}
}

const good = `# a comment

07 A story.
guard: a guard
test: ./some/package TestPitfall07_Name
file: some/file.go
-	one
-	two
+	three
file: some/file.go
-four

118 Another.
guard: g
test: ./p TestPitfall118_N/sub test
design: cannot be
`

func TestParse(t *testing.T) {
	all, err := parse(good)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	want := []edit{{"some/file.go", "\tone\n\ttwo", "\tthree"}, {"some/file.go", "four", ""}}
	if e := all[0]; e.number != 7 || e.story != "A story." || e.pkg != "./some/package" || e.test != "TestPitfall07_Name" || !slices.Equal(e.edits, want) {
		t.Errorf("%+v", e)
	}
	if e := all[1]; e.number != 118 || e.test != "TestPitfall118_N/sub test" || e.design != "cannot be" {
		t.Errorf("%+v", e)
	}
	for name, change := range map[string][2]string{
		"no number":      {"07 A story.", "A story."},
		"number":         {"07 A story.", "120 A story."},
		"unknown field":  {"guard: g\n", "guards: g\n"},
		"no guard":       {"guard: a guard\n", ""},
		"no test":        {"test: ./p TestPitfall118_N/sub test\n", ""},
		"another's test": {"TestPitfall07_Name", "TestPitfall08_Name"},
		"no change":      {"-four\n", ""},
		"before a file":  {"file: some/file.go\n-\tone", "-\tone"},
		"neither":        {"design: cannot be\n", ""},
		"both":           {"design: cannot be", "design: cannot be\nfile: f\n-a"},
	} {
		if all, err := parse(strings.Replace(good, change[0], change[1], 1)); err == nil {
			t.Errorf("%s: accepted: %+v", name, all)
		}
	}
}

func TestMutate(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f.go"), []byte("a b c b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	texts, err := entry{edits: []edit{{"f.go", "a", "x"}, {"f.go", "c ", ""}}}.mutate(dir)
	if err != nil || texts["f.go"] != "x b b\n" {
		t.Errorf("%q, %v", texts, err)
	}
	for _, from := range []string{"b", "d"} {
		if texts, err := (entry{edits: []edit{{"f.go", from, "x"}}}).mutate(dir); err == nil {
			t.Errorf("%s: %q", from, texts)
		}
	}
}

// A run of a part keeps the other rows; a row that changed counts as not run.
func TestKeep(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	all := []entry{{number: 1, story: "a|b", guard: "g", pkg: "./p", test: "T1"}, {number: 2, guard: "g", pkg: "./p", test: "T2"}}
	results := func(want ...string) {
		t.Helper()
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		known := outcomes(string(text), all)
		if got := []string{known["01 ./p T1"], known["02 ./p T2"]}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q:\n%s", got, want, text)
		}
	}
	for _, step := range []struct {
		fresh map[string]string
		want  []string
	}{
		{map[string]string{"01 ./p T1": fails}, []string{fails, notRun}},
		{map[string]string{"02 ./p T2": hangs}, []string{fails, hangs}},
		{map[string]string{"01 ./p T1": survives}, []string{survives, hangs}},
	} {
		if err := keep(page, all, step.fresh, "| R | r | 1 | p | 2 |\n"); err != nil {
			t.Fatal(err)
		}
		results(step.want...)
	}
	all[0].guard = "another"
	if err := keep(page, all, nil, ""); err != nil {
		t.Fatal(err)
	}
	results(notRun, hangs)
	if text, err := os.ReadFile(page); err != nil || rulesOf(string(text)) != "| R | r | 1 | p | 2 |\n" {
		t.Errorf("the model's rows are not kept: %s, %v", text, err)
	}
}

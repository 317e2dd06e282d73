package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pitfalls is the highest number; they are numbered from 1.
const pitfalls = 282

// unused are numbers that no pitfall has.
var unused = []int{
	141, 194, 195, 209, 229, 271, 272, 277, 278, 279,
}

// entry is one pitfall: its test, and how its guard is taken out.
type entry struct {
	number int
	story  string
	guard  string
	pkg    string // as go test takes it: ./ledger/memory
	test   string // a function, or one of its subtests behind a slash
	design string // why there is no guard to take out; then there are no edits
	edits  []edit
}

// edit replaces one text of one file.
type edit struct {
	file     string // from the module's root
	from, to string
}

// readLists returns all entries in the order of their numbers.
func readLists(root string) ([]entry, error) {
	files, err := filepath.Glob(filepath.Join(root, "internal/mutants/list/*.txt"))
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		entries, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all = append(all, entries...)
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	for i := 1; i < len(all); i++ {
		if all[i].id() == all[i-1].id() {
			return nil, fmt.Errorf("pitfall %d has two entries of %s %s", all[i].number, all[i].pkg, all[i].test)
		}
	}
	return all, nil
}

// id names an entry: a pitfall has one for each guard against it, with a test of its own, such as those of each store.
func (e entry) id() string { return fmt.Sprintf("%02d %s %s", e.number, e.pkg, e.test) }

var head = regexp.MustCompile(`^(\d{2,3}) (\S.*)$`)

// parse reads one list.
func parse(text string) ([]entry, error) {
	var all []entry
	var p parser
	for i, line := range append(strings.Split(text, "\n"), "") {
		err := p.line(line)
		if err == nil && strings.TrimSpace(line) == "" && p.open {
			all, err = append(all, p.entry), p.valid()
			p = parser{}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return all, nil
}

// parser holds the entry that is being read.
type parser struct {
	entry
	open     bool
	from, to []string
}

func (p *parser) line(line string) error {
	if strings.TrimSpace(line) == "" || line[0] == '#' {
		return nil
	}
	if m := head.FindStringSubmatch(line); m != nil && !p.open {
		p.open, p.story = true, m[2]
		_, err := fmt.Sscanf(m[1], "%d", &p.number)
		return err
	}
	if !p.open {
		return fmt.Errorf("an entry begins with its number and story, not with %q", line)
	}
	if line[0] == '-' || line[0] == '+' {
		return p.change(line[0], line[1:])
	}
	name, value, _ := strings.Cut(line, ": ")
	switch name {
	case "guard":
		p.guard = value
	case "test":
		p.pkg, p.test, _ = strings.Cut(value, " ")
	case "design":
		p.design = value
	case "file":
		p.edits = append(p.edits, edit{file: value})
		p.from, p.to = nil, nil
	default:
		return fmt.Errorf("%q is none of guard, test, file, design, - and +", line)
	}
	return nil
}

// change takes one line of - or +.
func (p *parser) change(sign byte, text string) error {
	if len(p.edits) == 0 {
		return fmt.Errorf("%c%s stands before any file", sign, text)
	}
	if sign == '-' {
		p.from = append(p.from, text)
	} else {
		p.to = append(p.to, text)
	}
	last := &p.edits[len(p.edits)-1]
	last.from, last.to = strings.Join(p.from, "\n"), strings.Join(p.to, "\n")
	return nil
}

func (e entry) valid() error {
	switch {
	case e.number < 1 || e.number > pitfalls:
		return fmt.Errorf("pitfall %d is not one of 1 to %d", e.number, pitfalls)
	case e.guard == "" || e.test == "" || !strings.HasPrefix(e.pkg, "./"):
		return fmt.Errorf("pitfall %d needs a guard and a test (./package TestName)", e.number)
	case !strings.HasPrefix(e.test, fmt.Sprintf("TestPitfall%02d_", e.number)):
		return fmt.Errorf("pitfall %d: its test is called %s, not TestPitfall%02d_…", e.number, e.test, e.number)
	case (len(e.edits) == 0) != (e.design != ""):
		return fmt.Errorf("pitfall %d needs either a file that is changed or a design that says why not", e.number)
	}
	for _, d := range e.edits {
		if d.from == "" || d.from == d.to {
			return fmt.Errorf("pitfall %d: %s is not changed", e.number, d.file)
		}
	}
	return nil
}

// mutate returns the changed files' texts by path, below the module's root.
func (e entry) mutate(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, d := range e.edits {
		text, ok := texts[d.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, d.file))
			if err != nil {
				return nil, fmt.Errorf("pitfall %d: %w", e.number, err)
			}
			text = string(read)
		}
		if n := strings.Count(text, d.from); n != 1 {
			return nil, fmt.Errorf("pitfall %d: %s holds the text to change %d times, not once: %q", e.number, d.file, n, d.from)
		}
		texts[d.file] = strings.Replace(text, d.from, d.to, 1)
	}
	return texts, nil
}

// exists says whether the entry's test is declared in its package.
func (e entry) exists(root string) error {
	files, err := filepath.Glob(filepath.Join(root, e.pkg, "*_test.go"))
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(e.test, "/")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return nil
		}
	}
	return errors.New(e.pkg + " has no test " + name)
}

package main

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed equivalent.txt
var equivalents string

// equivalent is a mutant that changes nothing, with why. It is found by its line's text, so lines may move.
type equivalent struct {
	file, kind, text, what, why string // file from the module's root
}

// readEquivalents reads equivalent.txt: for each a line "file kind", the line of the source, what is changed, and why that
// changes nothing, then an empty line. Lines that begin with # are remarks.
func readEquivalents(text string) ([]equivalent, error) {
	var out []equivalent
	for block := range strings.SplitSeq(text, "\n\n") {
		var lines []string
		for line := range strings.Lines(block) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		file, kind, ok := strings.Cut(lines[0], " ")
		if len(lines) != 4 || !ok {
			return nil, fmt.Errorf("equivalent.txt: %q: must be four lines, the first with file and kind, are %d", lines[0], len(lines))
		}
		out = append(out, equivalent{file, kind, lines[1], lines[2], lines[3]})
	}
	return out, nil
}

// excuse returns why a mutant changes nothing; empty: that is not known.
func excuse(list []equivalent, dir string, m *mutant) string {
	for _, e := range list {
		if e.file == dir+"/"+m.file && e.kind == m.kind && e.text == m.text && e.what == m.what {
			return e.why
		}
	}
	return ""
}

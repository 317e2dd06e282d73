package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// references are looked things up in; all other pages are read.
var references = []string{"defaults.md", "engines.md", "pitfalls.md", "reliability.md", "telemetry.md"}

// A page is read standing, or in one sitting, or nobody reads it.
func TestThePagesAreShort(t *testing.T) {
	for _, page := range pages(t) {
		most := 8 << 10
		switch {
		case page == "../README.md":
			most = 9 << 10
		case strings.Contains(page, "/design/"):
			most = 14 << 10
		case slices.Contains(references, filepath.Base(page)):
			continue
		}
		if text := read(t, page); len(text) > most {
			t.Errorf("%s has %d bytes, at most %d", page, len(text), most)
		}
	}
}

func TestTheTableOfContentsHasEachPage(t *testing.T) {
	for _, page := range pages(t) {
		contents, name := "../docs/README.md", filepath.Base(page)
		switch filepath.Dir(page) {
		case "..":
			continue
		case "../docs/design":
			contents, name = "../docs/design.md", "design/"+name
		}
		if name != "README.md" && !strings.Contains(read(t, contents), "]("+name+")") {
			t.Errorf("%s does not name %s", contents, name)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			path, at, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			if at != "" && !slices.Contains(anchors(read(t, to)), at) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// anchors are those of a page's headings, as GitHub makes them, and those that it has by name.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// pages are those of the root and of docs/.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/design/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) < 5 {
			t.Fatalf("found %d pages of %s: %v", len(found), pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

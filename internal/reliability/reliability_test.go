package reliability_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ackledger/ackledger/internal/reliability"
)

func page(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func wants(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}

func TestSection(t *testing.T) {
	name := page(t, "# Page\n\n\n")
	for _, text := range []string{"first\n", "second, which is longer\n", "3\n"} {
		if err := reliability.Section(name, "run", text); err != nil {
			t.Fatal(err)
		}
		wants(t, name, "# Page\n\n<!-- run -->\n"+text+"<!-- /run -->\n")
	}
	if err := reliability.Section(name, "other", "its own\n"); err != nil {
		t.Fatal(err)
	}
	wants(t, name, "# Page\n\n<!-- run -->\n3\n<!-- /run -->\n\n<!-- other -->\nits own\n<!-- /other -->\n")
}

func TestSectionOfNoPage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	if err := reliability.Section(name, "run", "text\n"); err != nil {
		t.Fatal(err)
	}
	wants(t, name, "<!-- run -->\ntext\n<!-- /run -->\n")
}

const table = "before\n<!-- runs -->\n| what | times |\n|---|---|\n| b | 1 |\n<!-- /runs -->\nbehind\n"

func TestRow(t *testing.T) {
	name := page(t, table)
	for _, row := range [][]string{{"c", "2"}, {"a", "3"}, {"b", "4"}} {
		if err := reliability.Row(name, "runs", row...); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, name, "before\n<!-- runs -->\n| what | times |\n|---|---|\n| a | 3 |\n| b | 4 |\n| c | 2 |\n<!-- /runs -->\nbehind\n")
}

func TestRowsAtOnce(t *testing.T) {
	name := page(t, table)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := reliability.Row(name, "runs", "n"+strconv.Itoa(i), "1"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(name)
	if n := strings.Count(string(got), "| n"); err != nil || n != 50 {
		t.Errorf("%d rows are there (%v), want 50", n, err)
	}
}

func TestBrokenPages(t *testing.T) {
	for _, text := range []string{"no table\n", "<!-- runs -->\nno end\n", "<!-- runs -->\nno head\n<!-- /runs -->\n"} {
		name := page(t, text)
		if err := reliability.Row(name, "runs", "a", "1"); err == nil || !strings.Contains(err.Error(), "runs") {
			t.Errorf("a row in %q: %v, want an error that names the section", text, err)
		}
		wants(t, name, text)
	}
}

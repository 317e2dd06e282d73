package reliability

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Variable names the page to write to in the environment. Unset, as in short runs: nothing is written.
const Variable = "ACKLEDGER_REPORT"

// Page is the page to write to; empty: none.
func Page() string { return os.Getenv(Variable) }

// Section writes text between the lines <!-- name --> and <!-- /name --> of the page, in place of what is there; without
// them, at the page's end. Several processes may write at once.
func Section(page, name, text string) error {
	return change(page, func(old string) (string, error) {
		before, _, after, err := cut(page, old, name)
		if err != nil {
			return "", err
		}
		return before + text + after, nil
	})
}

// Row writes a row into the table between those lines, in place of the one with the same first cell. The table's head has to
// be there. Rows are in the order of their first cells.
func Row(page, name string, cells ...string) error {
	return change(page, func(old string) (string, error) {
		before, table, after, err := cut(page, old, name)
		if err != nil {
			return "", err
		}
		rows := slices.Collect(strings.Lines(table))
		if len(rows) < 2 {
			return "", fmt.Errorf("%s: there is no table between <!-- %s --> and <!-- /%s -->", page, name, name)
		}
		first := "| " + cells[0] + " |"
		body := slices.DeleteFunc(rows[2:], func(r string) bool { return strings.HasPrefix(r, first) })
		body = append(body, "| "+strings.Join(cells, " | ")+" |\n")
		slices.Sort(body)
		return before + rows[0] + rows[1] + strings.Join(body, "") + after, nil
	})
}

// Today is the date as rows have it.
func Today() string { return time.Now().UTC().Format(time.DateOnly) }

// cut divides a page into what is before a section's text, the text, and what is behind it.
func cut(page, text, name string) (before, section, after string, err error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, found := strings.Cut(text, begin)
	section, after, ended := strings.Cut(rest, end)
	if found != ended {
		return "", "", "", fmt.Errorf("%s: %q and %q must come as a pair", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	if !found && before != "" {
		before = strings.TrimRight(before, "\n") + "\n\n"
	}
	return before + begin, section, end + after, nil
}

// change writes a page anew, under a lock.
func change(page string, f func(old string) (string, error)) (err error) {
	file, err := os.OpenFile(page, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := lock(file); err != nil {
		return fmt.Errorf("locking %s: %w", page, err)
	}
	old, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	now, err := f(string(old))
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(now), 0)
	return err
}

package services

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// EnvMissing names the file in which tests note what they could not test here. withservices sets it, and ends with what is in it.
const EnvMissing = "ACKLEDGER_TEST_MISSING"

// Missing skips a test for something that this machine lacks, and says so at the end of `make test` as well. why is one line.
func Missing(tb testing.TB, why any) {
	tb.Helper()
	text := strings.Join(strings.Fields(fmt.Sprint(why)), " ")
	if err := noteMissing(os.Getenv(EnvMissing), text); err != nil {
		tb.Fatalf("services: %s: %v; NOT TESTED: %s", EnvMissing, err, text)
	}
	tb.Skip("NOT TESTED: " + text)
}

// noteMissing adds a line to the file. Several processes may: a line is one write.
func noteMissing(file, text string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text + "\n"); err != nil {
		return JoinErrors(err, f.Close())
	}
	return f.Close()
}

// ReadMissing returns what was noted, each line once, sorted. A file that is not there has none.
func ReadMissing(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

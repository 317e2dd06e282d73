package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // nothing was done
	exitPartly = 3
)

// outcome is an error of a command that began, with the exit code that tells scripts what it means.
type outcome struct {
	code int
	err  error
}

func (o *outcome) Error() string { return o.err.Error() }
func (o *outcome) Unwrap() error { return o.err }

func usage(format string, args ...any) error { return &outcome{exitUsage, fmt.Errorf(format, args...)} }
func partly(err error) error                 { return &outcome{exitPartly, err} }

// run carries one command line out and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code := exitUsage // cobra's own errors: an unknown command or flag, a value that cannot be read
	if o, ok := errors.AsType[*outcome](err); ok {
		code = o.code
	}
	fmt.Fprintln(stderr, "ackledger:", oneLine(err))
	return code
}

// begun marks the errors of a command that has begun: those without a code of their own are failures.
func begun(f func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		err := f(cmd)
		if _, coded := errors.AsType[*outcome](err); err == nil || coded {
			return err
		}
		return &outcome{exitFailed, err}
	}
}

var (
	blanks = regexp.MustCompile(`\s*\n\s*`)
	// A password in a URL ends at the last @ before the path, whatever else it has in it.
	urlPassword   = regexp.MustCompile(`(://[^:/@\s]*):\S*@`)
	paramPassword = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'?[^&\s]*|[^&\s]+)`)
)

// oneLine is an error for people: one line that moves no terminal's cursor, without passwords, and in the words of this command.
func oneLine(err error) string {
	text := blanks.ReplaceAllString(strings.TrimSpace(err.Error()), " ")
	text = strings.ReplaceAll(text, "run postgres.Migrate", "run `ackledger migrate`")
	return safe(masked(text))
}

func masked(text string) string {
	text = urlPassword.ReplaceAllString(text, "$1:xxxxx@")
	return paramPassword.ReplaceAllString(text, "${1}xxxxx")
}

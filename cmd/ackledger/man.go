package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "Print the manual page",
		Long: `Print the manual page, with all commands and flags:

  ackledger man > /usr/local/share/man/man1/ackledger.1`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error { return printManual(cmd.OutOrStdout(), cmd.Root()) }),
	}
}

// printManual writes a page for man(1), whose macros man(7) describes.
func printManual(out io.Writer, root *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH ACKLEDGER 1 \"\" \"ackledger %s\"\n.SH NAME\nackledger \\- %s\n", roff(version()), roff(root.Short))
	b.WriteString(".SH SYNOPSIS\n.B ackledger\n.I COMMAND\n[\\fIflags\\fR]\n.SH DESCRIPTION\n")
	verbatim(&b, root.Long)
	b.WriteString(".SH FLAGS OF ALL COMMANDS\n")
	verbatim(&b, root.PersistentFlags().FlagUsages())
	b.WriteString(".SH COMMANDS\n")
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&b, ".SS %s\n", roff(c.Use))
		verbatim(&b, c.Long)
		if usages := c.NonInheritedFlags().FlagUsages(); usages != "" {
			verbatim(&b, usages)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// verbatim writes text line by line, as it is laid out.
func verbatim(b *strings.Builder, s string) {
	b.WriteString(".nf\n")
	for line := range strings.Lines(strings.TrimRight(s, "\n") + "\n") {
		b.WriteString(roff(line))
	}
	b.WriteString(".fi\n")
}

// roff escapes what begins a request or a macro, and hyphens, which would be typeset as dashes.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

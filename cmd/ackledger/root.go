package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// ledgerVariable names the ledger where --ledger does not.
const ledgerVariable = "ACKLEDGER_LEDGER"

func newRoot() *cobra.Command {
	t := new(target)
	root := &cobra.Command{
		Use:           "ackledger",
		Short:         "Operate the ledger of ackledger's workers",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Long: `Operate the ledger of ackledger's workers.

The ledger is a Postgres URL, a SQLite file, or a table of DynamoDB (dynamodb:TABLE):

  ackledger stats --ledger postgres://operator@db.example.com/shop
  ackledger stats --ledger /var/lib/shop/ledger.db
  ackledger stats --ledger dynamodb:orders-ledger --ledger-region eu-west-1

What libpq reads from the environment (PGPASSWORD, PGPASSFILE, PGSSLMODE and others) counts too. A password in --ledger
can be seen by other users of this machine: put the URL into ` + ledgerVariable + ` instead.

AWS's settings come from where the AWS SDK finds them. Beside that a ledger in DynamoDB has --ledger-profile,
--ledger-region and --ledger-endpoint-url; --profile, --region and --endpoint-url are of queues and topics alone.

Exit codes: 0 done, 1 failed, 2 wrong usage (nothing was done), 3 partly done.`,
	}
	t.flags(root)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newList(t), newShow(t), newReplay(t), newReopen(t), newPurge(t), newParkedCommand(t), newRecover(t), newStats(t), newWorkers(t), newPause(t), newResume(t), newDoctor(t), newMigrate(t), newMaintain(t), newWeb(t), newVersion(), newMan())
	return root
}

// printJSON writes v as one line, for programs.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(plainJSON(b.Bytes()))
	return err
}

// plainJSON writes what moves a terminal's cursor, or turns its text around, as \u escapes: C1 controls, bidi marks and all
// else that cannot be printed. They can only stand within strings, where an escape is the same text (RFC 8259, 7).
func plainJSON(text []byte) []byte {
	if bytes.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		switch {
		case !unprintable(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

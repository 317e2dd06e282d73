package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

func newMigrate(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Make the ledger's tables, or bring them to this program's version",
		Long: `Make the ledger's tables, or bring them to this program's version.

Migrate first, and deploy workers of the new version then: those of the version before go on. Any number of migrations
may run at once, and again. Postgres: name the server itself, not a pooler in transaction mode, with a role that may create
a schema (or tables in a schema that is there). SQLite: the file is made if it is not there.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			if err := migrate(cmd, t); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the ledger is up to date: %s\n", t)
			return err
		}),
	}
}

func migrate(cmd *cobra.Command, t *target) error {
	name, pg, err := t.where()
	if err != nil {
		return err
	}
	if !pg {
		l, err := sqlite.Open(cmd.Context(), name, nil)
		if err != nil {
			return invalid(err)
		}
		return l.Close()
	}
	c, err := poolConfig(name)
	if err != nil {
		return err
	}
	return invalid(postgres.Migrate(cmd.Context(), c.ConnConfig, t.schema))
}

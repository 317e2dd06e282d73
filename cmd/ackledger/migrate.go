package main

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

type migration struct {
	target             *target
	workers, operators []string // roles of Postgres
}

func newMigrate(t *target) *cobra.Command {
	m := &migration{target: t}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the ledger's tables, or bring them to this program's version",
		Long: `Make the ledger's tables, or bring them to this program's version.

Migrate first, and deploy workers of the new version then: those of the version before go on. Any number of migrations
may run at once, and again. What is not PostgreSQL is refused, and nothing is made there. Postgres: name the server itself,
not a pooler in transaction mode, with a role that may create a schema (or tables in a schema that is there); roles that
exist can be given the least that they need, each time anew, since a new version may need more. SQLite: the file is made
if it is not there.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			if err := m.run(cmd); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the ledger has the tables of this version: %s\n", t)
			return err
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&m.workers, "worker-role", nil, "a role that workers log in with, not the one that migrates: may claim, settle and sweep, and loses any other right on the schema's tables (repeatable)")
	flags.StringArrayVar(&m.operators, "operator-role", nil, "a role of people: may also replay, reopen and empty dead letters, and read the audit (repeatable)")
	return cmd
}

func (m *migration) run(cmd *cobra.Command) error {
	name, in, err := m.target.where()
	if err != nil {
		return err
	}
	if in != inPostgres && len(m.workers)+len(m.operators) > 0 {
		return usage("--worker-role and --operator-role are for a ledger in Postgres, --ledger is %q", m.target)
	}
	switch in {
	case inDynamoDB:
		client, err := m.target.cloud.tables(cmd.Context())
		if err != nil {
			return err
		}
		return dynamodb.Migrate(cmd.Context(), client, name)
	case inSQLite:
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
	if err := postgres.Migrate(cmd.Context(), c.ConnConfig, m.target.schema, m.target.accepted()...); err != nil {
		return invalid(err)
	}
	if err := m.grant(cmd, c.ConnConfig, postgres.Worker, m.workers); err != nil {
		return err
	}
	return m.grant(cmd, c.ConnConfig, postgres.Operator, m.operators)
}

// grant gives roles their rights on tables that are there already.
func (m *migration) grant(cmd *cobra.Command, c *pgx.ConnConfig, right postgres.Right, roles []string) error {
	for _, role := range roles {
		if err := postgres.Grant(cmd.Context(), c, m.target.schema, role, right); err != nil {
			return partly(fmt.Errorf("the tables are up to date, but: %w", err))
		}
	}
	return nil
}

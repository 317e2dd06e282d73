package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

// Right is what a role may do with a ledger.
type Right uint8

// The rights. The zero value is none.
const (
	// Worker is what [New]'s ledger needs for all it does: claims, settles, InTx, Get, Stats, and Maintain. It owns
	// nothing and deletes nothing but ranges and segments, which it joins, and what it has sent of the outbox: what has expired goes through functions of the
	// schema that remove nothing else. Triggers refuse it any change of a message that succeeded, and any that takes
	// finished offsets out of segments, but for segments that have not changed for an hour, and offsets below where a worker
	// has said, for an hour, that the log begins: only a worker knows. What is finished in a range that is still open is in its hands.
	// The application's own tables are its own matter.
	Worker Right = iota + 1
	// Operator is Worker, and may also change and empty archived deliveries, pause workers, and read and add to the audit: what the
	// methods of [ledger.Operator] and [ledger.Board] need. Beside pauses it deletes no more than a worker. When an audit row was written, and by which role, the
	// database says.
	Operator
)

// grants are the statements that give a right, and take away what it should not have. {s} is the schema, {r} the role.
var grants = map[Right]string{
	Worker: `
REVOKE ALL ON ALL TABLES IN SCHEMA {s} FROM {r};
GRANT USAGE ON SCHEMA {s} TO {r};
GRANT SELECT ON {s}.meta, {s}.scope, {s}.owner, {s}.message, {s}.archive, {s}.past, {s}.maintenance, {s}.pause TO {r};
GRANT INSERT ON {s}.scope, {s}.owner, {s}.message, {s}.archive TO {r};
GRANT UPDATE ON {s}.owner, {s}.message, {s}.maintenance TO {r};
GRANT UPDATE (keep_past) ON {s}.scope TO {r};
GRANT SELECT, INSERT ON {s}.step TO {r};
GRANT SELECT, INSERT, UPDATE (tries, due, error), DELETE ON {s}.outbox TO {r};
GRANT SELECT, INSERT, UPDATE ON {s}.outbox_lane TO {r};
GRANT SELECT, INSERT, UPDATE ON {s}.parked TO {r};
GRANT SELECT, INSERT, UPDATE ON {s}.range_log, {s}.delivery TO {r};
GRANT SELECT, INSERT, UPDATE, DELETE ON {s}.claim_range, {s}.segment TO {r};
GRANT EXECUTE ON FUNCTION {s}.sweep_message(bigint, bigint, bigint, bigint, bigint),
	{s}.sweep_archive(bigint, bigint, bigint, bigint), {s}.sweep_owner(bigint, bigint[]),
	{s}.sweep_log(bigint, bigint, bigint, bigint), {s}.sweep_audit(bigint, bigint, bigint, bigint),
	{s}.sweep_past(bigint, bigint, bigint), {s}.unfile(uuid[], bytea[]),
	{s}.due_parked(integer, bigint, bigint, bigint) TO {r}`,
	Operator: `
GRANT SELECT, INSERT (actor, action, key, detail) ON {s}.audit TO {r};
GRANT UPDATE ON {s}.archive TO {r};
GRANT INSERT (scope, actor, reason), UPDATE (actor, reason), DELETE ON {s}.pause TO {r}`,
}

// Grant gives a role that exists the right to work with a ledger (an empty schema means "ackledger"), and takes what it
// has beyond that on the schema's tables. It connects as conn says: as the owner of the schema, the role that migrated
// it. A role that owns one of the tables is refused ([*ledger.InvalidError]): it may do all of it without a grant, and could
// neither sweep nor migrate after one. It may be repeated, and must be after a Migrate that brought a new version of the schema; a version newer than this
// program is refused, since its tables are not known here. PostgreSQL's documentation of GRANT says what each privilege
// means.
func Grant(ctx context.Context, conn *pgx.ConnConfig, schema, role string, right Right) error {
	schema, err := schemaOn(conn, schema)
	if err != nil {
		return err
	}
	if err := checkRole(role); err != nil {
		return err
	}
	sql := grants[Worker]
	switch right {
	case Worker:
	case Operator:
		sql += ";" + grants[Operator]
	default:
		return &ledger.InvalidError{Field: "right", Bound: "Worker or Operator", Value: fmt.Sprint(uint8(right))}
	}
	c, err := pgx.ConnectConfig(ctx, conn)
	if err != nil {
		return fmt.Errorf("postgres: grant: %w", usable(err))
	}
	names := strings.NewReplacer("{s}", pgx.Identifier{schema}.Sanitize(), "{r}", pgx.Identifier{role}.Sanitize())
	var version int
	var owns bool
	err = c.QueryRow(ctx, names.Replace("SELECT schema_version, (SELECT count(*) > 0 FROM pg_tables WHERE schemaname = $1 AND tableowner = $2) FROM {s}.meta"),
		pgx.QueryExecModeSimpleProtocol, schema, role).Scan(&version, &owns)
	switch {
	case err != nil:
	case owns:
		err = &ledger.InvalidError{Field: "role", Bound: "a role that owns no table of the schema", Value: strconv.Quote(role)}
	case version > program.worker:
		err = fmt.Errorf("it has version %d, this program knows %d: grant with a newer one", version, program.worker)
	default:
		_, err = c.Exec(ctx, names.Replace(sql), pgx.QueryExecModeSimpleProtocol) // all in one transaction
	}
	return named(fmt.Sprintf("grant role %q its rights on schema %q", role, schema), usable(errors.Join(err, c.Close(ctx))))
}

// checkRole refuses what is no role's name. "public", also in quotes, is everybody (PostgreSQL's documentation of GRANT), and
// names that begin with pg_ are the server's own.
func checkRole(role string) error {
	bound := ""
	switch {
	case role == "" || len(role) > 63 || strings.ContainsRune(role, 0):
		bound = "1 to 63 bytes, without NUL"
	case strings.EqualFold(strings.Trim(role, `"`), "public"):
		bound = "one role, not everybody"
	case strings.HasPrefix(role, "pg_"), role == "none":
		bound = "a role of your own"
	default:
		return nil
	}
	return &ledger.InvalidError{Field: "role", Bound: bound, Value: strconv.Quote(role)}
}

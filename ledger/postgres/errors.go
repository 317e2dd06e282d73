package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/ledger"
)

const runMigrate = "run postgres.Migrate"

// SQLSTATEs that decide what happens next (PostgreSQL documentation, appendix A).
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeUnique        = "23505"
	// codeUnmet is a fence's that does not meet its rows: it divides by how many it has met. Nothing else in it divides.
	codeUnmet = "22012"
	// codeNull is that of sqlRangeFenceOne.
	codeNull = "23502"
	// codeCanceled ends a statement on request: of statement_timeout, of an operator (pg_cancel_backend), or of a lock_timeout
	// that ran out just as its lock was given, and whose signal the server's next wait for a lock forgets the reason of
	// (madelson/DistributedLock#147 met that race).
	codeCanceled = "57014"
	// These are of a schema that is older than this program.
	codeNoFunction = "42883"
	codeNoTable    = "42P01"
	codeNoColumn   = "42703"
	codeDiskFull   = "53100"
)

// unmet says that a fence has not met what it fences.
func unmet(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == codeUnmet || pg.Code == codeNull && pg.TableName == "segment")
}

// isTransient says that the same statement may well pass when it is sent once more.
func isTransient(err error) bool {
	switch code(err) {
	case codeSerialization, codeDeadlock, codeCanceled:
		return !ledger.Unknown(err)
	}
	return false
}

// isCanceled says that the database ended the statement on request, and that it wrote nothing.
func isCanceled(err error) bool { return code(err) == codeCanceled && !ledger.Unknown(err) }

// code returns the SQLSTATE of what the server answered; empty if it did not answer.
func code(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// isData says that the values of one item were refused: class 22 (data exception) or 23 (integrity constraint).
func isData(err error) bool {
	c := code(err)
	return strings.HasPrefix(c, "22") || strings.HasPrefix(c, "23")
}

// named is an error with what failed before it; nil stays nil.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w", what, err)
}

// refusedItem is what the one item gets that the database refuses.
func refusedItem(field string, err error) error {
	return &ledger.InvalidError{Field: field, Bound: "what the database accepts", Value: "refused", Err: err}
}

// isUntrusted says whether the client refuses the server's certificate.
func isUntrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// usable marks what cannot heal by itself, with what to do about it. What else is of class 42 (syntax error or access rule
// violation) the server takes at no time.
func usable(err error) error {
	var what string
	switch c := code(err); {
	case strings.HasPrefix(c, "28"):
		what = "the database refuses the login"
	case c == "3D000":
		what = "there is no such database"
	case c == "42501":
		what = "the role lacks a privilege"
	case c == codeNoTable, c == "3F000", c == codeNoColumn:
		what = "the ledger's tables are missing or of another version: " + runMigrate
	case isUntrusted(err):
		what = "the server's certificate is not trusted"
	case strings.HasPrefix(c, "42"), c == codeDiskFull:
		return ledger.MarkRefused(err)
	default:
		return err
	}
	return ledger.MarkUnusable(fmt.Errorf("postgres: %s: %w", what, err))
}

// rolledBack says that the server refused a statement with an ERROR: what it belongs to was rolled back. A FATAL may come after
// the commit (a backend that is terminated while it waits for a synchronous replica has committed), so it says nothing.
//
// Nor does class 08 (connection exception): PgBouncer before 1.16 says ERROR 08P01 to the client of a server connection that
// breaks, in the midst of a COMMIT too, and hangs up (its src/proto.c, send_pooler_error; later versions say FATAL). pgx keeps
// a connection open after any ERROR, and notices that it is closed only with the next byte that it reads.
func rolledBack(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || strings.HasPrefix(pg.Code, "08") {
		return false
	}
	return cmp.Or(pg.SeverityUnlocalized, pg.Severity) == "ERROR" // lc_messages does not translate the former
}

// sent translates the error of a statement that may have reached the server.
//
// pgconn.SafeToRetry is not asked: in pgx v5.12 a connection that breaks while the answer to a simple query or to a
// batch is read gives "conn closed", which claims that nothing was sent (MultiResultReader.NextResult peeks, which
// closes the connection and drops the error, and then meets the closed connection). A COMMIT is such a query.
func sent(err error) error {
	if err == nil || rolledBack(err) {
		return usable(err)
	}
	return ledger.MarkUnknown(err)
}

// notSent translates the error of getting a connection: nothing was asked yet.
func notSent(err error) error {
	return fmt.Errorf("postgres: no connection: %w", usable(err))
}

func noRowIsUnusable(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ledger.MarkUnusable(fmt.Errorf("postgres: the schema's version is missing: %s", runMigrate))
	}
	return usable(err)
}

// errLate says that the database got to a statement only after its deadline, and wrote nothing.
var errLate = fmt.Errorf("postgres: the statement reached the database after its deadline and changed nothing: %w",
	context.DeadlineExceeded)

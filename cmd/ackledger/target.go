package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// connectTimeout bounds one attempt to reach a Postgres server, where the URL does not say connect_timeout.
const connectTimeout = 10 * time.Second

// target is the ledger that a command is to work on.
type target struct {
	name, env string // --ledger, and what the environment says
	schema    string
	schemaSet func() bool
	accept    []string // engines that are refused otherwise
	conns     int32    // to Postgres at most; 0: the ledger's default
	cloud     cloud    // of a table of DynamoDB, not of SQS: a queue may be in another account or region
}

// ledgerFlag begins the flags of a ledger in DynamoDB that are named as those of SQS else.
const ledgerFlag = "ledger-"

// flags declares those of the ledger, which every command has.
func (t *target) flags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&t.name, "ledger", "", "a Postgres URL, a SQLite file, or dynamodb:TABLE (default: "+ledgerVariable+" in the environment)")
	flags.StringVar(&t.schema, "schema", postgres.DefaultSchema, "the ledger's schema in Postgres")
	flags.StringArrayVar(&t.accept, "accept", nil, "an engine that is refused otherwise, since the ledger's suite has not passed there, by the name that the refusal says (repeatable)")
	flags.StringVar(&t.cloud.profile, ledgerFlag+"profile", "", "AWS's profile for a ledger in DynamoDB (default: AWS_PROFILE)")
	flags.StringVar(&t.cloud.region, ledgerFlag+"region", "", "the region of a ledger in DynamoDB (default: AWS_REGION, or the profile's)")
	flags.StringVar(&t.cloud.endpoint, ledgerFlag+"endpoint-url", "", "the endpoint of DynamoDB (default: AWS_ENDPOINT_URL_DYNAMODB, or AWS's own)")
	t.schemaSet = func() bool { return flags.Changed("schema") }
	t.env = os.Getenv(ledgerVariable)
}

// flagError says what an AWS flag is called for the ledger, where a command has no queues and so not that flag.
func flagError(cmd *cobra.Command, err error) error {
	var of interface{ GetSpecifiedName() string }
	if !errors.As(err, &of) {
		return err
	}
	name := of.GetSpecifiedName()
	if cmd.Flag(name) != nil || cmd.Flag(ledgerFlag+name) == nil {
		return err
	}
	return fmt.Errorf("%w (of a ledger in DynamoDB it is --%s%s)", err, ledgerFlag, name)
}

// accepted are the engines of --accept.
func (t *target) accepted() (all []postgres.Engine) {
	for _, name := range t.accept {
		all = append(all, postgres.Engine(name))
	}
	return all
}

// opened is a ledger that the commands can work with.
type opened interface {
	ledger.Maintainer
	ledger.Inspector
	ledger.Operator
	ledger.ArchiveMeter
	ledger.Board
}

// notAFile are names of databases in other notations (libpq's key=value, URLs without //). As the name of a new SQLite
// file they would go unnoticed, with the password in them.
var notAFile = regexp.MustCompile(`^(postgres|postgresql|file|sqlite3?):|(^|\s)(host|hostaddr|port|user|password|dbname|service)\s*=`)

// kind is where a ledger is.
type kind int

const (
	inPostgres kind = iota + 1
	inSQLite
	inDynamoDB
)

// dynamoPrefix begins the name of a ledger in a table of DynamoDB.
const dynamoPrefix = "dynamodb:"

// where returns the ledger's name and where it is. In DynamoDB it is the table's.
func (t *target) where() (name string, in kind, err error) {
	name = cmp.Or(t.name, t.env)
	scheme, _, isURL := strings.Cut(name, "://")
	table, isTable := strings.CutPrefix(name, dynamoPrefix)
	pg := isURL && (scheme == "postgres" || scheme == "postgresql")
	switch {
	case name == "":
		return "", 0, usage("--ledger is missing: a Postgres URL, a SQLite file or dynamodb:TABLE (or %s in the environment)", ledgerVariable)
	case isURL && !pg:
		return "", 0, usage("--ledger must be a postgres:// URL, a SQLite file or dynamodb:TABLE, is of the kind %q", scheme)
	case !isURL && notAFile.MatchString(name):
		return "", 0, usage("--ledger must be a postgres:// URL, a SQLite file or dynamodb:TABLE, without key=value or file:")
	case isTable && table == "":
		return "", 0, usage("--ledger: dynamodb: is followed by the table's name")
	case !pg && t.schemaSet():
		return "", 0, usage("--schema is for a ledger in Postgres, --ledger is %q", name)
	case !pg && len(t.accept) > 0:
		return "", 0, usage("--accept is for a ledger in Postgres, --ledger is %q", name)
	case !isTable && t.cloud != (cloud{}):
		return "", 0, usage("--%sprofile, --%[1]sregion and --%[1]sendpoint-url are for a ledger in DynamoDB, --ledger is %[2]q", ledgerFlag, masked(name))
	case isTable:
		return table, inDynamoDB, nil
	case pg:
		return name, inPostgres, nil
	}
	return name, inSQLite, nil
}

// String is the ledger's name for people.
func (t *target) String() string {
	switch name, in, err := t.where(); {
	case err != nil:
		return "no ledger"
	case in == inPostgres:
		return fmt.Sprintf("schema %q in %s", t.schema, masked(name))
	case in == inDynamoDB:
		return "table " + name + " in DynamoDB"
	default:
		return name
	}
}

// poolConfig reads a URL. What stands behind an @, / or ? in a password would be taken for a host, and named in errors.
func poolConfig(url string) (*pgxpool.Config, error) {
	_, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest, '@'); at > end || strings.Count(rest, "@") > 1 {
		return nil, usage("--ledger: in a user, a password or a parameter write @ as %%40, / as %%2F, ? as %%3F and # as %%23")
	}
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, usage("--ledger: %w", err)
	}
	c.ConnConfig.ConnectTimeout = cmp.Or(c.ConnConfig.ConnectTimeout, connectTimeout)
	return c, nil
}

// open opens a ledger that is there.
func (t *target) open(ctx context.Context, warnings io.Writer) (opened, func() error, error) {
	name, in, err := t.where()
	switch {
	case err != nil:
		return nil, nil, err
	case in == inSQLite:
		return openSQLite(ctx, name, warnings)
	case in == inDynamoDB:
		return t.openDynamoDB(ctx, name, warnings)
	}
	return t.openPostgres(ctx, name, warnings)
}

// openSQLite opens a file that is a ledger. Nothing is made by asking for it.
func openSQLite(ctx context.Context, name string, warnings io.Writer) (opened, func() error, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, nil, fmt.Errorf("%s is a folder, not a SQLite file", name)
	}
	l, err := sqlite.Open(ctx, name, &sqlite.Config{Existing: true, Logger: logger(warnings)})
	switch {
	case errors.Is(err, sqlite.ErrNoLedger):
		if folder := filepath.Dir(name); isMissing(folder) {
			return nil, nil, fmt.Errorf("there is no ledger in %s: its folder %s does not exist (make it, then `ackledger migrate` makes the ledger)", name, folder)
		}
		return nil, nil, fmt.Errorf("there is no ledger in %s (`ackledger migrate` makes one)", name)
	case err != nil:
		return nil, nil, err
	}
	return l, l.Close, nil
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// openDynamoDB opens a table.
func (t *target) openDynamoDB(ctx context.Context, table string, warnings io.Writer) (opened, func() error, error) {
	client, err := t.cloud.tables(ctx)
	if err != nil {
		return nil, nil, err
	}
	l := dynamodb.New(client, table, &dynamodb.Config{Logger: logger(warnings)})
	return l, func() error { return nil }, l.Check(ctx)
}

func (t *target) openPostgres(ctx context.Context, name string, warnings io.Writer) (opened, func() error, error) {
	c, err := poolConfig(name)
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	l, err := postgres.New(ctx, pool, &postgres.Config{Schema: t.schema, Accept: t.accepted(), MaxConns: t.conns, Logger: logger(warnings)})
	if err != nil {
		pool.Close()
		return nil, nil, invalid(err)
	}
	closeLedger := func() error { l.Close(); pool.Close(); return nil }
	if err := l.Check(ctx); err != nil {
		return nil, nil, errors.Join(err, closeLedger())
	}
	return l, closeLedger, nil
}

// logger writes what a ledger cannot tell its caller as lines for people.
func logger(w io.Writer) *zap.Logger {
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime, c.EncodeLevel = zapcore.ISO8601TimeEncoder, zapcore.CapitalLevelEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(c), zapcore.Lock(zapcore.AddSync(&maskedLines{w})), zap.WarnLevel))
}

// maskedLines hides passwords in whole lines, which is what a logger writes.
type maskedLines struct{ w io.Writer }

func (m *maskedLines) Write(line []byte) (int, error) {
	if _, err := io.WriteString(m.w, masked(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// invalid turns a setting that the ledger refuses into wrong usage, in the words of the command line.
func invalid(err error) error {
	bad, ok := errors.AsType[*ledger.InvalidError](err)
	if !ok {
		return err
	}
	field := strings.ToLower(bad.Field[strings.LastIndexByte(bad.Field, '.')+1:])
	return usage("--%s must be %s, is %s", field, bad.Bound, bad.Value)
}

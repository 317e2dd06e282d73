package postgres

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
)

// DefaultSchema is the Postgres schema that holds the ledger's tables when Config.Schema is empty.
const DefaultSchema = "ackledger"

// Config is what a ledger may be told. The zero value, and nil, mean the defaults.
type Config struct {
	// Schema holds the ledger's tables, at most 63 bytes; it is quoted, so any name will do. Default "ackledger". For
	// who keeps several ledgers in one database, or has rules for names.
	Schema string
	// MaxConns is the number of connections for claims and settles; one more is for beats alone. They are the ledger's
	// own, so that neither InTx nor the program can starve them. The sweep and Stats each make one more while they work,
	// and what publishes or relays up to 8 more, which are closed when they are idle.
	// Default 4. For very many or very slow batches.
	MaxConns int32
	// Limits is what is stored of one message. Each zero field means ledger.DefaultLimits'. For brokers with a larger
	// maximum, or rows that must stay small. Archive is at most 256 MiB.
	Limits ledger.Limits
	// LockWait is how long a batch of claims waits for a key that another transaction inserts, before it is split and that
	// message alone is Busy. Splitting takes half a second at most: with very many such keys in a batch, what is undecided
	// then is Busy as well. A settlement whose row another transaction holds is repeated for ten times as long, and then
	// gets an error; it keeps nobody else waiting. Default 200 ms. For databases that are slow under load.
	LockWait time.Duration
	// Isolation is InTx's level: pgx.ReadCommitted (the default) or pgx.RepeatableRead, for handlers that read a thing
	// twice and must see it unchanged, and can bear serialization failures (40001).
	Isolation pgx.TxIsoLevel
	// IdleLimit ends a transaction of InTx in which no statement ran for so long, so that a frozen worker's locks go.
	// Default 1 min. For handlers that wait for others inside the transaction.
	IdleLimit time.Duration
	// TxLimit is how long a transaction of InTx may last in all. Default 1 h, the default limit of a handler. For who
	// wants to protect the database from long snapshots.
	TxLimit time.Duration
	// CommitLimit bounds the fence, the commit, and the reading of a commit whose answer was lost. Default 30 s. For
	// slow synchronous replicas.
	CommitLimit time.Duration
	// OutboxMessages and OutboxBytes are how many messages, and bytes of their bodies, wait in the outbox at most, 1 to 100,000,000 and 1 TiB.
	// With more, Publish is refused ([ledger.ErrOutboxFull]) as an outage is, until relays have sent some. They are counted about once a
	// second, so what is published within that time comes on top, and so do keys and headers. Defaults 1,000,000 and 4 GiB. For people with little room, or whose
	// brokers are away for long.
	OutboxMessages, OutboxBytes int64
	// Accept names engines, and poolers, that are refused otherwise ([EngineError]), since the ledger's suite has not been run on
	// them. Default none. For who has run the suite there himself (docs/engines.md says how).
	Accept []Engine
	// Host names this process in the owner table, for people. Default: the host's name and the process' id.
	Host string
	// Logger gets what operators should know: peers declared dead, messages refused, commits in doubt. Nil: none.
	Logger *zap.Logger
}

// maxArchive keeps the encoded statement of the largest archive below Postgres' limit of 1 GiB in every exec mode.
const maxArchive = 256 << 20

func (c *Config) withDefaults() Config {
	var out Config
	if c != nil {
		out = *c
	}
	out.Schema = cmp.Or(out.Schema, DefaultSchema)
	out.MaxConns = cmp.Or(out.MaxConns, 4)
	out.Limits.Result = cmp.Or(out.Limits.Result, ledger.DefaultLimits.Result)
	out.Limits.Archive = cmp.Or(out.Limits.Archive, ledger.DefaultLimits.Archive)
	out.Limits.Errors = cmp.Or(out.Limits.Errors, ledger.DefaultLimits.Errors)
	out.LockWait = cmp.Or(out.LockWait, 200*time.Millisecond)
	out.Isolation = cmp.Or(out.Isolation, pgx.ReadCommitted)
	out.IdleLimit = cmp.Or(out.IdleLimit, time.Minute)
	out.TxLimit = cmp.Or(out.TxLimit, time.Hour)
	out.CommitLimit = cmp.Or(out.CommitLimit, 30*time.Second)
	out.OutboxMessages = cmp.Or(out.OutboxMessages, ledger.MaxOutbox)
	out.OutboxBytes = cmp.Or(out.OutboxBytes, ledger.MaxOutboxBytes)
	if out.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			name = "unknown"
		}
		out.Host = fmt.Sprintf("%s/%d", name, os.Getpid())
	}
	out.Logger = cmp.Or(out.Logger, zap.NewNop())
	return out
}

func (c *Config) validate() error {
	if err := checkSchema(c.Schema); err != nil {
		return err
	}
	if c.Isolation != pgx.ReadCommitted && c.Isolation != pgx.RepeatableRead {
		return &ledger.InvalidError{Field: "Config.Isolation", Bound: "read committed or repeatable read",
			Value: string(c.Isolation)}
	}
	return cmp.Or(
		checkAccept(c.Accept),
		bounded("MaxConns", c.MaxConns, 1, 1000),
		bounded("Limits.Result", c.Limits.Result, 1, 64<<20),
		bounded("Limits.Archive", c.Limits.Archive, 1, maxArchive),
		bounded("Limits.Errors", c.Limits.Errors, 1, 1<<20),
		bounded("LockWait", c.LockWait, time.Millisecond, time.Minute),
		bounded("IdleLimit", c.IdleLimit, time.Millisecond, 24*time.Hour),
		bounded("TxLimit", c.TxLimit, time.Millisecond, 24*time.Hour),
		bounded("CommitLimit", c.CommitLimit, time.Millisecond, time.Hour),
		bounded("OutboxMessages", c.OutboxMessages, 1, 100_000_000),
		bounded("OutboxBytes", c.OutboxBytes, 1, 1<<40),
	)
}

func bounded[T cmp.Ordered](field string, value, low, high T) error {
	if value < low || value > high {
		return &ledger.InvalidError{Field: "Config." + field, Bound: fmt.Sprintf("%v to %v", low, high), Value: fmt.Sprint(value)}
	}
	return nil
}

// checkSchema refuses a name that Postgres would cut or cannot hold.
func checkSchema(name string) error {
	if name == "" || len(name) > 63 || strings.ContainsRune(name, 0) || strings.HasPrefix(name, "pg_") {
		return &ledger.InvalidError{Field: "Config.Schema",
			Bound: "1 to 63 bytes, without NUL, not beginning with pg_", Value: fmt.Sprintf("%q", name)}
	}
	return nil
}

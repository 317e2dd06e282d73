package dynamodb

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Limits bounds what is stored of one message. An item of DynamoDB has at most 400 KB, so a larger body lies in several.
var Limits = ledger.Limits{Result: 64 << 10, Archive: 16 << 20, Errors: 16 << 10}

// sweepInterval is the pause between two passes of the sweep, where the worker says nothing else: a pass reads the whole table, which is paid
// for. What has succeeded goes by TTL.
const sweepInterval = 24 * time.Hour

// grouped says how concurrent calls share requests. Eight at once wait for nobody: a request takes milliseconds, and costs nothing by
// itself. A call of records in ranges stays whole, since each piece is a write of its log. Bodies of dead letters are written one after
// the other, so large ones go in several batches.
var grouped = ledger.GroupConfig{Items: 4 * items.Messages, Bytes: 1 << 20, Flushes: 8, Timeout: ledger.CallTimeout}

// Config changes a ledger. The zero value is ready to use.
type Config struct {
	// Logger gets what no caller can be told. Default: nothing is logged. For whoever runs it.
	Logger *zap.Logger
}

// Ledger is a ledger in a table of DynamoDB. Make one with [New]. It is safe for concurrent use.
type Ledger struct {
	*driver.Ledger
	store *store
}

var _ ledger.Identified = (*Ledger)(nil)

// New returns the ledger in a table, which [Migrate] has made, through a client that the caller has built. The client's retries
// are not used for what the ledger sends: it repeats what may be repeated by itself. It asks nothing of the table: see [Ledger.Check].
func New(client *sdk.Client, name string, cfg *Config) *Ledger {
	if cfg == nil {
		cfg = &Config{}
	}
	log := cfg.Logger
	if log == nil {
		log = zap.NewNop()
	}
	t := &table{db: client, name: name, pace: newPace()}
	s := &store{Store: items.New(t), table: t}
	return &Ledger{store: s, Ledger: driver.New(s, driver.Config{Name: "ledger/dynamodb", Limits: Limits, Keys: items.Messages, Parts: items.Parts,
		Interval: sweepInterval, Group: &grouped,
		Warn: func(what string, err error) { log.Warn(what, zap.String("table", name), zap.Error(err)) }})}
}

// store is what transactions of handlers find behind a ledger's owner.
type store struct {
	*items.Store
	table *table
}

// ID implements [ledger.Identified]: whoever asks first draws it.
func (l *Ledger) ID(ctx context.Context) (string, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	id, err := l.store.ID(ctx)
	if err != nil {
		return "", fmt.Errorf("ledger/dynamodb: read the ledger's id: %w", err)
	}
	return id, nil
}

// Check says whether the table can be used: one that is missing, is no ledger's, or is a global table without strong consistency,
// is an error for which [ledger.Unusable] is true.
func (l *Ledger) Check(ctx context.Context) error {
	if err := check(ctx, l.store.table.db, l.store.table.name); err != nil {
		return fmt.Errorf("ledger/dynamodb: %s: %w", l.store.table.name, err)
	}
	return nil
}

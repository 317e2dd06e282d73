package dynamodb

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// Limits bounds what is stored of one message. An item of DynamoDB has at most 400 KB, so a larger body lies in several.
var Limits = ledger.Limits{Result: 64 << 10, Archive: 16 << 20, Errors: 16 << 10}

// sweepInterval is the pause between two passes of the sweep, where the worker says nothing else: a pass reads the whole table, which is paid
// for. What has succeeded goes by TTL.
const sweepInterval = 24 * time.Hour

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
func New(client *sdk.Client, table string, cfg *Config) *Ledger {
	if cfg == nil {
		cfg = &Config{}
	}
	log := cfg.Logger
	if log == nil {
		log = zap.NewNop()
	}
	s := &store{db: client, table: table, pace: newPace(), began: time.Now(), lives: map[driver.OwnerID]time.Time{}, sealed: map[driver.OwnerID]driver.Owner{},
		held: map[driver.Key]item{}, scopes: map[string]bool{}, blocks: map[name]bool{}, trims: map[trim]int64{}}
	return &Ledger{store: s, Ledger: driver.New(s, driver.Config{Name: "ledger/dynamodb", Limits: Limits, Keys: messagesMost, Parts: partMost,
		Interval: sweepInterval,
		Warn:     func(what string, err error) { log.Warn(what, zap.String("table", table), zap.Error(err)) }})}
}

// Check says whether the table can be used: one that is missing, is no ledger's, or is a global table without strong consistency,
// is an error for which [ledger.Unusable] is true.
func (l *Ledger) Check(ctx context.Context) error {
	if err := check(ctx, l.store.db, l.store.table); err != nil {
		return fmt.Errorf("ledger/dynamodb: %s: %w", l.store.table, err)
	}
	return nil
}

// Tables implements [driver.Store]: the service counts every six hours or so.
func (s *store) Tables(ctx context.Context) ([]ledger.TableStats, error) {
	out, err := s.db.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: &s.table})
	if err != nil {
		return nil, readError(err)
	}
	t := ledger.TableStats{Name: s.table}
	if out.Table.ItemCount != nil {
		t.Rows = *out.Table.ItemCount
	}
	if out.Table.TableSizeBytes != nil {
		t.Bytes = *out.Table.TableSizeBytes
	}
	return []ledger.TableStats{t}, nil
}

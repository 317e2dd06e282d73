package dynamodb

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/driver"
)

// Bounds of one request.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
const (
	getMost       = 100 // items of BatchGetItem
	batchMost     = 25  // statements of BatchExecuteStatement
	transactMost  = 100 // items of TransactWriteItems
	itemMost      = 400 << 10
	messagesMost  = 1000 // of one call: more is split
	partMost      = 20   // of an operator's transaction, with the archives and checks of each
	batchesAtOnce = 16   // of one call
)

// store implements [driver.Store] with writes on condition.
type store struct {
	db    *sdk.Client
	table string
	pace  *pace
	clock clock
	began time.Time // what the watch counts from

	mu     sync.Mutex
	lives  map[driver.OwnerID]time.Time // until when owners of this process may take themselves to be live
	sealed map[driver.OwnerID]driver.Owner
	watch  driver.Watch
	held   map[driver.Key]item // messages of owners of this process, as they were left
	scopes map[string]bool     // which are known to be listed
	blocks map[name]bool       // which are known to be marked
	trims  map[trim]int64      // to where segments were trimmed
}

var (
	_ driver.Store = (*store)(nil)
	_ driver.Apart = (*store)(nil)
)

// once makes the client send a request once: what is repeated is this package's to decide.
func once(o *sdk.Options) { o.RetryMaxAttempts = 1 }

// readTries is how often a read is sent whose answer breaks off: the client's own retries are not used.
const readTries = 3

// ask sends a request that only reads.
func (s *store) ask(ctx context.Context, request func(context.Context) error) error {
	for n := 1; ; n++ {
		err := s.send(ctx, request)
		if err == nil || code(err) != "" || n == readTries || rest(ctx, n) != nil {
			return readError(err)
		}
	}
}

// send sends a request until it is not throttled any more, or its time is over.
func (s *store) send(ctx context.Context, request func(context.Context) error) error {
	for n := 0; ; n++ {
		if err := s.pace.begin(ctx); err != nil {
			return notSent(err)
		}
		err := request(ctx)
		again := throttled[code(err)]
		s.pace.end(again)
		if !again {
			return err
		}
		if rest(ctx, n) != nil {
			return busy(ctx, fmt.Errorf("%w: %w", ErrThrottled, err))
		}
	}
}

// get reads items by their names, each as it is at some moment of the call: a strong read. What is not there is not in what it returns.
func (s *store) get(ctx context.Context, names []name) (map[name]item, error) {
	found := make(map[name]item, len(names))
	for part := range slices.Chunk(names, getMost) {
		keys := make([]item, len(part))
		for i, n := range part {
			keys[i] = n.key()
		}
		for n := 0; len(keys) > 0; n++ {
			var out *sdk.BatchGetItemOutput
			err := s.ask(ctx, func(ctx context.Context) (err error) {
				out, err = s.db.BatchGetItem(ctx, &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
					s.table: {Keys: keys, ConsistentRead: aws.Bool(true)}}}, once)
				return err
			})
			if err != nil {
				return nil, err
			}
			s.clock.heard(out.ResultMetadata)
			for _, i := range out.Responses[s.table] {
				found[nameOf(i)] = i
			}
			keys = out.UnprocessedKeys[s.table].Keys
			if len(keys) > 0 && rest(ctx, n) != nil {
				return nil, busy(ctx, ErrThrottled)
			}
		}
	}
	return found, nil
}

// Now implements [driver.Store].
func (s *store) Now() time.Time { return s.clock.now() }

// Update implements [driver.Store].
func (s *store) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	for n := 0; ; n++ {
		known := map[name]item{}
		if err := s.fetch(ctx, namesOf(call), known); err != nil {
			return err
		}
		t := s.newTx(ctx, call.Op, known)
		err := fn(t)
		if err == nil {
			err = t.finish()
		}
		if err != nil {
			return err
		}
		list, writes := changes(t.cells)
		if writes == 0 && call.Op == driver.Settle {
			list, writes = t.touch()
		}
		if writes == 0 {
			return nil
		}
		lost, err := s.commit(ctx, []*unit{{tx: t, changes: list}})
		switch {
		case err != nil:
			return err
		case len(lost) == 0:
			return t.after()
		}
		if rest(ctx, min(n, 6)) != nil {
			return busy(ctx, errConflict)
		}
	}
}

// namesOf are the items that a call says it will ask for.
func namesOf(call driver.Call) (names []name) {
	if call.Keys != nil {
		for key := range call.Keys {
			names = append(names, messageName(key))
		}
	}
	for _, id := range call.Logs {
		names = append(names, logName(id))
	}
	return names
}

// View implements [driver.Store]: each item is as it is at some moment of the call.
func (s *store) View(ctx context.Context, call driver.Call, fn func(driver.Reader) error) error {
	known := map[name]item{}
	if err := s.fetch(ctx, namesOf(call), known); err != nil {
		return err
	}
	return fn(s.newTx(ctx, call.Op, known))
}

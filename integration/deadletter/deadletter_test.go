package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap/zaptest"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// book is a handler that fails as long as the bug is there, and keeps what it got.
type book struct {
	mu      sync.Mutex
	mended  bool
	got     []consumer.Message
	succeed int
}

var errBug = errors.New("the bug")

func (b *book) Handle(_ context.Context, m *consumer.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, *m)
	if !b.mended {
		return consumer.Terminal(errBug)
	}
	b.succeed++
	return nil
}

func (b *book) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mended = true
}

func (b *book) runs() (all, succeeded int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got), b.succeed
}

func (b *book) run(i int) consumer.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got[i]
}

// start runs a worker, and returns how to end it.
func start(t *testing.T, w consumer.Worker) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(end)
	return end
}

func options(t *testing.T, to consumer.DeadLetterer) consumer.Options {
	return consumer.Options{Logger: zaptest.NewLogger(t), DeadLetter: to, DeadLetterTries: 2, DeadLetterTimeout: 3 * time.Second, Lease: 5 * time.Second}
}

// same says that two deliveries are the same message, to the byte: nil is not empty, headers are in order.
func same(a, b *consumer.Message) bool {
	return bytes.Equal(a.Body, b.Body) && (a.Body == nil) == (b.Body == nil) && bytes.Equal(a.Key, b.Key) && (a.Key == nil) == (b.Key == nil) &&
		a.Group == b.Group && reflect.DeepEqual(own(a.Headers), own(b.Headers))
}

func own(headers []consumer.Header) (out []consumer.Header) {
	for _, h := range headers {
		if h.Name != consumer.StampName {
			out = append(out, h)
		}
	}
	return out
}

// Between each kind of source and target: what fails is published whole, then acknowledged; sent back with its stamp, it
// meets its own row and runs once, however often its copy is sent. Inside that: tombstones, nil keys and headers that
// repeat (64), a FIFO message that comes again within five minutes (82), groups (48), nine attributes of its own.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on      string
		targets []string
		rows    string // one more source
		store   func(*testing.T) store
	}{
		{"", []string{"sqstest", "sqstest FIFO", "kfake"}, "kfake, rows", func(*testing.T) store { return memory.New() }},
		{"", []string{"ElasticMQ", "ElasticMQ FIFO", "Kafka"}, "Kafka, rows", database},
		{"DynamoDB, ", []string{"sqstest", "kfake"}, "kfake, rows", table},
	} {
		for _, source := range append(c.targets, c.rows) {
			for _, target := range c.targets {
				t.Run(c.on+source+" to "+target, func(t *testing.T) {
					t.Parallel()
					thereAndBack(t, c.store(t), brokers(t, source), brokers(t, target))
				})
			}
		}
	}
}

// store is a ledger that shows its rows.
type store interface {
	ledger.Ledger
	Get(context.Context, ledger.Key) (ledger.Record, error)
}

// database is a fresh PostgreSQL ledger.
func database(t *testing.T) store {
	t.Helper()
	db := services.Postgres(t)
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), config, postgres.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func thereAndBack(t *testing.T, l store, from, to place) {
	b := &book{}
	end := start(t, from.worker(t, l, b, options(t, to.target(t))))
	from.send(t)
	got := to.letters(t, 1)
	if len(got) != 1 {
		t.Fatalf("%d dead letters", len(got))
	}
	d := got[0]
	if first := b.run(0); !same(&d.Message, &first) || d.Message.ID != first.ID || d.Message.Source != first.Source ||
		d.Message.SentAt.UnixMilli() != first.SentAt.UnixMilli() || d.Message.Topic != first.Topic || d.Message.Offset != first.Offset {
		t.Errorf("dead letter %+v\nof %+v", d.Message, first)
	}
	if d.Kind != ledger.KindTerminal || d.Class != ledger.KindError || d.Error != errBug.Error() || d.Stamp == nil || d.Stamp.Token != 1 {
		t.Errorf("%+v, stamp %+v", d, d.Stamp)
	}
	eventually(t, "the failed message is acknowledged", func() bool { return from.acknowledged(t) })
	row, err := l.Get(t.Context(), from.key(d))
	if err != nil || row.State != ledger.Failed || len(row.Archived) != 1 || !row.Archived[0].Sent || row.Token != d.Stamp.Token {
		t.Fatalf("row %+v, %v", row, err)
	}

	b.mend()
	from.back(t, d)
	from.back(t, d)
	eventually(t, "the message succeeds", func() bool { _, ok := b.runs(); return ok == 1 })
	eventually(t, "both copies are acknowledged", func() bool { return from.acknowledged(t) })
	second, first := b.run(1), b.run(0)
	if all, ok := b.runs(); all != 2 || ok != 1 || !same(&first, &second) || second.ID != first.ID {
		t.Errorf("%d runs, %d succeeded\nfirst  %+v\nsecond %+v", all, ok, first, second)
	}
	if row, err = l.Get(t.Context(), from.key(d)); err != nil || row.State != ledger.Succeeded || row.Token <= d.Stamp.Token {
		t.Errorf("row %+v, %v", row, err)
	}
	end()
}

// A target that is the source is refused by name.
func TestATargetThatIsTheSourceIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqstest", "kfake", "ElasticMQ", "Kafka"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := brokers(t, kind)
			err := p.worker(t, memory.New(), &book{}, options(t, p.target(t))).Run(t.Context())
			if err == nil || !bytes.Contains([]byte(err.Error()), []byte("must not be the source itself, is ")) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

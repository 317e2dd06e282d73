package history_test

import (
	"context"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/ackledger/ackledger/integration/services"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// doorPostgres is a way to the ledger at a URL; it stays open until close.
func doorPostgres(ctx context.Context, dsn string) (d door, closer func(), err error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return door{}, nil, err
	}
	c.MaxConns = 6
	c.ConnConfig.ConnectTimeout = 2 * time.Second
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return door{}, nil, err
	}
	l, err := postgres.New(ctx, pool, &postgres.Config{LockWait: 50 * time.Millisecond})
	if err != nil {
		return door{}, nil, err
	}
	d = door{ledger: l, operate: l, limit: hurried(2*time.Second, 10*time.Millisecond), declare: func(ctx context.Context, id string) error {
		number, err := strconv.ParseInt(strings.TrimPrefix(id, "pg-"), 36, 64)
		if err == nil {
			_, err = pool.Exec(ctx, "UPDATE ackledger.owner SET fate = 3, sealed = clock_timestamp() WHERE id = $1 AND fate = 1", number)
		}
		return err
	}}
	return d, func() { l.Close(); pool.Close() }, nil
}

func childPostgres(ctx context.Context, dsn string) (door, error) {
	d, _, err := doorPostgres(ctx, dsn)
	return d, err
}

// newPostgres is a ledger in a database of its own, used by this process and a crew through a proxy that cuts, delays and
// swallows.
func newPostgres(t *testing.T, name string, ranged bool) *site {
	t.Helper()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err == nil {
		err = postgres.Migrate(t.Context(), conn, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	calm, closeCalm, err := doorPostgres(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeCalm)
	calm.limit = func(*rand.Rand) time.Duration { return endLimit }
	line := newWire(t, db.URL)
	d, closer, err := doorPostgres(t.Context(), line.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closer)
	return &site{
		name: name, ranged: ranged, snapshots: true, pieces: true, locks: true, wire: line,
		crew: newCrew(t, "postgres", func(plan) string { return line.url }, 2*time.Second), open: func(plan) (door, door) { return d, calm },
	}
}

// wire is what lies between the clients and PostgreSQL.
type wire struct {
	url    string
	proxy  *toxiproxy.Proxy
	faults map[string]int // by kind; read it when the test is over
}

// toxics are what goes wrong on the wire, in toxiproxy's words (https://github.com/Shopify/toxiproxy#toxics). Downstream are
// the server's answers: what is held up or lost there was carried out.
var toxics = map[string]string{
	"answers delayed":         `{"name":"x","type":"latency","stream":"downstream","attributes":{"latency":30,"jitter":20}}`,
	"requests delayed":        `{"name":"x","type":"latency","stream":"upstream","attributes":{"latency":30,"jitter":20}}`,
	"answers lost":            `{"name":"x","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
	"requests lost":           `{"name":"x","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`,
	"cut within answers":      `{"name":"x","type":"limit_data","stream":"downstream","attributes":{"bytes":700}}`,
	"cut within requests":     `{"name":"x","type":"limit_data","stream":"upstream","attributes":{"bytes":5000}}`,
	"connections reset":       `{"name":"x","type":"reset_peer","stream":"downstream","attributes":{"timeout":0}}`,
	"answers in small pieces": `{"name":"x","type":"slicer","stream":"downstream","attributes":{"average_size":40,"size_variation":20,"delay":50}}`,
}

// newWire puts a proxy before the database, and lets things go wrong on it until the test ends.
func newWire(t *testing.T, dsn string) *wire {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &wire{proxy: toxiproxy.NewProxy(server, "postgres", "127.0.0.1:0", u.Host), faults: map[string]int{}}
	if err := w.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	u.Host = w.proxy.Listen
	w.url = u.String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.trouble(ctx, t) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		w.proxy.Stop()
		t.Logf("on the wire: %v", w.faults)
	})
	return w
}

// trouble lets one thing after the other go wrong, with rests between them.
func (w *wire) trouble(ctx context.Context, t *testing.T) {
	var names []string
	for name := range toxics {
		names = append(names, name)
	}
	for ctx.Err() == nil {
		wait(ctx, 50*time.Millisecond+rand.N(300*time.Millisecond))
		name := names[rand.IntN(len(names))]
		if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(toxics[name])); err != nil {
			t.Error(err)
			return
		}
		wait(ctx, 10*time.Millisecond+rand.N(120*time.Millisecond))
		if err := w.proxy.Toxics.RemoveToxic(context.WithoutCancel(ctx), "x"); err != nil {
			t.Error(err)
			return
		}
		w.faults[name]++
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	newPostgres(t, "postgres", false).check(t, histories(t, 100, 10_000))
}

package history_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/integration/wire"
	"github.com/ackledger/ackledger/internal/services"
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

// idledOut is the code of a session that the server has ended since it did nothing.
const idledOut = "57P05"

// newPostgres is a ledger in a database of its own, used by this process and a crew through a proxy that cuts, delays and
// swallows.
func newPostgres(t *testing.T, name string, ranged bool) *site {
	t.Helper()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err == nil {
		err = postgres.Migrate(t.Context(), conn, "")
	}
	if of, is := errors.AsType[*pgconn.PgError](err); is && of.Code == idledOut { // the checks beside it left it no processor
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
	l := newTroubled(t, db.URL)
	d, closer, err := doorPostgres(t.Context(), l.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closer)
	return &site{
		name: name, ranged: ranged, snapshots: true, pieces: true, locks: true, line: l,
		crew: newCrew(t, "postgres", func(plan) string { return l.url }, 2*time.Second), open: func(plan) (door, door) { return d, calm },
	}
}

// troubled is what lies between the clients and PostgreSQL.
type troubled struct {
	url    string
	proxy  *wire.Proxy
	faults map[string]int // by kind; read it when the test is over
}

// troubles are what goes wrong on the line, with requests and with answers. What is held up or lost of an answer was carried
// out.
var troubles = map[string][2]wire.Fault{
	"answers delayed":         {{}, {Delay: 20 * time.Millisecond, Jitter: 30 * time.Millisecond}},
	"requests delayed":        {{Delay: 20 * time.Millisecond, Jitter: 30 * time.Millisecond}, {}},
	"answers lost":            {{}, {Lose: true}},
	"requests lost":           {{Lose: true}, {}},
	"cut within answers":      {{}, {Limit: 700}},
	"cut within requests":     {{Limit: 5000}, {}},
	"connections refused":     {{}, {Refuse: true}},
	"answers in small pieces": {{}, {Piece: 40}},
}

// newTroubled puts a proxy before the database, and lets things go wrong on it until the test ends.
func newTroubled(t *testing.T, dsn string) *troubled {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := wire.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = proxy.Addr()
	l := &troubled{url: u.String(), proxy: proxy, faults: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.trouble(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		proxy.Close()
		t.Logf("on the line: %v", l.faults)
	})
	return l
}

// trouble lets one thing after the other go wrong, with rests between them.
func (l *troubled) trouble(ctx context.Context) {
	names := slices.Collect(maps.Keys(troubles))
	for ctx.Err() == nil {
		wait(ctx, 50*time.Millisecond+rand.N(300*time.Millisecond))
		name := names[rand.IntN(len(names))]
		l.proxy.Set(troubles[name][0], troubles[name][1])
		wait(ctx, 10*time.Millisecond+rand.N(120*time.Millisecond))
		l.proxy.Heal()
		l.faults[name]++
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	newPostgres(t, "postgres", false).check(t, histories(t, 100, 10_000))
}

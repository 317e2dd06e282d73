package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

// BenchmarkAgainstBare shows what the ledger's rules cost: its rate as a part of the rate of two bare statements for a
// batch, over a table with the same needs, each its own commit. Both take turns, so that a busy machine slows both. One
// operation is one message through each.
func BenchmarkAgainstBare(b *testing.B) {
	for _, size := range []int{500, 2000} {
		for _, conns := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("batch=%d/at-once=%d", size, conns), func(b *testing.B) { againstBare(b, size, conns) })
		}
	}
}

func againstBare(b *testing.B, size, conns int) {
	l := newBench(b, variant{})
	o, err := l.Join(b.Context(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	o = ledger.Unwrap(o)
	bare := newBare(b, l, conns)
	var took [2]time.Duration
	turn := size * conns
	b.ReportAllocs()
	b.ResetTimer()
	for from := 0; from < b.N; from += turn {
		for side, do := range []func(context.Context, []ledger.Entry) error{bare.message, func(ctx context.Context, e []ledger.Entry) error {
			return claimAndSettle(ctx, o, e)
		}} {
			var wg sync.WaitGroup
			start := time.Now()
			for w := range conns {
				wg.Go(func() {
					if err := do(b.Context(), kafkaEntries(w, from/conns, size)); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
			took[side] += time.Since(start)
		}
	}
	b.StopTimer()
	n := (b.N + turn - 1) / turn * turn
	b.ReportMetric(float64(n)/took[0].Seconds(), "bare/s")
	b.ReportMetric(float64(n)/took[1].Seconds(), "ours/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "of-bare")
	reportTable(b, l, n)
}

func claimAndSettle(ctx context.Context, o ledger.Owner, entries []ledger.Entry) error {
	claims, err := o.Claim(ctx, entries)
	if err != nil {
		return err
	}
	done := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		done[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	}
	errs, err := o.Settle(ctx, done)
	for _, e := range errs {
		if err == nil {
			err = e
		}
	}
	return err
}

// reportTable reports the size of the message table, and how many of its updates wrote no index (HOT).
func reportTable(b *testing.B, l *bench, messages int) {
	b.Helper()
	b.ReportMetric(float64(l.number(b, "SELECT pg_table_size('ackledger.message')"))/float64(messages), "heap-B/message")
	b.ReportMetric(float64(l.number(b, "SELECT pg_indexes_size('ackledger.message')"))/float64(messages), "index-B/message")
	l.exec(b, "SELECT pg_stat_force_next_flush()")
	b.ReportMetric(float64(l.number(b, `SELECT n_tup_hot_upd * 100 / greatest(n_tup_upd, 1) FROM pg_stat_all_tables
		WHERE relid = 'ackledger.message'::regclass`)), "%hot")
}

// bareLoop is the least that a program of one's own would do for the same rows. With = ANY there is one plan without a scan
// of the table: with = alone, a table that was small a moment ago makes the settle twenty times slower.
type bareLoop struct{ pool *pgxpool.Pool }

func newBare(b *testing.B, l *bench, conns int) *bareLoop {
	b.Helper()
	l.exec(b, `CREATE TABLE bare (token bigint NOT NULL, at timestamptz NOT NULL, expiry timestamptz NOT NULL,
		owner bigint NOT NULL, scope integer NOT NULL, state smallint NOT NULL, key uuid PRIMARY KEY,
		fingerprint uuid NOT NULL, id bytea NOT NULL) WITH (fillfactor = 70)`)
	c, err := pgxpool.ParseConfig(l.url)
	if err != nil {
		b.Fatal(err)
	}
	c.MaxConns = int32(conns)
	for _, s := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		c.ConnConfig.RuntimeParams[s] = "off"
	}
	pool, err := pgxpool.NewWithConfig(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return &bareLoop{pool}
}

// message claims a batch and settles it.
func (l *bareLoop) message(ctx context.Context, entries []ledger.Entry) error {
	n := len(entries)
	keys, prints, ids := make([]pgtype.UUID, n), make([]pgtype.UUID, n), make([][]byte, n)
	for i := range entries {
		var key [16]byte
		binary.BigEndian.PutUint64(key[:], uint64(len(entries[i].Key.Pos.Log))+uint64(entries[i].Key.Pos.Log[len(entries[i].Key.Pos.Log)-1]))
		binary.BigEndian.PutUint64(key[8:], uint64(entries[i].Key.Pos.Offset))
		keys[i], prints[i], ids[i] = pgUUID(key), pgUUID(entries[i].Fingerprint), entries[i].Key.ID
	}
	rows, err := l.pool.Query(ctx, `INSERT INTO bare (key, fingerprint, id, token, at, expiry, owner, scope, state)
		SELECT k, f, i, 1, now(), now() + $5::interval, $4, 1, 1 FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) AS u(k, f, i)
		ON CONFLICT (key) DO NOTHING RETURNING key`, keys, prints, ids, int64(7), 24*time.Hour)
	if err != nil {
		return err
	}
	claimed := 0
	for rows.Next() {
		var key [16]byte
		if err := rows.Scan(&key); err != nil {
			return err
		}
		claimed++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	tag, err := l.pool.Exec(ctx, `UPDATE bare b SET state = 2, at = now() FROM unnest($1::uuid[]) AS u(k)
		WHERE b.key = ANY(ARRAY[u.k]) AND b.owner = $2 AND b.token = 1 AND b.state = 1`, keys, int64(7))
	if err == nil && (claimed != n || tag.RowsAffected() != int64(n)) {
		err = fmt.Errorf("claimed %d and settled %d of %d", claimed, tag.RowsAffected(), n)
	}
	return err
}

package postgres_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// BenchmarkClaimSettle claims and settles new messages in batches, four at once; one operation is one message.
func BenchmarkClaimSettle(b *testing.B) {
	for _, size := range []int{1, 100, 500, 2000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmark(b, size, 4) })
	}
}

func benchmark(b *testing.B, size, workers int) {
	l := newBench(b, variant{})
	o, err := l.Join(b.Context(), time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for from := w * size; from < b.N; from += workers * size {
				n := min(size, b.N-from)
				claims, err := o.Claim(b.Context(), kafkaEntries(w, from, n))
				if err != nil {
					b.Error(err)
					return
				}
				done := make([]ledger.Settlement, n)
				for i, c := range claims {
					done[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
				}
				if errs, err := o.Settle(b.Context(), done); err != nil || errs[0] != nil {
					b.Error(err, errs)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	var bytes int64
	if err := l.pool.QueryRow(b.Context(), "SELECT pg_total_relation_size('ackledger.message')").Scan(&bytes); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/message")
}

// kafkaEntries are the next records of a partition.
func kafkaEntries(partition, from, n int) []ledger.Entry {
	out := make([]ledger.Entry, n)
	keys := ledger.LogKeys{Scope: "orders@cluster/orders", Log: fmt.Sprintf("cluster/uuid/%d", partition)}
	for i := range out {
		offset := int64(from + i)
		e := &out[i]
		e.Key = keys.Key(fmt.Appendf(nil, "orders-%d-%d", partition, offset),
			&ledger.Position{Log: keys.Log, Offset: offset, Prev: -1})
		e.Delivery = e.Key.ID
		binary.BigEndian.PutUint64(e.Fingerprint[:], uint64(offset))
		e.Window = 24 * time.Hour
	}
	return out
}

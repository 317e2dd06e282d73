package ledger_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Callers come and go at random while the store fails at random: every message ends up settled once.
func TestGroupUnderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var mu sync.Mutex
		n := 0
		every := func(k int) memory.Fault {
			return func(ctx context.Context, _ memory.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n%k == 0 {
					return errors.New("broken")
				}
				return nil
			}
		}
		o, err := l.Join(t.Context(), 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		g := ledger.Group(o, ledger.GroupConfig{Items: 10, Timeout: time.Second})
		l.FailBefore(every(7))
		l.FailAfter(every(5))
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { settleUnderFaults(t, g, ask(strconv.Itoa(i)), time.Duration(i%5)*time.Second) })
		}
		wg.Wait()
		for i := range 200 {
			r, err := l.Get(t.Context(), ask(strconv.Itoa(i))[0].Key)
			if err != nil || r.State != ledger.Succeeded || r.Owner != "" {
				t.Fatalf("message %d: %+v, %v", i, r, err)
			}
		}
	})
}

// settleUnderFaults claims and settles one message as a worker does: until answered.
func settleUnderFaults(t *testing.T, o ledger.Owner, entries []ledger.Entry, patience time.Duration) {
	for t.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(t.Context(), patience+time.Millisecond)
		claims, err := o.Claim(ctx, entries)
		if err != nil || claims[0].Answer != ledger.Run {
			<-ctx.Done()
			cancel()
			continue
		}
		cancel()
		for t.Context().Err() == nil {
			errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}})
			if err != nil {
				continue
			}
			if errs[0] != nil {
				t.Errorf("settle: %v", errs[0])
			}
			return
		}
	}
}

func BenchmarkGroupSettle(b *testing.B) {
	o := ledger.Group(nothing{}, ledger.GroupConfig{})
	b.ReportAllocs()
	b.SetParallelism(500)
	var workers atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		s := []ledger.Settlement{{Ticket: ledger.NewTicket([16]byte{1}, 1), Kind: ledger.Succeed}}
		var sum [16]byte
		binary.LittleEndian.PutUint32(sum[8:], workers.Add(1))
		for i := uint64(0); pb.Next(); i++ {
			binary.LittleEndian.PutUint64(sum[:], i)
			s[0].Ticket = ledger.NewTicket(sum, 1)
			if _, err := o.Settle(context.Background(), s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// nothing is an owner that answers as fast as a database near by.
type nothing struct{ ledger.Owner }

func (nothing) Settle(_ context.Context, s []ledger.Settlement) ([]error, error) {
	time.Sleep(time.Millisecond)
	return make([]error, len(s)), nil
}

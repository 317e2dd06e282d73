package memory

import (
	"context"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// NewRepeated makes a ledger whose transactions take a few keys each, and run twice: as in a store that writes on the
// condition that nothing has changed, and finds the first time that something has.
func NewRepeated(keys int, opts ...Option) *Ledger {
	s, o := build(opts)
	return &Ledger{Ledger: driver.New(repeated{s}, driver.Config{Name: "repeated", Limits: o.limits, Keys: keys}), store: s}
}

// DropOwner removes an owner's row.
func (l *Ledger) DropOwner(id string) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	n, _ := strconv.ParseInt(id, 10, 64)
	delete(l.store.owners, driver.OwnerID(n))
}

// RestOwners lets those that left or died have done so long ago.
func (l *Ledger) RestOwners() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	for _, o := range l.store.owners {
		if o.fate != driver.Live {
			o.end = o.end.Add(-2 * ledger.OwnerRest)
		}
	}
}

type repeated struct{ *store }

func (r repeated) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	return r.store.Update(ctx, call, func(t driver.Tx) error {
		if err := fn(&forgetful{t}); err != nil {
			return err
		}
		return fn(t)
	})
}

// forgetful reads, and writes nothing.
type forgetful struct{ driver.Tx }

func (f *forgetful) Insert(m *driver.Message) (bool, error) {
	there, err := f.Message(m.Key, nil)
	return there == nil, err
}

func (f *forgetful) Succeed(driver.Key, uint64, driver.OwnerID, []byte, time.Time) (bool, error) {
	return false, nil
}

func (f *forgetful) Alter(driver.Key, []byte, driver.ArchiveChange) (bool, error) { return true, nil }

func (f *forgetful) Put(*driver.Message) error                      { return nil }
func (f *forgetful) Remove([]driver.Key) error                      { return nil }
func (f *forgetful) File(*ledger.ArchiveRecord) error               { return nil }
func (f *forgetful) Note([]ledger.AuditRecord) error                { return nil }
func (f *forgetful) PutLog(*driver.Log) error                       { return nil }
func (f *forgetful) DropLog(driver.LogID) error                     { return nil }
func (f *forgetful) PutRange(driver.LogID, *driver.Range) error     { return nil }
func (f *forgetful) DropRange(driver.LogID, uint64) error           { return nil }
func (f *forgetful) PutSegment(driver.LogID, *driver.Segment) error { return nil }
func (f *forgetful) DropSegment(driver.LogID, int64) error          { return nil }
func (f *forgetful) Trim(string, string, int64, time.Time) error    { return nil }

func (f *forgetful) KeepPast(string, time.Duration) error { return nil }

func (f *forgetful) PutTurn(driver.Turn) error { return nil }

func (f *forgetful) SweepArchive(behind driver.Mark, n int, _ time.Time) (driver.Mark, int64, int64, error) {
	return f.Tx.SweepArchive(behind, n, time.Time{})
}

func (f *forgetful) SweepAudits(n int, _ time.Time) (int64, error) {
	return f.Tx.SweepAudits(n, time.Time{})
}

func (f *forgetful) SweepPast(int, time.Time) (int64, error) { return f.Tx.SweepPast(0, time.Time{}) }

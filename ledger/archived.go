package ledger

import "context"

// ArchiveMeter is a ledger that can say how much of one scope is archived. The stores of this module are.
type ArchiveMeter interface {
	// ArchivedBytes adds up [Archive.Weight] of the scope's archived deliveries that are not purged, 0 for a scope that has
	// none. It stops at enough, which is above 0: what it returns then is at least that. It reads an index and small rows, not
	// the bodies, in short pages, so it takes some seconds for a million deliveries: ask now and then, not for each message. A
	// page has 10 s, the whole what ctx says (10 s where that has no deadline). What is archived or purged meanwhile may be in
	// it or not. It may be called by any number of processes and goroutines.
	ArchivedBytes(ctx context.Context, scope string, enough int64) (int64, error)
}

// What Archive.Weight adds for each delivery and each of its errors, in bytes: the row's other columns and its entries in
// indexes.
const (
	ArchiveRowBytes = 512
	errorBytes      = 64
)

// Weight is about what an archived delivery takes in a store, in bytes: [Archive.Size], its errors, and ArchiveRowBytes. A
// store that compresses takes less, and one that writes headers as text counts up to a third more of them.
func (a *Archive) Weight() int64 {
	n := ArchiveRowBytes + a.Size()
	for i := range a.Errors {
		n += errorBytes + len(a.Errors[i].Error)
	}
	return int64(n)
}

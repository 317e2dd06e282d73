package memory

import (
	"context"

	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.ArchiveMeter = (*Ledger)(nil)

// ArchivedBytes implements [ledger.ArchiveMeter].
func (l *Ledger) ArchivedBytes(ctx context.Context, scope string, enough int64) (n int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.archives {
		for i := range list {
			if a := &list[i]; a.Key.Scope == scope && a.Purged.IsZero() {
				n += a.Weight()
			}
			if n >= enough {
				return n, nil
			}
		}
	}
	return n, nil
}

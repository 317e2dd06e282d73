package driver

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// findKeys is how many keys of archived deliveries Find looks at.
const findKeys = 500

// Get implements [ledger.Operator].
func (l *Ledger) Get(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	var rec ledger.Record
	err := l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
		if rec, err = get(r, key.Sum(), !ledger.NoBodies(ctx)); err == nil {
			err = l.parkedOf(r, &rec, !ledger.NoBodies(ctx))
		}
		return err
	})
	if err != nil {
		return ledger.Record{}, l.named(fmt.Sprintf("get %v", key), err)
	}
	if rec.State == 0 {
		return rec, fmt.Errorf("%w: %v", ledger.ErrNotFound, key)
	}
	return rec, nil
}

// get reads all that is known of a message; without a row or range its state is 0.
func get(r Reader, key Key, bodies bool) (ledger.Record, error) {
	rec := ledger.Record{Key: key}
	m, err := r.Message(key, nil)
	if err != nil {
		return rec, err
	}
	if m != nil {
		rec = record(m)
		if rec.Steps, err = r.Steps(key, false); err != nil {
			return rec, err
		}
	} else if in, owner, err := known(r, key); err != nil {
		return rec, err
	} else if in != nil {
		if rec = *in; owner != Nobody {
			rec.Owner = owner.String()
		}
	}
	if rec.Archived, err = r.Archive(key, bodies); err == nil {
		rec.Past, err = r.Past(key, bodies, ledger.MaxPast)
	}
	return rec, err
}

func record(m *Message) ledger.Record {
	rec := ledger.Record{Key: m.Key, Scope: m.Scope, ID: m.ID, Fingerprint: m.Fingerprint, State: m.State, Token: m.Token,
		Attempts: m.Attempts, Crashes: m.Crashes, Generation: m.Generation, Result: m.Result, Errors: m.Errors, Due: m.Due, At: m.At, Expiry: m.Expiry}
	if m.Owner != Nobody {
		rec.Owner = m.Owner.String()
	}
	return rec
}

// Find implements [ledger.Operator].
func (l *Ledger) Find(ctx context.Context, scope string, id []byte) ([]ledger.Record, error) {
	if err := checks.ID(id); err != nil {
		return nil, err
	}
	var keys []ledger.Key
	err := l.store.View(ctx, Call{Op: Read}, func(r Reader) (err error) {
		if keys, err = r.ArchivedKeys(id, findKeys); err != nil {
			return err
		}
		past, err := r.PastKeys(id, findKeys)
		if err != nil {
			return err
		}
		keys = append(keys, past...)
		return eachLog(r, func(g *Log) error {
			if key, ok := g.KeyOf(id); ok {
				keys = append(keys, key)
			}
			return nil
		})
	})
	if err != nil {
		return nil, l.named("find", err)
	}
	return acts.Find(ctx, l, keys, scope, id)
}

// logPage is how many logs are read at once.
const logPage = 100

// eachLog calls fn for each log.
func eachLog(r Reader, fn func(*Log) error) error {
	var from LogID
	for {
		page, err := r.Logs(from, logPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := fn(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < logPage || !after(&from, page[len(page)-1].Log) {
			return nil
		}
	}
}

// after sets the id right behind a log's; false: there is none.
func after(id *LogID, last LogID) bool {
	n := binary.BigEndian.Uint64(last[:]) + 1
	binary.BigEndian.PutUint64(id[:], n)
	return n != 0
}

// reads is a call that reads messages.
func reads[T any](list []T, key func(*T) Key) Call {
	return Call{Op: Read, Keys: keysOf(list, key), Messages: len(list)}
}

// Status implements [ledger.Operator].
func (l *Ledger) Status(ctx context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	if err := checks.Keys("keys", len(keys)); err != nil {
		return nil, err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	out := make([]ledger.Status, len(keys))
	err := l.store.View(ctx, reads(keys, func(k *ledger.Key) Key { return k.Sum() }), func(r Reader) error {
		for i := range keys {
			_, s, err := status(r, keys[i].Sum())
			if err != nil {
				return err
			}
			out[i] = s
		}
		return nil
	})
	if err != nil {
		return nil, l.named("status", err)
	}
	return out, nil
}

// status is how a message is, in a row or in a range, and its row, if there is one.
func status(r Reader, key Key) (*Message, ledger.Status, error) {
	m, err := r.Message(key, nil)
	if m != nil && err == nil {
		s, err := statusOf(r, m)
		return m, s, err
	}
	if err != nil {
		return nil, ledger.Status{}, err
	}
	rec, _, err := known(r, key)
	if rec == nil || err != nil {
		return nil, ledger.Status{}, err
	}
	s := ledger.Status{State: rec.State}
	if rec.State == ledger.Pending { // whoever asks for it next finds out whose it is
		s.Holder, s.HeldFor = ledger.Live, time.Second
	}
	return nil, s, nil
}

// statusOf is how a row is.
func statusOf(r Reader, m *Message) (ledger.Status, error) {
	s := ledger.Status{State: m.State, Token: m.Token, Fingerprint: m.Fingerprint, Generation: m.Generation}
	switch m.State {
	case ledger.Pending:
		row, err := sees(r, Nobody, m)
		if err != nil {
			return s, err
		}
		s.Holder, s.HeldFor, s.DueIn = row.Holder, row.HeldFor, max(row.DueIn, 0)
	case ledger.Failed:
		s.Delivery = m.Failed
	}
	return s, nil
}

// finished is what lies finished in a scope's ranges.
func (l *Ledger) finished(ctx context.Context, scope string) (out []ranges.Finished, err error) {
	err = l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		out = nil
		return eachLog(r, func(g *Log) error {
			if g.Scope != scope {
				return nil
			}
			all, err := r.Segments(nil, g.Log, everything)
			f := ranges.Finished{Info: g.Info}
			for _, s := range all {
				if !s.Rows {
					f.Segments = append(f.Segments, s)
				}
			}
			out = append(out, f)
			return err
		})
	})
	return out, err
}

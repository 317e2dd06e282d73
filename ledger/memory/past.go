package memory

import (
	"bytes"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// past holds what is kept of rows that are gone.
type past struct {
	keep  map[uint32]time.Duration // by scope; none: nothing is kept
	lives map[driver.Key][]life    // the oldest first
}

// life is what a row had. Times count from the ledger's first moment.
type life struct {
	row
	name   []byte // its id
	result []byte
	until  time.Duration
}

// outlive keeps what is to be kept of a row that is about to go.
func (t *rows) outlive(r *row) {
	result := t.more[r.key].result
	if keep, ok := t.past.keep[r.scope]; ok && result != nil {
		t.past.lives[r.key] = append(t.past.lives[r.key], life{*r, bytes.Clone(t.id(r)), result, r.expiry + keep})
	}
}

// drop removes lives that are kept until before a time, of n keys, and returns how many.
func (p *past) drop(before time.Duration, n int) (dropped int64) {
	for key, list := range p.lives {
		if n--; n < 0 {
			break
		}
		kept := slices.DeleteFunc(list, func(l life) bool { return l.until < before })
		dropped += int64(len(list) - len(kept))
		if p.lives[key] = kept; len(kept) == 0 {
			delete(p.lives, key)
		}
	}
	return dropped
}

// KeepPast implements [driver.Tx].
func (t *tx) KeepPast(scope string, keep time.Duration) error {
	n := t.rows.scope(scope)
	if delete(t.rows.past.keep, n); keep > 0 {
		t.rows.past.keep[n] = keep
	}
	return nil
}

// Past implements [driver.Reader].
func (t *tx) Past(key driver.Key, results bool, n int) (list []ledger.Past, err error) {
	for _, l := range slices.Backward(t.rows.past.lives[key]) {
		if len(list) == n {
			break
		}
		p := ledger.Past{State: l.state, Token: l.token, Attempts: int(l.attempts), Crashes: int(l.crashes),
			At: t.begin.Add(l.at), Expiry: t.begin.Add(l.expiry), Until: t.begin.Add(l.until), Bytes: len(l.result)}
		if results {
			p.Result, p.Bytes = bytes.Clone(l.result), 0
		}
		list = append(list, p)
	}
	return list, nil
}

// PastKeys implements [driver.Lists].
func (t *tx) PastKeys(id []byte, n int) (keys []ledger.Key, err error) {
	for key, list := range t.rows.past.lives {
		if bytes.Equal(list[0].name, id) && len(keys) < n {
			keys = append(keys, ledger.KeyOfSum(t.rows.names[list[0].scope], id, key))
		}
	}
	return keys, nil
}

// SweepPast implements [driver.Tx]: of all at once.
func (t *tx) SweepPast(_ int, before time.Time) (removed int64, err error) {
	return t.rows.past.drop(t.since(before), len(t.rows.past.lives)), nil
}

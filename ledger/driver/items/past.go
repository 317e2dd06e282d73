package items

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// placePast is where the index of dead letters lists the past, by its end.
const placePast = "p"

// outlive keeps the past of a message that goes.
func (t *tx) outlive(m *driver.Message, keep time.Duration) {
	past := ledger.Past{State: m.State, Token: m.Token, Attempts: m.Attempts, Crashes: m.Crashes, Result: m.Result, At: m.At, Expiry: m.Expiry,
		Until: m.Expiry.Add(keep)}
	data, err := json.Marshal(past)
	if err != nil {
		return // it has no way to fail: bytes, numbers, and times that were read
	}
	place, low := placeOf(m.Key)
	n := Name{place, kindPast + low + momentOf(past.Until) + string(newVersionBytes())}
	i := n.Item()
	i[attrData], i[attrScope], i[attrTTL] = Bytes(data), Bytes(m.Scope), Number(past.Until.Unix()+1)
	i[attrShard], i[attrMoment] = Bytes(placePast), Bytes(momentOf(past.Until)+n.Place+n.Sort)
	if len(m.ID) > 0 {
		i[attrByID] = Bytes(m.ID)
	}
	t.cell(n).write(i)
}

// Past implements [driver.Reader].
func (t *tx) Past(key driver.Key, results bool, n int) (list []ledger.Past, err error) {
	place, low := placeOf(key)
	items, err := t.collect(t.ctx, Query{Place: place, Prefix: kindPast + low, Down: true}, n)
	for _, i := range items {
		var p ledger.Past
		if err := json.Unmarshal(getBytes(i, attrData), &p); err != nil {
			return nil, fmt.Errorf("past: %w", err)
		}
		if !results {
			p.Bytes, p.Result = len(p.Result), nil
		}
		list = append(list, p)
	}
	return list, err
}

// PastKeys implements [driver.Lists].
func (t *tx) PastKeys(id []byte, n int) ([]ledger.Key, error) { return t.byID(kindPast, id, n) }

// SweepPast implements [driver.Tx]: what the table has not removed by itself.
func (t *tx) SweepPast(n int, before time.Time) (removed int64, err error) {
	list, err := t.collect(t.ctx, Query{Place: placePast, To: momentOf(before), Index: Dead}, min(n, t.bounds.Set/2))
	for _, i := range list {
		t.debris = append(t.debris, NameOf(i))
	}
	return int64(len(list)), err
}

package items

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

const (
	// shards are as many parts of the index of dead letters: one alone takes 1,000 writes a second.
	shards = 8
	// inlineMost is how many bytes of body and headers, and how many of a group, stand in a delivery's own Item, which lists read.
	inlineMost = 2 << 10
)

// storedArchive is an archived delivery as JSON, beside what indexes and lists need. Texts that need not be UTF-8 are bytes.
type storedArchive struct {
	Fingerprint   ledger.Fingerprint
	Kind          ledger.FailureKind
	Errors        []byte
	Source, Group []byte
	Attempts      int
	SentAt        int64 // microseconds of Unix; with Sent zero where it is not known
	SentNanos     int64
	Known         bool            // SentAt is
	Pos           *storedPosition `json:",omitempty"`
	Sent          bool
	Token         uint64
	Generation    int
	Replayed      time.Time
	Purged        time.Time
	Keep          time.Duration
	HasBody       bool
	Size          int // of body and headers
	BodyBytes     int
	Chunks        int    // of body and headers; 0: they are in the item
	Body          string // what the chunks' names begin with
	Aside         int    `json:",omitempty"` // bytes of a group that is ahead of headers and body: a key of Kafka may be as large as a record
}

// storedPosition is a position as JSON.
type storedPosition struct {
	Log                 []byte
	Epoch               int32
	Offset, Prev, First int64
}

// File implements [driver.Tx].
func (t *tx) File(a *ledger.ArchiveRecord) error {
	key := a.Key.Sum()
	c, err := t.read(archiveName(key, a.Delivery))
	if err != nil {
		return err
	}
	if keeps(c.is, t.now) {
		c.check = !c.put // if it goes before the commit, it is filed
		return nil
	}
	t.cell(MessageName(key)).check = true // or a request that comes twice would archive anew what a reopening has removed
	if err := t.addScope(t.ctx, a.Key.Scope); err != nil {
		return err
	}
	stored := storedArchive{Fingerprint: a.Fingerprint, Kind: a.Kind, Errors: storage.EncodeErrors(a.Errors), Source: []byte(a.Source), Group: []byte(a.Group),
		Attempts: a.Attempts, Sent: a.Sent, Token: a.Token, Generation: a.Generation, Replayed: a.Replayed, Purged: a.Purged, Keep: a.Keep,
		HasBody: a.Body != nil, BodyBytes: len(a.Body), Size: a.Size() - len(a.Group)}
	if !a.SentAt.IsZero() {
		stored.Known, stored.SentAt, stored.SentNanos = true, a.SentAt.Unix(), int64(a.SentAt.Nanosecond())
	}
	if p := a.Key.Pos; p != nil {
		stored.Pos = &storedPosition{[]byte(p.Log), p.Epoch, p.Offset, p.Prev, p.First}
	}
	if len(a.Group) > inlineMost {
		stored.Group, stored.Aside = nil, len(a.Group)
	}
	whole := payload(&a.Archive, stored.Aside)
	i := c.name.Item()
	i[attrScope], i[attrID], i[attrFailed] = Bytes(a.Key.Scope), Bytes(a.Key.ID), Bytes(a.Delivery)
	setTime(i, attrAt, a.At)
	setTime(i, attrExpiry, a.Expiry)
	if len(whole) <= inlineMost {
		i[attrResult] = Bytes(whole)
	} else if stored.Chunks, err = t.putChunks(&stored, c, whole, a.Expiry); err != nil {
		return err
	}
	i[attrWeight] = Number(a.Weight())
	i[attrByID] = Bytes(a.Key.ID)
	if len(a.Key.ID) == 0 {
		delete(i, attrByID)
	}
	listDead(i, c.name, a.At)
	return writeArchive(c, i, &stored, a.Expiry)
}

// keeps says whether an item is an archived delivery whose time is not over: one beyond that may go at any moment, and counts as gone.
func keeps(i Item, now time.Time) bool { return i != nil && !getTime(i, attrExpiry).Before(now) }

// listDead puts an archived delivery into the list of dead letters.
func listDead(i Item, n Name, at time.Time) {
	i[attrShard] = Bytes([]byte{'d', n.Sort[len(n.Sort)-1] % shards})
	i[attrMoment] = Bytes(momentOf(at) + n.Place + n.Sort)
}

// momentOf sorts by time.
func momentOf(at time.Time) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(at.UnixMicro(), 0))))
}

func writeArchive(c *cell, i Item, stored *storedArchive, expiry time.Time) error {
	data, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	i[attrData], i[attrTTL] = Bytes(data), Number(expiry.Unix()+1)
	setTime(i, attrExpiry, expiry)
	if !stored.Purged.IsZero() {
		i[attrPurged] = True
		if stored.Chunks > 0 { // until the sweep has seen to it that they are gone
			i[attrPurged] = Number(stored.Chunks)
			delete(i, attrTTL)
		}
	}
	c.write(i)
	return nil
}

// decodeArchive reads an archived delivery without body and headers.
func decodeArchive(i Item) (*ledger.ArchiveRecord, *storedArchive, error) {
	var s storedArchive
	if err := json.Unmarshal(getBytes(i, attrData), &s); err != nil {
		return nil, nil, fmt.Errorf("archive: %w", err)
	}
	key := ledger.KeyOfSum(string(getBytes(i, attrScope)), getBytes(i, attrID), keyOf(NameOf(i)))
	a := &ledger.ArchiveRecord{Archive: ledger.Archive{Key: key, Fingerprint: s.Fingerprint, Delivery: getBytes(i, attrFailed), Kind: s.Kind,
		Source: string(s.Source), Group: string(s.Group), Attempts: s.Attempts, Sent: s.Sent, Keep: s.Keep},
		Token: s.Token, Generation: s.Generation, At: getTime(i, attrAt), Expiry: getTime(i, attrExpiry), Replayed: s.Replayed, Purged: s.Purged}
	if p := s.Pos; p != nil {
		a.Key.Pos = &ledger.Position{Log: string(p.Log), Epoch: p.Epoch, Offset: p.Offset, Prev: p.Prev, First: p.First}
	}
	if s.Known {
		a.SentAt = time.Unix(s.SentAt, s.SentNanos)
	}
	var err error
	a.Errors, err = storage.DecodeErrors(s.Errors)
	return a, &s, err
}

// archived are the items of what is archived under a key, as the transaction sees them.
func (t *tx) archived(key driver.Key) (list []Item, err error) {
	t.skewed = true
	place, low := placeOf(key)
	start := kindArchive + low
	for i, err := range t.table.Query(t.ctx, Query{Place: place, Prefix: start}) {
		if err != nil {
			return nil, err
		}
		t.saw(i)
	}
	for n, c := range t.cells {
		if n.Place == place && len(n.Sort) > 2 && n.Sort[:2] == start && c.is != nil {
			list = append(list, c.is)
		}
	}
	slices.SortFunc(list, func(a, b Item) int {
		return cmp.Or(getTime(a, attrAt).Compare(getTime(b, attrAt)), NameOf(a).Compare(NameOf(b)))
	})
	return list, nil
}

// Archive implements [driver.Reader].
func (t *tx) Archive(key driver.Key, bodies bool) (list []ledger.ArchiveRecord, err error) {
	items, err := t.archived(key)
	if err != nil {
		return nil, err
	}
	for _, i := range items {
		a, stored, err := decodeArchive(i)
		if err == nil && (bodies || stored.Aside > 0 || t.op == driver.Read || t.op == driver.Operate) {
			err = t.fill(t.ctx, i, a, stored)
		}
		if err != nil {
			return nil, err
		}
		if !bodies {
			a.Body, a.BodyBytes = nil, stored.BodyBytes
		}
		list = append(list, *a)
	}
	return list, nil
}

// Alter implements [driver.Tx].
func (t *tx) Alter(key driver.Key, delivery []byte, change driver.ArchiveChange) (bool, error) {
	c, err := t.read(archiveName(key, delivery))
	if err != nil || c.is == nil {
		return false, err
	}
	a, stored, err := decodeArchive(c.is)
	if err != nil || !change.Purged.IsZero() && !stored.Purged.IsZero() {
		return false, err
	}
	i, expiry := maps.Clone(c.is), a.Expiry
	if change.Token != 0 {
		stored.Token = change.Token
	}
	if !change.Replayed.IsZero() {
		stored.Replayed = change.Replayed
	}
	if !change.Purged.IsZero() {
		stored.Purged, stored.Errors, stored.Group, stored.HasBody, stored.Size, stored.BodyBytes = change.Purged, nil, nil, false, 0, 0
		stored.Aside = 0
		t.blanks = append(t.blanks, stored.blanks(a, c.name)...)
		delete(i, attrResult)
		if change.Expiry.Before(expiry) {
			expiry = change.Expiry
		}
	}
	if to := change.Delivery; to != nil && !bytes.Equal(to, delivery) {
		c.write(nil)
		if c, err = t.read(archiveName(key, to)); err != nil {
			return false, err
		}
		i[attrFailed], i[attrPlace], i[attrSort] = Bytes(to), Bytes(c.name.Place), Bytes(c.name.Sort)
		listDead(i, c.name, a.At)
	}
	return true, writeArchive(c, i, stored, expiry)
}

// DeadLetters implements [driver.Lists].
func (t *tx) DeadLetters(behind driver.Mark, until time.Time, f *ledger.Filter, n int) (page []driver.DeadLetter, err error) {
	for len(page) == 0 {
		found, err := t.dead(behind, until, f, min(n, t.bounds.Get))
		if err != nil || len(found) == 0 {
			return nil, err
		}
		behind = driver.Mark(getBytes(found[len(found)-1], attrMoment))
		if page, err = t.letters(found); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// dead are the next entries of the index of dead letters that are not purged: of all shards, merged by their order.
func (t *tx) dead(behind driver.Mark, until time.Time, f *ledger.Filter, n int) (found []Item, err error) {
	q := Query{From: momentOf(f.From), To: momentOf(until.Add(time.Microsecond)), Index: Dead, Down: f.Newest}
	if !f.To.IsZero() {
		q.To = min(q.To, momentOf(f.To))
	}
	switch {
	case behind == "":
	case f.Newest:
		q.To = string(behind)
	default:
		q.From = string(behind) + "\x00"
	}
	if q.From >= q.To {
		return nil, nil
	}
	for shard := range shards {
		q.Place = string([]byte{'d', byte(shard)})
		list, err := t.collect(t.ctx, q, n)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	slices.SortFunc(found, func(a, b Item) int { return bytes.Compare(getBytes(a, attrMoment), getBytes(b, attrMoment)) })
	if f.Newest {
		slices.Reverse(found)
	}
	return found[:min(n, len(found))], nil
}

// letters reads what the index has found, with their messages.
func (t *tx) letters(found []Item) (page []driver.DeadLetter, err error) {
	var names []Name
	for _, i := range found {
		if _, purged := i[attrPurged]; !purged {
			names = append(names, NameOf(i), MessageName(keyOf(NameOf(i))))
		}
	}
	there, err := t.table.Get(t.ctx, slices.Compact(slices.SortedFunc(slices.Values(names), Name.Compare)))
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		i := there[NameOf(f)]
		if i == nil { // purged, or it has just gone
			continue
		}
		a, stored, err := decodeArchive(i)
		if err != nil {
			return nil, err
		}
		if !a.Purged.IsZero() {
			continue
		}
		if stored.Aside > 0 {
			if err := t.fill(t.ctx, i, a, stored); err != nil {
				return nil, err
			}
			a.Body, a.Headers = nil, nil
		}
		d := driver.DeadLetter{ArchiveRecord: *a, Mark: driver.Mark(getBytes(f, attrMoment)), Size: stored.Size}
		if d.Superseded, err = t.superseded(a, there[MessageName(a.Key.Sum())]); err != nil {
			return nil, err
		}
		page = append(page, d)
	}
	return page, nil
}

// superseded looks for a later failure of the same message. There is none if the message has the delivery's token still.
func (t *tx) superseded(a *ledger.ArchiveRecord, message Item) (bool, error) {
	if a.Token == 0 || message != nil && getNumber[uint64](message, attrToken) == a.Token {
		return false, nil
	}
	list, err := t.archived(a.Key.Sum())
	for _, i := range list {
		b, _, err := decodeArchive(i)
		if err != nil || b.Token > a.Token {
			return err == nil, err
		}
	}
	return false, err
}

// Bodies implements [driver.Lists].
func (t *tx) Bodies(of []driver.DeadLetter) ([]driver.DeadLetter, error) {
	names := make([]Name, len(of))
	for i := range of {
		names[i] = archiveName(of[i].Key.Sum(), of[i].Delivery)
	}
	found, err := t.table.Get(t.ctx, names)
	if err != nil {
		return nil, err
	}
	there := of[:0]
	for i, d := range of {
		at := found[names[i]]
		if at == nil {
			continue
		}
		a, stored, err := decodeArchive(at)
		if err != nil {
			return nil, err
		}
		if !stored.Purged.IsZero() {
			continue
		}
		if err := t.fill(t.ctx, at, a, stored); err != nil {
			return nil, err
		}
		d.ArchiveRecord = *a
		there = append(there, d)
	}
	return there, nil
}

// ArchivedKeys implements [driver.Lists].
func (t *tx) ArchivedKeys(id []byte, n int) ([]ledger.Key, error) { return t.byID(kindArchive, id, n) }

// byID are the keys of messages of which items of a kind are kept by their id.
func (t *tx) byID(kind string, id []byte, n int) (keys []ledger.Key, err error) {
	if len(id) == 0 {
		return nil, nil
	}
	seen := map[driver.Key]bool{}
	for i, err := range t.table.Query(t.ctx, Query{Place: string(id), Index: ByID}) {
		if err != nil || len(keys) == n {
			return keys, err
		}
		at := NameOf(i)
		if key := keyOf(at); at.Sort[:1] == kind && !seen[key] {
			seen[key] = true
			keys = append(keys, ledger.KeyOfSum(string(getBytes(i, attrScope)), id, key))
		}
	}
	return keys, nil
}

// ArchivedBytes implements [driver.Lists]: a page is a shard.
func (t *tx) ArchivedBytes(scope string, behind driver.Mark) (n int64, next driver.Mark, more bool, err error) {
	shard := 0
	if behind != "" {
		shard = int(behind[0]) + 1
	}
	for i, err := range t.table.Query(t.ctx, Query{Place: string([]byte{'d', byte(shard)}), Index: Dead}) {
		if err != nil {
			return 0, "", false, err
		}
		if _, purged := i[attrPurged]; !purged && string(getBytes(i, attrScope)) == scope {
			n += getNumber[int64](i, attrWeight)
		}
	}
	return n, driver.Mark([]byte{byte(shard)}), shard+1 < shards, nil
}

package ranges

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Store is what a ledger's own owner has to offer so that ranges can be held in it. Its Claim and Settle are never called
// by [Owner] for messages that lie in ranges.
type Store interface {
	ledger.Owner
	// ClaimRows is Claim for messages with rows of their own. Of the entries with only set, one that has no row gets
	// none, and is Busy. A nil only is all false.
	ClaimRows(ctx context.Context, entries []ledger.Entry, only []bool) ([]ledger.Claim, error)
	// Open writes new ranges of this owner into logs that are still of the known version, while this owner is live
	// ([ledger.ErrLost] otherwise), and says into which. Ranges are held from the ledger's present time on.
	Open(ctx context.Context, openings []Opening) ([]bool, error)
	// Update locks the logs, shows each to plan, and writes what that says, in one transaction, while this owner is live
	// ([ledger.ErrLost] otherwise). plan may be called more than once for a log; its last call counts. A log that is
	// new comes with a version and a token that none had which was dropped, and nothing else but a segment of Rows over all
	// rows that lie in it already.
	Update(ctx context.Context, queries []Query, plan func(i int, f *Facts) Change) error
}

// Closer is a Store with a short way for what happens most: a range that is over, right behind what is finished already.
type Closer interface {
	// Close takes this owner's ranges away and lets the segments before them grow over them, while this owner is live
	// ([ledger.ErrLost] otherwise), and says which. A range that is not this owner's any more, or whose segment is not
	// there or ends elsewhere, is left as it is. It locks the logs as Update does.
	Close(ctx context.Context, closings []Closing) ([]bool, error)
}

// Closing is a range that is over, none of it given back, and the segment that ends where it begins. Each is of another
// log.
type Closing struct {
	Log      Log
	Token    uint64
	Segment  int64 // the first offset of the segment
	Range    Span
	Messages int64
	Window   time.Duration
}

// Opening is new ranges for one log.
type Opening struct {
	Log     Log
	Version uint64 // as it has to be; Change has the next one
	Change  Change // with Open alone
}

// Query asks for what a plan has to know of one log.
type Query struct {
	Info Info
	// Span is what is asked about: facts are of the ranges that meet it, and of the rows in it.
	Span Span
	// Tokens are of this owner's ranges that facts are of; then Span is empty.
	Tokens []uint64
	// Alone says that messages leave their ranges: no InTx of such a range may be at its end meanwhile. With a Span the
	// ranges that are locked are marked; with Tokens they are waited for.
	Alone bool
	// Room asks for Facts.Room; a store may leave it empty.
	Room bool
	// First is the log's first offset, as far as it is known; above 0, segments below it are dropped, those of other
	// epochs of the log as well.
	First int64
}

// floor is from where on nothing lies where a span lies: above all that is there, or in the room; false: it is not known that
// nothing lies in it.
func floor(span Span, top int64, room Span) (int64, bool) {
	switch {
	case span.From >= top:
		return top, true
	case room.Contains(span):
		return room.From, true
	}
	return 0, false
}

// Owner is a ledger's owner that holds messages in ranges: those that [ledger.Entry.Ranged] allows.
type Owner struct {
	Store
	limits ledger.Limits
	counts *Counts
	looks  turns        // to claim
	saves  turns        // to settle; of a log whose turn to claim is taken as well, after that
	ripe   atomic.Int32 // ranges that are over, as nobody has told the ledger yet

	mu   sync.Mutex
	logs map[Log]*held
}

// NewOwner returns the owner that a ledger's Join answers with; limits and counts are the ledger's.
func NewOwner(store Store, limits ledger.Limits, counts *Counts) *Owner {
	return &Owner{
		Store: store, limits: limits, counts: counts,
		looks: turns{of: map[Log]*turn{}}, saves: turns{of: map[Log]*turn{}}, logs: map[Log]*held{},
	}
}

// AsksLate implements [ledger.LateOwner].
func (o *Owner) AsksLate() {}

// Unwrap returns the store's own owner: see [ledger.Unwrap].
func (o *Owner) Unwrap() ledger.Owner { return o.Store }

// held is what this owner knows of a log.
type held struct {
	info    Info
	known   bool // the next four are as this owner read or wrote them last
	version uint64
	token   uint64
	top     int64
	room    Span
	first   int64
	rows    Set       // bound to rows
	bound   time.Time // until then
	tail    Span      // the latest segment of finished offsets that this owner wrote
	used    time.Time // when a message of it was claimed, or a range closed, last
	open    map[uint64]*open
	past    map[uint64]past // the latest, by token
	closed  []uint64        // their tokens, oldest first
	// doubt are those of open that were asked for again, without an answer: they may have rows by now.
	doubt Set
}

// flushLimit is how long a beat may take longer for it.
const flushLimit = time.Second

// open is a range of ours. What is in done and back is to be so, and is so in the ledger unless dirty.
type open struct {
	Range
	prints []printed // ascending; none of what says it late
	moved  Set       // of Done: in a row of its own
	// leaving are those of moved whose rows are not written yet.
	leaving []Row
	dirty   bool
	gave    bool // some were given back since it was written
	known   bool // an earlier write may have closed it
	inTx    bool // some of it lies in segments already, or may
	opened  fencing
}

// printed is the fingerprint of one message. A range may have far more offsets than messages.
type printed struct {
	offset int64
	of     ledger.Fingerprint
}

// past is a range that was closed, kept for settlements that are repeated.
type past struct {
	moved Set
	back  Set
	span  Span
}

const maxPast = 1000

// forgetAfter is how long a log is known of which this owner holds nothing: long after anybody repeats a settlement.
const forgetAfter = time.Hour

// TrimAfter is how long a segment below its log's first offset stays: what lies in it may be in a slow worker's hands.
const TrimAfter = time.Hour

// AbandonAfter is how long a range whose owner left or died waits for somebody who asks for its messages, before a sweep
// dissolves it ([Abandoned]).
const AbandonAfter = time.Hour

// SplitSum reads a record's stored key: its log and its offset.
func SplitSum(sum [ledger.KeySize]byte) (Log, int64) {
	return Log(sum[:8]), int64(binary.BigEndian.Uint64(sum[8:]))
}

// JoinSum is the stored key of a record.
func JoinSum(log Log, offset int64) (sum [ledger.KeySize]byte) {
	copy(sum[:8], log[:])
	binary.BigEndian.PutUint64(sum[8:], uint64(offset))
	return sum
}

// Beat implements [ledger.Owner].
func (o *Owner) Beat(ctx context.Context) (time.Duration, error) {
	left, err := o.Store.Beat(ctx)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, flushLimit)
		defer cancel()
		o.flush(ctx)
		o.forget(time.Now())
	}
	return left, err
}

// forget drops what is known of logs that are not in use any more: their leader epoch is over, or others have the partition.
func (o *Owner) forget(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for log, h := range o.logs {
		if len(h.open) == 0 && h.doubt.Empty() && now.Sub(h.used) > forgetAfter {
			delete(o.logs, log)
		}
	}
}

// Leave implements [ledger.Owner].
func (o *Owner) Leave(ctx context.Context) error {
	o.flush(ctx) // what is left open is dissolved by whoever asks for it
	return o.Store.Leave(ctx)
}

// prefixOf is the id without its offset; false: the id is not made of one.
func prefixOf(id []byte, offset int64) (prefix []byte, ok bool) {
	var digits [20]byte
	return bytes.CutSuffix(id, strconv.AppendInt(digits[:0], offset, 10))
}

// learn takes over what a transaction of a call that began at that time left behind.
func (h *held) learn(c *Change, began time.Time, window time.Duration) {
	h.known, h.version, h.token, h.top, h.room = true, c.Version, c.Token, c.Top, c.Room
	if len(c.Bound) == 0 {
		return
	}
	if h.rows.Empty() {
		h.bound = began.Add(min(window, TrimAfter) / 4) // plans renew what ends in half of it
	}
	for _, span := range c.Bound {
		h.rows.Add(span)
	}
}

// adopt makes the new ranges of a log ours; entries are those of the asks that were answered with them. The owner is locked.
func (o *Owner) adopt(h *held, c *Change, asks []Ask, answers []Answer, entries []ledger.Entry) {
	var r *open
	for i := range c.Open {
		h.open[c.Open[i].Token] = openOf(c.Open[i])
	}
	for i := range asks {
		if answers[i].Verdict == InRow {
			o.left(h, asks[i].Offset)
		}
		if answers[i].Verdict != Fresh {
			continue
		}
		if r == nil || r.Token != answers[i].Token {
			r = h.open[answers[i].Token]
		}
		if f := entries[asks[i].Index].Fingerprint; !f.IsZero() {
			r.prints = append(r.prints, printed{asks[i].Offset, f})
		}
	}
	for _, token := range c.Close {
		h.close(token)
	}
}

// left notes that a message of ours, asked for again since an answer was lost, has left its range for a row: now, or with
// the answer that was lost.
func (o *Owner) left(h *held, offset int64) {
	for _, r := range h.open {
		if o.done(r, offset) {
			r.moved.Add(Span{offset, offset + 1})
		}
	}
}

// done notes that an offset of ours is done by another way than a settlement, by an InTx perhaps; false: it was known.
func (o *Owner) done(r *open, offset int64) bool {
	if !r.Has(offset) || r.Done.Has(offset) || r.Back.Has(offset) {
		return false
	}
	r.Done.Add(Span{offset, offset + 1})
	r.inTx = true
	if r.over() {
		o.ripe.Add(1)
	}
	return true
}

func (r *open) print(offset int64) ledger.Fingerprint {
	i, ok := slices.BinarySearchFunc(r.prints, offset, func(p printed, o int64) int { return cmp.Compare(p.offset, o) })
	if !ok {
		return ledger.Fingerprint{}
	}
	return r.prints[i].of
}

// close forgets a range of ours, but for what repeated settlements ask.
func (h *held) close(token uint64) {
	r := h.open[token]
	if r == nil {
		return
	}
	delete(h.open, token)
	h.used = time.Now()
	if len(h.closed) == maxPast {
		delete(h.past, h.closed[0])
		h.closed = h.closed[1:]
	}
	for _, s := range h.doubt.Spans() { // it is over, so they have rows
		r.moved.Add(Span{max(s.From, r.From), min(s.To, r.To)})
	}
	h.past[token] = past{span: r.Span, moved: r.moved, back: r.Back}
	h.closed = append(h.closed, token)
}

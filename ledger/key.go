package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// KeySize is the number of stored bytes of a key.
const KeySize = 16

// Key names one message within one ledger.
//
// Scope is the consumer's name (Kafka: its group) and the source (queue ARN; cluster and topic): two groups, clusters
// or queues never meet. ID is the readable identity within it: an SQS MessageId, `topic-partition-offset`, or what the
// user's KeyFunc made of the message.
type Key struct {
	Scope string
	ID    []byte
	// Pos is set for a Kafka record that is keyed by its position. The stored bytes then derive from it, so that
	// neighbours in the log are neighbours in the ledger, and a recreated topic or a truncated log is another key.
	Pos *Position

	sum   [KeySize]byte // see Known
	known bool
}

// MaxOffset is the highest offset of a position. Above it there is room for what is reckoned with offsets.
const MaxOffset = 1 << 62

// Position is the place of a record in a log.
type Position struct {
	Log    string // cluster id, topic UUID and partition, unambiguously
	Epoch  int32  // leader epoch that wrote the record; -1: none
	Offset int64
	Prev   int64 // the previously delivered offset of this assignment; -1: none. Not part of the identity
	First  int64 // the log's first offset, as the broker told with the record; 0: not known. Not part of the identity
}

// Sum returns the stored bytes: with a position, 8 bytes of SHA-256 over (scope, log, epoch) and the offset in big-endian
// order; else 16 bytes of SHA-256 over (scope, id). Parts are length-prefixed, so that no two splits of one text meet.
func (k Key) Sum() [KeySize]byte {
	if k.known {
		return k.sum
	}
	if k.Pos != nil {
		return placeIn(logSum(k.Scope, k.Pos.Log, k.Pos.Epoch), k.Pos.Offset)
	}
	buf := make([]byte, 0, 256)
	buf = appendPart(append(buf, 'i'), []byte(k.Scope))
	buf = appendPart(buf, k.ID)
	sum := sha256.Sum256(buf)
	return [KeySize]byte(sum[:KeySize])
}

// Known returns the key with its stored bytes kept inside, for callers that ask for them more than once. Scope, ID and Pos
// of the returned key must not be changed any more.
func (k Key) Known() Key {
	k.sum, k.known = k.Sum(), true
	return k
}

// LogKeys makes the keys of one log's records, and hashes what they share once for each leader epoch. It is not safe for
// concurrent use.
type LogKeys struct {
	Scope, Log string

	epoch int32
	sum   [8]byte
	known bool
}

// Key returns the key of a record, Known. pos.Log must be l.Log.
func (l *LogKeys) Key(id []byte, pos *Position) Key {
	if !l.known || l.epoch != pos.Epoch {
		l.epoch, l.sum, l.known = pos.Epoch, logSum(l.Scope, l.Log, pos.Epoch), true
	}
	return Key{Scope: l.Scope, ID: id, Pos: pos, sum: placeIn(l.sum, pos.Offset), known: true}
}

func logSum(scope, log string, epoch int32) [8]byte {
	buf := make([]byte, 0, 256)
	buf = appendPart(append(buf, 'p'), []byte(scope))
	buf = appendPart(buf, []byte(log))
	buf = binary.BigEndian.AppendUint32(buf, uint32(epoch))
	sum := sha256.Sum256(buf)
	return [8]byte(sum[:8])
}

func placeIn(log [8]byte, offset int64) (out [KeySize]byte) {
	copy(out[:8], log[:])
	binary.BigEndian.PutUint64(out[8:], uint64(offset))
	return out
}

// String shows the key for people: scope and id.
func (k Key) String() string { return fmt.Sprintf("%s/%q", k.Scope, k.ID) }

func appendPart(buf, part []byte) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(part)))
	return append(buf, part...)
}

// Fingerprint tells one body from another under the same id: 8 bytes of SHA-256 of the raw body, 8 of its canonical
// bytes (what the user's FingerprintFunc makes of it; by default the body again). Headers are never part of it.
type Fingerprint [16]byte

// NewFingerprint makes a fingerprint. A nil body is not an empty one.
func NewFingerprint(body, canonical []byte) Fingerprint {
	raw, canon := digest(body), digest(canonical)
	return Fingerprint(append(raw[:8:8], canon[8:16]...))
}

// BodyFingerprint is the fingerprint without a FingerprintFunc: NewFingerprint(body, body), for one hash of it.
func BodyFingerprint(body []byte) Fingerprint {
	sum := digest(body)
	return Fingerprint(sum[:16])
}

// digest is the body's SHA-256. For nil it is the complement of the empty body's, which no body is known to have.
func digest(b []byte) [sha256.Size]byte {
	sum := sha256.Sum256(b)
	if b == nil {
		for i := range sum {
			sum[i] = ^sum[i]
		}
	}
	return sum
}

// IsZero says that there is no fingerprint: a record that left a range when its owner died has none until it is claimed.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// Agrees says whether two fingerprints are of the same message: either half is enough, so that a deploy that changes
// the FingerprintFunc makes no mismatch of a redelivery.
func (f Fingerprint) Agrees(g Fingerprint) bool {
	return [8]byte(f[:8]) == [8]byte(g[:8]) || [8]byte(f[8:]) == [8]byte(g[8:])
}

// Ticket stands for one claim when it is settled. Workers treat it as opaque; stores make and read it.
type Ticket struct {
	sum      [KeySize]byte
	token    uint64
	mismatch bool
	parked   bool
}

// NewTicket is called by stores for an answer of Run or Spent.
func NewTicket(sum [KeySize]byte, token uint64) Ticket { return Ticket{sum: sum, token: token} }

// ParkedTicket is NewTicket for an entry with Entry.Parked: what is settled by it may be parked, and is not any more once it has ended.
func ParkedTicket(sum [KeySize]byte, token uint64) Ticket {
	return Ticket{sum: sum, token: token, parked: true}
}

// MismatchTicket is called by stores for an answer of Mismatch: it can only be failed, and touches no message row.
func MismatchTicket(sum [KeySize]byte) Ticket { return Ticket{sum: sum, mismatch: true} }

// Sum returns the key's stored bytes.
func (t Ticket) Sum() [KeySize]byte { return t.sum }

// Token returns the claim's fencing token; zero for a mismatch.
func (t Ticket) Token() uint64 { return t.token }

// IsMismatch says whether the ticket came with an answer of Mismatch.
func (t Ticket) IsMismatch() bool { return t.mismatch }

// IsParked says whether the claim's message may be parked.
func (t Ticket) IsParked() bool { return t.parked }

// IsZero says whether no claim stands behind the ticket.
func (t Ticket) IsZero() bool { return t == Ticket{} }

package items

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

// The attributes of items. Their names count for each item, so they are one letter.
const (
	attrPlace   = Place
	attrSort    = Sort
	attrVersion = Version
	attrTTL     = TTL

	attrScope       = "n"
	attrID          = "i"
	attrFingerprint = "f"
	attrState       = "s"
	attrToken       = "t"
	attrOwner       = "o"
	attrAttempts    = "a"
	attrCrashes     = "c"
	attrGeneration  = "g"
	attrDue         = "u"
	attrAt          = "b"
	attrExpiry      = "e"
	attrResult      = "z"
	attrErrors      = "w"
	attrFailed      = "d"
	attrCovered     = "y"
	attrSteps       = "q" // how many were recorded
	attrLife        = "l" // the steps' life: see steps.go

	attrShard  = "h" // of a dead letter: its place in the index of dead letters
	attrMoment = "m" // what it is sorted by there
	attrByID   = "j" // of what is found by the id of its message
	attrData   = "p" // JSON, or bytes
	attrWeight = "q" // of an archived delivery: ledger.Archive.Weight
	attrPurged = "y" // of an archived delivery: purged
)

// The kinds of items: the first byte of their places. Kinds within a message's place are the first byte of what they are
// sorted by.
const (
	placeMessages = "m" // by key: see placeOf
	placeLog      = "l"
	placeLogs     = "L" // all logs
	placeBlocks   = "b" // of a log: which blocks have rows
	placeOwners   = "o"
	placeAudit    = "u"
	placeMeta     = "t"
	placeCounts   = "d" // of deliveries, by scope

	kindMessage = "m"
	kindArchive = "a"
	kindBody    = "c"
	kindPast    = "p"
	kindStep    = "s"
)

// blockBits is how many low bits of a key sort within a place. Records of a log that lie side by side share one, so that
// they are found by a query; those of other messages are hashes, and lie anywhere.
const blockBits = 7

// placeOf is where a message's items lie, and the bytes that tell it from others there.
func placeOf(key driver.Key) (place, low string) {
	n := binary.BigEndian.Uint64(key[8:])
	b := append(make([]byte, 0, 17), placeMessages...)
	b = append(b, key[:8]...)
	b = binary.BigEndian.AppendUint64(b, n>>blockBits)
	return string(b), string([]byte{byte(n & (1<<blockBits - 1))})
}

// isMessage says whether an item of that name is a message's own.
func isMessage(n Name) bool { return n.Place[0] == placeMessages[0] && n.Sort[0] == kindMessage[0] }

// keyOf is the message's key of an item in a message's place.
func keyOf(n Name) (key driver.Key) {
	copy(key[:8], n.Place[1:9])
	block := binary.BigEndian.Uint64([]byte(n.Place[9:17]))
	binary.BigEndian.PutUint64(key[8:], block<<blockBits|uint64(n.Sort[1]))
	return key
}

// MessageName is the name of a message's item. It is for tests of engines.
func MessageName(key driver.Key) Name {
	place, low := placeOf(key)
	return Name{place, kindMessage + low}
}

func archiveName(key driver.Key, delivery []byte) Name {
	place, low := placeOf(key)
	sum := sha256.Sum256(delivery)
	return Name{place, kindArchive + low + string(sum[:16])}
}

// setNumber keeps what is not 0.
func setNumber[N Integer](i Item, attr string, n N) {
	if n != 0 {
		i[attr] = Number(n)
	}
}

// setBytes keeps what is not nil.
func setBytes(i Item, attr string, b []byte) {
	if b != nil {
		i[attr] = Bytes(b)
	}
}

// setTime keeps what is not zero, in microseconds.
func setTime(i Item, attr string, t time.Time) {
	if !t.IsZero() {
		i[attr] = Number(t.UnixMicro())
	}
}

// getBytes is a copy of an attribute's bytes; nil: it is not there.
func getBytes(i Item, attr string) []byte {
	v, there := i[attr]
	if !there {
		return nil
	}
	return append([]byte{}, v.Bytes...)
}

func getNumber[N Integer](i Item, attr string) N { return N(i[attr].Number) }

func getTime(i Item, attr string) time.Time {
	if _, ok := i[attr]; !ok {
		return time.Time{}
	}
	return time.UnixMicro(getNumber[int64](i, attr))
}

// newVersion is one that no write has had.
func newVersion() Value { return Bytes(newVersionBytes()) }

func newVersionBytes() []byte {
	b := make([]byte, 8)
	rand.Read(b) //nolint:errcheck // it never fails: crypto/rand
	return b
}

// messageMost is how many attributes most messages have at most, with their version and TTL: an item that grows is copied.
const messageMost = 14

// encodeMessage is a message's item, without its version.
func encodeMessage(m *driver.Message, life []byte, steps int) Item {
	n, i := MessageName(m.Key), make(Item, messageMost)
	i[attrPlace], i[attrSort] = Bytes(n.Place), Bytes(n.Sort)
	i[attrScope], i[attrID] = Bytes(m.Scope), Bytes(m.ID)
	if !m.Fingerprint.IsZero() {
		i[attrFingerprint] = Bytes(m.Fingerprint[:])
	}
	setNumber(i, attrState, m.State)
	setNumber(i, attrToken, m.Token)
	setNumber(i, attrOwner, m.Owner)
	setNumber(i, attrAttempts, m.Attempts)
	setNumber(i, attrCrashes, m.Crashes)
	setNumber(i, attrGeneration, m.Generation)
	setTime(i, attrDue, m.Due)
	setTime(i, attrAt, m.At)
	setTime(i, attrExpiry, m.Expiry)
	setBytes(i, attrResult, m.Result)
	setBytes(i, attrErrors, storage.EncodeErrors(m.Errors))
	setBytes(i, attrFailed, m.Failed)
	if m.Covered {
		i[attrCovered] = True
	}
	setBytes(i, attrLife, life)
	setNumber(i, attrSteps, steps)
	return i
}

// decodeMessage reads a message's item.
func decodeMessage(i Item) (*driver.Message, error) {
	m := &driver.Message{Key: keyOf(NameOf(i)), Scope: string(getBytes(i, attrScope)), ID: getBytes(i, attrID),
		State: getNumber[ledger.State](i, attrState), Token: getNumber[uint64](i, attrToken), Owner: getNumber[driver.OwnerID](i, attrOwner),
		Attempts: getNumber[int](i, attrAttempts), Crashes: getNumber[int](i, attrCrashes), Generation: getNumber[int](i, attrGeneration),
		Due: getTime(i, attrDue), At: getTime(i, attrAt), Expiry: getTime(i, attrExpiry), Result: getBytes(i, attrResult),
		Failed: getBytes(i, attrFailed)}
	copy(m.Fingerprint[:], getBytes(i, attrFingerprint))
	_, m.Covered = i[attrCovered]
	var err error
	m.Errors, err = storage.DecodeErrors(getBytes(i, attrErrors))
	return m, err
}

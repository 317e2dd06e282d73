package dynamodb

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// The attributes of items. Their names count for each item, so they are one letter.
const (
	attrPlace   = "k" // partition key: the kind of the item and what it belongs to
	attrSort    = "r" // sort key
	attrVersion = "v" // drawn anew at each write: what was read is what is written over
	attrTTL     = "x" // seconds: when DynamoDB may remove it

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

	attrShard  = "h" // of a dead letter: in the index of dead letters
	attrMoment = "m" // its place there
	attrByID   = "j" // of what is found by the id of its message
	attrData   = "p" // JSON, or bytes
	attrWeight = "q" // of an archived delivery: ledger.Archive.Weight
	attrPurged = "y" // of an archived delivery: purged
)

// item is an item of the table; nil: there is none.
type item = map[string]types.AttributeValue

// name is the primary key of an item.
type name struct{ place, sort string }

func (n name) key() item {
	return item{attrPlace: blob(n.place), attrSort: blob(n.sort)}
}

func nameOf(i item) name { return name{string(getBytes(i, attrPlace)), string(getBytes(i, attrSort))} }

func (n name) compare(m name) int {
	return cmp.Or(cmp.Compare(n.place, m.place), cmp.Compare(n.sort, m.sort))
}

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
	b := append([]byte(placeMessages), key[:8]...)
	b = binary.BigEndian.AppendUint64(b, n>>blockBits)
	return string(b), string([]byte{byte(n & (1<<blockBits - 1))})
}

// keyOf is the message's key of an item in a message's place.
func keyOf(n name) (key driver.Key) {
	copy(key[:8], n.place[1:9])
	block := binary.BigEndian.Uint64([]byte(n.place[9:17]))
	binary.BigEndian.PutUint64(key[8:], block<<blockBits|uint64(n.sort[1]))
	return key
}

func messageName(key driver.Key) name {
	place, low := placeOf(key)
	return name{place, kindMessage + low}
}

func archiveName(key driver.Key, delivery []byte) name {
	place, low := placeOf(key)
	sum := sha256.Sum256(delivery)
	return name{place, kindArchive + low + string(sum[:16])}
}

func blob[T ~string | ~[]byte](b T) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: append([]byte{}, b...)}
}

func number[N ~int | ~int64 | ~uint64 | ~uint8](n N) types.AttributeValue {
	if n < 0 {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10)}
	}
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(uint64(n), 10)}
}

// setNumber keeps what is not 0.
func setNumber[N ~int | ~int64 | ~uint64 | ~uint8](i item, attr string, n N) {
	if n != 0 {
		i[attr] = number(n)
	}
}

// setBytes keeps what is not nil.
func setBytes(i item, attr string, b []byte) {
	if b != nil {
		i[attr] = blob(b)
	}
}

// setTime keeps what is not zero, in microseconds.
func setTime(i item, attr string, t time.Time) {
	if !t.IsZero() {
		i[attr] = number(t.UnixMicro())
	}
}

func getBytes(i item, attr string) []byte {
	if b, ok := i[attr].(*types.AttributeValueMemberB); ok {
		return append([]byte{}, b.Value...)
	}
	return nil
}

func getNumber[N ~int | ~int64 | ~uint64 | ~uint8](i item, attr string) N {
	n, ok := i[attr].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
		return N(v)
	}
	v, _ := strconv.ParseUint(n.Value, 10, 64) // what this package wrote
	return N(v)
}

func getTime(i item, attr string) time.Time {
	if _, ok := i[attr]; !ok {
		return time.Time{}
	}
	return time.UnixMicro(getNumber[int64](i, attr))
}

// newVersion is one that no write has had.
func newVersion() types.AttributeValue { return blob(newVersionBytes()) }

func newVersionBytes() []byte {
	b := make([]byte, 8)
	rand.Read(b) //nolint:errcheck // it never fails: crypto/rand
	return b
}

// encodeMessage is a message's item, without its version.
func encodeMessage(m *driver.Message, life []byte, steps int) item {
	i := messageName(m.Key).key()
	i[attrScope], i[attrID] = blob(m.Scope), blob(m.ID)
	if !m.Fingerprint.IsZero() {
		i[attrFingerprint] = blob(m.Fingerprint[:])
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
	setBytes(i, attrErrors, ledger.EncodeErrors(m.Errors))
	setBytes(i, attrFailed, m.Failed)
	if m.Covered {
		i[attrCovered] = &types.AttributeValueMemberBOOL{Value: true}
	}
	setBytes(i, attrLife, life)
	setNumber(i, attrSteps, steps)
	return i
}

// decodeMessage reads a message's item.
func decodeMessage(i item) (*driver.Message, error) {
	m := &driver.Message{Key: keyOf(nameOf(i)), Scope: string(getBytes(i, attrScope)), ID: getBytes(i, attrID),
		State: getNumber[ledger.State](i, attrState), Token: getNumber[uint64](i, attrToken), Owner: getNumber[driver.OwnerID](i, attrOwner),
		Attempts: getNumber[int](i, attrAttempts), Crashes: getNumber[int](i, attrCrashes), Generation: getNumber[int](i, attrGeneration),
		Due: getTime(i, attrDue), At: getTime(i, attrAt), Expiry: getTime(i, attrExpiry), Result: getBytes(i, attrResult),
		Failed: getBytes(i, attrFailed)}
	copy(m.Fingerprint[:], getBytes(i, attrFingerprint))
	_, m.Covered = i[attrCovered]
	var err error
	m.Errors, err = ledger.DecodeErrors(getBytes(i, attrErrors))
	return m, err
}

// same says whether two values are equal.
func same(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberB:
		b, ok := b.(*types.AttributeValueMemberB)
		return ok && bytes.Equal(a.Value, b.Value)
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberBOOL:
		b, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && a.Value == b.Value
	}
	return false
}

// attributes are the names of an item's attributes, sorted: equal changes are equal statements.
func attributes(i item) []string { return slices.Sorted(maps.Keys(i)) }

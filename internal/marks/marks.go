package marks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// The headers that are marks. [ledger.Archive] reads them.
const (
	kind     = "ackledger" // the type of each
	leftOut  = "ackledger-left-out"
	emptyKey = "ackledger-empty-key"
)

const (
	maxLeftOut   = 256     // bytes of the mark, its name and type included
	maxLargeKey  = 1 << 10 // bytes of Archive.Group that an excerpt keeps
	bodyInTheLog = "the body is in the log"
	batchInLog   = "the batch is in the log, and was not unpacked"
)

// LeftOutBatch is the mark of an archive that stands for a batch of records which was passed without being unpacked.
func LeftOutBatch(first, last int64) ledger.Header {
	return mark(&ledger.LeftOut{Where: batchInLog, Offsets: fmt.Sprintf("%d..%d", first, last)})
}

// mark is the header that carries it.
func mark(l *ledger.LeftOut) ledger.Header {
	value, err := json.Marshal(l)
	if err != nil { // numbers and plain texts always have a form
		value = nil
	}
	return ledger.Header{Name: leftOut, Value: value, Type: kind}
}

// Excerpt returns what is archived of a delivery that is larger than Limits.Archive: everything but its body, the headers that
// have room, and a mark with the body's length and SHA-256 ([ledger.Archive.LeftOut]). What fits, and what is sealed, is returned as
// it is. An excerpt of an excerpt has the first one's mark, and fewer headers. The excerpt shares its headers' values with a,
// which is not changed.
func Excerpt(a *ledger.Archive, limit int) *ledger.Archive {
	if a.Size() <= limit || a.Sealed() {
		return a
	}
	sum := sha256.Sum256(a.Body)
	left := ledger.LeftOut{Where: bodyInTheLog, Bytes: len(a.Body), SHA256: hex.EncodeToString(sum[:])}
	out := *a
	if was, ok := a.LeftOut(); ok { // an excerpt, which is still too large: what it says of the body stays true
		left = was
		out.UnmarkLeftOut()
	}
	headers := out.Headers
	out.Body, out.Headers = nil, nil
	if len(a.Group) > maxLargeKey {
		out.Group, left.GroupSize = "", len(a.Group)
	}
	room := limit - maxLeftOut - len(out.Group)
	for _, h := range headers {
		size := len(h.Name) + len(h.Value) + len(h.Type)
		if room < size {
			left.Headers++
			continue
		}
		room -= size
		out.Headers = append(out.Headers, h)
	}
	out.Headers = append(out.Headers, mark(&left))
	return &out
}

// EmptyKey notes that the message's key was empty, and not nil: Group has the bytes of a key, and cannot tell the two
// apart. The mark is a header that no message can have; it is sealed with the others.
func EmptyKey(a *ledger.Archive) {
	if !slices.ContainsFunc(a.Headers, func(h ledger.Header) bool { return h.Name == emptyKey && h.Type == kind }) {
		a.Headers = append(slices.Clone(a.Headers), ledger.Header{Name: emptyKey, Type: kind})
	}
}

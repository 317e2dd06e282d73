package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// The mark of an archive without its body: a header that no broker's message can have, since none gives a header this type.
const leftOutName = "ackledger-left-out"

const (
	maxLeftOut   = 256     // bytes of the mark, its name and type included
	maxLargeKey  = 1 << 10 // bytes of Archive.Group that an excerpt keeps
	bodyInTheLog = "the body is in the log"
	batchInLog   = "the batch is in the log, and was not unpacked"
)

// LeftOut says what an archive lacks of a message that was too large for it. The message itself is where it came from, for as
// long as the broker keeps it: Archive.Delivery and Archive.Key say where.
type LeftOut struct {
	Where     string `json:"where"`                // "the body is in the log", or that a batch is
	Bytes     int    `json:"bytes"`                // of the body
	SHA256    string `json:"sha256"`               // of the body, in hexadecimal
	Headers   int    `json:"headers,omitempty"`    // how many headers found no room either
	GroupSize int    `json:"group_size,omitempty"` // bytes of an Archive.Group that is left out; zero: it is there
	// Offsets is not empty if it was a whole batch of records that nobody unpacked ([LeftOutBatch]): `first..last`. How many
	// records there are, and the rest of the above, is not known then.
	Offsets string `json:"offsets,omitempty"`
}

// LeftOutBatch is the mark of an archive that stands for a batch of records which was passed without being unpacked.
func LeftOutBatch(first, last int64) Header {
	return (&LeftOut{Where: batchInLog, Offsets: fmt.Sprintf("%d..%d", first, last)}).mark()
}

// mark is the header that carries it.
func (l *LeftOut) mark() Header {
	value, err := json.Marshal(l)
	if err != nil { // numbers and plain texts always have a form
		value = nil
	}
	return Header{Name: leftOutName, Value: value, Type: sealType}
}

// Excerpt returns what is archived of a delivery that is larger than Limits.Archive: everything but its body, the headers that
// have room, and a mark with the body's length and SHA-256 ([Archive.LeftOut]). What fits, and what is sealed, is returned as
// it is. An excerpt of an excerpt has the first one's mark, and fewer headers. The excerpt shares its headers' values with a,
// which is not changed.
func (a *Archive) Excerpt(limit int) *Archive {
	if a.Size() <= limit || a.Sealed() {
		return a
	}
	sum := sha256.Sum256(a.Body)
	left := LeftOut{Where: bodyInTheLog, Bytes: len(a.Body), SHA256: hex.EncodeToString(sum[:])}
	headers := a.Headers
	if was, ok := a.LeftOut(); ok { // an excerpt, which is still too large: what it says of the body stays true
		left, headers = was, slices.DeleteFunc(slices.Clone(headers), isLeftOut)
	}
	out := *a
	out.Body, out.Headers = nil, nil
	if len(a.Group) > maxLargeKey {
		out.Group, left.GroupSize = "", len(a.Group)
	}
	room := limit - maxLeftOut - len(out.Group)
	for _, h := range headers {
		if room < h.size() {
			left.Headers++
			continue
		}
		room -= h.size()
		out.Headers = append(out.Headers, h)
	}
	out.Headers = append(out.Headers, left.mark())
	return &out
}

// LeftOut says what of the message is not in the archive; false: it is whole, or sealed, which hides it.
func (a *Archive) LeftOut() (LeftOut, bool) {
	at := slices.IndexFunc(a.Headers, isLeftOut)
	if at < 0 {
		return LeftOut{}, false
	}
	var left LeftOut
	if err := json.Unmarshal(a.Headers[at].Value, &left); err != nil {
		left.Where = bodyInTheLog // somebody wrote over the mark: that there is one is what counts
	}
	return left, true
}

// UnmarkLeftOut takes the mark away, and says whether it was there. Whoever shows the headers as the message's own calls it.
func (a *Archive) UnmarkLeftOut() bool {
	n := len(a.Headers)
	a.Headers = slices.DeleteFunc(slices.Clone(a.Headers), isLeftOut)
	return len(a.Headers) < n
}

func isLeftOut(h Header) bool { return h.Name == leftOutName && h.Type == sealType }

package ledger

import (
	"encoding/json"
	"slices"
)

// The marks of an archive: headers that no broker's message can have, since none gives a header the type sealType. Package internal/marks
// makes them.
const (
	leftOutName  = "ackledger-left-out"  // the body is not there
	emptyKeyName = "ackledger-empty-key" // the message's key was empty
)

// LeftOut says what an archive lacks of a message that was too large for it. The message itself is where it came from, for as
// long as the broker keeps it: Archive.Delivery and Archive.Key say where.
type LeftOut struct {
	Where     string `json:"where"`                // "the body is in the log", or that a batch is
	Bytes     int    `json:"bytes"`                // of the body
	SHA256    string `json:"sha256"`               // of the body, in hexadecimal
	Headers   int    `json:"headers,omitempty"`    // how many headers found no room either
	GroupSize int    `json:"group_size,omitempty"` // bytes of an Archive.Group that is left out; zero: it is there
	// Offsets is not empty if it was a whole batch of records that nobody unpacked: `first..last`. How many records there
	// are, and the rest of the above, is not known then.
	Offsets string `json:"offsets,omitempty"`
}

// LeftOut says what of the message is not in the archive; false: it is whole, or sealed, which hides it.
func (a *Archive) LeftOut() (LeftOut, bool) {
	at := slices.IndexFunc(a.Headers, isLeftOut)
	if at < 0 {
		return LeftOut{}, false
	}
	var left LeftOut
	if err := json.Unmarshal(a.Headers[at].Value, &left); err != nil {
		left.Where = "the body is in the log" // somebody wrote over the mark: that there is one is what counts
	}
	return left, true
}

// UnmarkLeftOut takes the mark of [LeftOut] away, and says whether it was there. Whoever shows the headers as the message's own calls it.
func (a *Archive) UnmarkLeftOut() bool {
	n := len(a.Headers)
	a.Headers = slices.DeleteFunc(slices.Clone(a.Headers), isLeftOut)
	return len(a.Headers) < n
}

func isLeftOut(h Header) bool { return h.Name == leftOutName && h.Type == sealType }

// UnmarkEmptyKey takes the mark away that the message's key was empty, and says whether it was there: Group cannot tell an empty key from
// none. Whoever gives an archived message to others calls it.
func (a *Archive) UnmarkEmptyKey() bool {
	at := slices.IndexFunc(a.Headers, isEmptyKey)
	if at < 0 {
		return false
	}
	a.Headers = slices.Delete(slices.Clone(a.Headers), at, at+1)
	return true
}

func isEmptyKey(h Header) bool { return h.Name == emptyKeyName && h.Type == sealType }

package ledger

import "slices"

// The mark of an archived message whose key is empty. No broker gives a header this type, so no message can pretend to it.
const emptyKeyName = "ackledger-empty-key"

// MarkEmptyKey notes that the message's key was empty, and not nil: Group has the bytes of a key, and cannot tell the two
// apart. The mark is a header that no message can have; it is sealed with the others.
func (a *Archive) MarkEmptyKey() {
	if !slices.ContainsFunc(a.Headers, isEmptyKey) {
		a.Headers = append(slices.Clone(a.Headers), Header{Name: emptyKeyName, Type: sealType})
	}
}

// UnmarkEmptyKey takes the mark away, and says whether it was there. Whoever gives an archived message to others calls it.
func (a *Archive) UnmarkEmptyKey() bool {
	at := slices.IndexFunc(a.Headers, isEmptyKey)
	if at < 0 {
		return false
	}
	a.Headers = slices.Delete(slices.Clone(a.Headers), at, at+1)
	return true
}

func isEmptyKey(h Header) bool { return h.Name == emptyKeyName && h.Type == sealType }

package storage

// MaxLedgerID is the longest id of a ledger, in bytes.
const MaxLedgerID = 64

// IsLedgerID says whether a text can be the id of a ledger: 1 to MaxLedgerID bytes of letters, digits, "-" and "_".
func IsLedgerID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= MaxLedgerID
}

package idempotency

import (
	"fmt"
	"net/url"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// Request says what is to be done once. Two requests are one if Scope, Caller and Key are equal.
type Request struct {
	// Scope names what kind of request it is, such as "POST /payments": 1 to 255 bytes. Two scopes never meet.
	Scope string
	// Caller is whose request it is, such as a tenant: at most 255 bytes; empty where there is one caller. Two callers never meet,
	// whatever keys they choose.
	Caller string
	// Key is the caller's name for the request, as its bytes are: 1 to 255 visible characters, or what Options.CheckKey takes.
	Key string
	// Body is what must be equal in a repetition, in a form that does not change by itself (see package canonical). Nil: nothing is
	// compared.
	Body []byte
	// Window is how long the ledger recognises the request, from its first run on. Zero: Options.Window. For people whose uses differ:
	// minutes for a click, days for a payment.
	Window time.Duration
}

// Bounds of a request's parts.
const (
	maxPart = 255 // bytes of a scope or a caller
	maxKey  = 255 // characters of a key, by default
)

// CheckKey is the default of Options.CheckKey: 1 to 255 visible characters (no spaces, no control characters, no invalid UTF-8).
func CheckKey(key string) error {
	if n := utf8.RuneCountInString(key); n < 1 || n > maxKey {
		return fmt.Errorf("idempotency: the key must have 1 to %d characters, has %d", maxKey, n)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("idempotency: the key must be UTF-8, is %q", key)
	}
	for at, r := range key {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return fmt.Errorf("idempotency: the key must have visible characters alone, has %U at byte %d", r, at)
		}
	}
	return nil
}

// key is the request's identity in the ledger. The caller is escaped, so that the first slash ends it: no two requests have one id.
func (q *Request) key(check func(string) error) (ledger.Key, error) {
	switch {
	case q.Scope == "" || len(q.Scope) > maxPart || !utf8.ValidString(q.Scope):
		return ledger.Key{}, fmt.Errorf("idempotency: Request.Scope: must be 1 to %d bytes of UTF-8, is %d bytes", maxPart, len(q.Scope))
	case len(q.Caller) > maxPart:
		return ledger.Key{}, fmt.Errorf("idempotency: Request.Caller: must be at most %d bytes, is %d bytes", maxPart, len(q.Caller))
	}
	if err := check(q.Key); err != nil {
		return ledger.Key{}, &KeyError{Err: err}
	}
	k := ledger.Key{Scope: q.Scope, ID: []byte(url.PathEscape(q.Caller) + "/" + q.Key)}
	if n := len(k.ID); n > ledger.MaxID {
		return ledger.Key{}, &KeyError{Err: fmt.Errorf("idempotency: caller and key together must be at most %d bytes, are %d", ledger.MaxID, n)}
	}
	return k, nil
}

// fingerprint is of what must be equal.
func (q *Request) fingerprint() ledger.Fingerprint {
	if q.Body == nil {
		return ledger.Fingerprint{}
	}
	return ledger.BodyFingerprint(q.Body)
}

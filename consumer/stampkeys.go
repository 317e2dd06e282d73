package consumer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Stamps says which stamps a worker takes for true ([Stamp]). A stamp names the message that a copy is of, so whoever can
// make one decides which row of the ledger the copy meets: one who claims another's message first has that message
// archived as a mismatch when it comes, and not run. By default whoever may produce to the source can make one. A stamp that
// is refused makes no difference: its copy is a message of its own.
//
// The zero value takes all stamps that [Stamp.Counts] says are of the copy's own source and body. On Kafka one that names a
// record must name one that there is: of this topic's id, below the end of its partition, and of no leader epoch that is
// yet to come. What a stamp may do then is to name a record that is there and has not been handled yet.
type Stamps struct {
	// Ignore refuses every stamp. For people whose producers are not trusted, and who send no copies back to the source:
	// what a replay sends there is another message then, and runs whenever it is sent. A replay in place needs no stamps.
	Ignore bool
	// Keys are those that sign stamps, at most 16: a stamp that none of them has signed is refused, and the first signs those
	// of dead letters. For people whose producers are not trusted. Replays, and producers that stamp, need them too, and
	// first: what they send before is refused. A new key comes last in all lists, then it is made the first; the old one goes
	// once nothing that it has signed may be sent again.
	//
	// A stamp that is signed is taken as it is, wherever the record is that it names: also one of a topic that was created
	// anew since. A replay that has keys sends the letters of such a topic: to workers that have none yet each copy is a
	// message of its own.
	Keys []StampKey
}

// StampKey signs stamps, with HMAC-SHA-256. Whoever has it is trusted with the identity of messages. It is printed without
// its secret.
type StampKey struct {
	ID     string // 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-': stamps name it
	Secret []byte // 32 to 1,024 bytes, of a random source
}

// Bounds of Stamps.Keys.
const (
	maxStampKeys   = 16
	maxStampKeyID  = 64
	minStampSecret = 32
	maxStampSecret = 1024
)

// String returns the key's id.
func (k StampKey) String() string { return "stamp key " + k.ID }

// GoString is String.
func (k StampKey) GoString() string { return k.String() }

// MarshalText returns the key's id, for what writes settings down.
func (k StampKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Sign returns the stamp signed with the first of keys; without any it is not signed. What is changed of it after that makes
// it another, which nobody has signed.
func (s Stamp) Sign(keys ...StampKey) Stamp {
	s.Signer, s.MAC = "", [sha256.Size]byte{}
	if len(keys) > 0 {
		s.Signer = keys[0].ID
		s.MAC = s.mac(&keys[0])
	}
	return s
}

// SignedBy says whether one of keys has signed the stamp as it is. It takes as long whatever is wrong with the MAC.
func (s *Stamp) SignedBy(keys ...StampKey) bool {
	for i := range keys {
		if s.Signer != "" && keys[i].ID == s.Signer {
			mac := s.mac(&keys[i])
			return hmac.Equal(mac[:], s.MAC[:])
		}
	}
	return false
}

// mac is of all that the stamp says: source, id, position, fingerprint, token, target group and signer. No two stamps have one
// text.
func (s *Stamp) mac(k *StampKey) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, k.Secret)
	h.Write(s.append(make([]byte, 0, 256), false))
	h.Sum(sum[:0])
	return sum
}

// CheckStampKeys returns what is wrong with a list of keys, without the secrets: too many, a bad id, one id twice, a secret
// too short or too long.
func CheckStampKeys(keys []StampKey) error {
	if len(keys) > maxStampKeys {
		return fmt.Errorf("must be at most %d, are %d", maxStampKeys, len(keys))
	}
	seen := map[string]bool{}
	for i, k := range keys {
		switch {
		case k.ID == "" || len(k.ID) > maxStampKeyID || strings.Trim(k.ID, stampKeyChars) != "":
			return fmt.Errorf("key %d: its id must be 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-', is %.80q", i+1, maxStampKeyID, k.ID)
		case seen[k.ID]:
			return fmt.Errorf("key %d: its id must be its own, is %q like another's", i+1, k.ID)
		case len(k.Secret) < minStampSecret || len(k.Secret) > maxStampSecret:
			return fmt.Errorf("key %q: its secret must be %d to %d bytes, is %d bytes", k.ID, minStampSecret, maxStampSecret, len(k.Secret))
		}
		seen[k.ID] = true
	}
	return nil
}

const stampKeyChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// ParseStampKeys reads keys from a text, such as that of an environment variable or a file, as the command ackledger does:
// `id:secret`, the secret in base64, with spaces or lines between. The first signs. Errors do not show secrets.
func ParseStampKeys(text string) ([]StampKey, error) {
	var keys []StampKey
	for i, field := range strings.Fields(text) {
		id, secret, ok := strings.Cut(field, ":")
		if !ok {
			return nil, fmt.Errorf("consumer: stamp keys: key %d must be id:secret, has no colon", i+1)
		}
		plain, err := base64.StdEncoding.DecodeString(secret)
		if err != nil {
			return nil, fmt.Errorf("consumer: stamp keys: key %d: its secret must be base64, is not", i+1)
		}
		keys = append(keys, StampKey{ID: id, Secret: plain})
	}
	if len(keys) == 0 {
		return nil, errors.New("consumer: stamp keys: must be at least 1, are 0")
	}
	if err := CheckStampKeys(keys); err != nil {
		return nil, fmt.Errorf("consumer: stamp keys: %w", err)
	}
	return keys, nil
}

// cloneKeys keeps a worker's keys from what their owner does with his secrets afterwards, such as clearing them.
func cloneKeys(keys []StampKey) []StampKey {
	own := slices.Clone(keys)
	for i := range own {
		own[i].Secret = slices.Clone(own[i].Secret)
	}
	return own
}

func (s *Stamps) validate() error {
	if s.Ignore && len(s.Keys) > 0 {
		return fmt.Errorf("consumer: Options.Stamps.Ignore: must not be set with Keys, of which there are %d: signed stamps would be refused too", len(s.Keys))
	}
	if err := CheckStampKeys(s.Keys); err != nil {
		return fmt.Errorf("consumer: Options.Stamps.Keys: %w", err)
	}
	return nil
}

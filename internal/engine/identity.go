package engine

import (
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// Origin is what the broker says of a message, for Identify.
type Origin struct {
	Key    ledger.Key // the broker's identity; zero: Scope, the message's ID and Pos make it
	Scope  string     // consumer's name and source
	Source string     // as consumer.Message.Source: what a stamp must name
	Group  string     // Kafka: the consumer group; SQS: empty
	Pos    *ledger.Position
	Later  bool   // the worker says the fingerprint later, where the message's identity does not depend on it
	Tenant string // as the broker says; Options.FairBy replaces it
	// Records says which places in logs a stamp that nobody has signed may name. Nil: any, nobody looks.
	Records Known
}

// Known says what there is for stamps to name.
type Known interface {
	// Exists says whether there is a record at this place, which could have been delivered before the one that is looked at.
	Exists(*ledger.Position) bool
}

// Identify finds the identity of m, whose ID is the broker's: a stamp that counts, else KeyFunc, else the broker's, of
// which a replay's stamp may tell (Stamp.Broker). It sets m.ID to the readable identity, and asks whose the message is (FairBy),
// and of what limit (Limit). It calls nothing but Origin.Records and the user's functions, none of which can keep or end the goroutine that polls; of these, and the
// message, it is a function.
func Identify(o *consumer.Options, from Origin, m *consumer.Message) Identity {
	id := identify(o, &from, m)
	id.Tenant, id.Nameless = tenantOf(o, from.Tenant, m)
	if o.Limit != nil && id.Invalid == nil { // what has no limit that is known is not run: it could break one
		id.Limit, id.LimitMost, id.Invalid = limitOf(o, m)
	}
	return id
}

func identify(o *consumer.Options, from *Origin, m *consumer.Message) Identity {
	id := Identity{Key: from.Key}
	if id.Key.ID == nil {
		id.Key = ledger.Key{Scope: from.Scope, ID: []byte(m.ID), Pos: from.Pos}
	}
	stamp := stampOf(m)
	if from.Later && stamp == nil && o.FingerprintFunc == nil && o.KeyFunc == nil {
		id.Later = true
		return id
	}
	id.Fingerprint = ledger.BodyFingerprint(m.Body)
	if o.FingerprintFunc != nil {
		canonical, err := derive("FingerprintFunc", o.FingerprintFunc, m)
		if err != nil {
			id.Invalid, canonical = err, m.Body
		}
		id.Fingerprint = ledger.NewFingerprint(m.Body, canonical)
	}
	if stamp != nil && stamp.Counts(from.Source, id.Fingerprint) {
		id.Refused = refusal(&o.Stamps, from, stamp)
		id.Copy = id.Refused == nil
	}
	if id.Copy {
		id.Key = ledger.Key{Scope: id.Key.Scope, ID: []byte(stamp.ID), Pos: stamp.Pos}
		id.StampToken = stamp.Token
		id.Skip = from.Group != "" && stamp.Group != "" && stamp.Group != from.Group
		m.ID = stamp.ID
		if !stamp.Broker {
			return id
		}
	}
	if o.KeyFunc != nil && id.Invalid == nil {
		useKeyFunc(&id, o, m)
	}
	return id
}

// Why stamps are refused.
var (
	errIgnored  = errors.New("Options.Stamps.Ignore is set")
	errUnsigned = errors.New("no key of Options.Stamps has signed the stamp")
	errNowhere  = errors.New("the stamp names a record that is not there")
)

// refusal is why a stamp of the message's own source and body does not count; nil: it does. What is signed is ours,
// whatever it names.
func refusal(o *consumer.Stamps, from *Origin, stamp *consumer.Stamp) error {
	switch {
	case o.Ignore:
		return errIgnored
	case len(o.Keys) > 0 && !stamp.SignedBy(o.Keys...):
		return errUnsigned
	case len(o.Keys) == 0 && stamp.Pos != nil && from.Records != nil && !from.Records.Exists(stamp.Pos):
		return errNowhere
	}
	return nil
}

// NoRecords is for sources that are no logs: no stamp can name a place in one.
type NoRecords struct{}

// Exists implements Known.
func (NoRecords) Exists(*ledger.Position) bool { return false }

// tenantOf is whose a message is.
func tenantOf(o *consumer.Options, broker string, m *consumer.Message) (tenant string, nameless error) {
	if o.FairBy == nil {
		return broker, nil
	}
	return derive("FairBy", func(m *consumer.Message) (string, error) { return o.FairBy(m), nil }, m)
}

func useKeyFunc(id *Identity, o *consumer.Options, m *consumer.Message) {
	key, err := derive("KeyFunc", o.KeyFunc, m)
	if err == nil && (key == "" || len(key) > ledger.MaxID) {
		err = fmt.Errorf("consumer: KeyFunc: must return 1 to %d bytes, returned %d", ledger.MaxID, len(key))
	}
	if err != nil {
		id.Invalid = err
		return
	}
	id.Key, m.ID = ledger.Key{Scope: id.Key.Scope, ID: []byte(key)}, key
	id.StampToken, id.Copy = 0, false // that of another row, if any
}

func stampOf(m *consumer.Message) *consumer.Stamp {
	value, ok := m.Header(consumer.StampName)
	if !ok {
		return nil
	}
	s, err := consumer.ParseStamp(value)
	if err != nil || len(s.ID) > ledger.MaxID {
		return nil // not ours, or cut: the copy is a message of its own
	}
	return s
}

// derive asks a user's function about a message. The function has a copy: left behind, it may still read it, or write it.
func derive[T any](name string, f func(*consumer.Message) (T, error), m *consumer.Message) (T, error) {
	own := m.Clone()
	return inTime(name, func() (T, error) { return f(&own) })
}

// limitOf is what a message's limit is.
func limitOf(o *consumer.Options, m *consumer.Message) (key string, most int, err error) {
	type limit struct {
		key  string
		most int
	}
	l, err := derive("Limit", func(m *consumer.Message) (l limit, err error) {
		l.key, l.most = o.Limit(m)
		return l, nil
	}, m)
	switch {
	case err != nil || l.key == "":
		return "", 0, err
	case len(l.key) > consumer.MaxLimitKey:
		return "", 0, fmt.Errorf("consumer: Limit: the key must be at most %d bytes, is %d", consumer.MaxLimitKey, len(l.key))
	case l.most < 1 || l.most > consumer.MaxLimit:
		return "", 0, fmt.Errorf("consumer: Limit: must be 1 to %d messages, is %d", consumer.MaxLimit, l.most)
	}
	return l.key, l.most, nil
}

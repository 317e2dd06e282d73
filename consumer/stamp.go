package consumer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/ledger"
)

// StampName is the header or attribute that carries a message's identity across re-sends.
const StampName = "ackledger-id"

// maxStamp bounds what is parsed of a stamp, in bytes.
const maxStamp = 8 << 10

// Stamp is the identity of a message, carried by a copy of it: a redriven dead letter, a replay, or a producer's own
// message that may be sent twice. Services copy headers around, so a stamp counts only if it names the very source that
// the copy came from and the fingerprint of the copy's own body ([Stamp.Counts]); otherwise the copy is a message of its
// own.
//
// Who may produce to the source can make one: it is trusted with the identity of messages, unless [Stamps] says otherwise.
type Stamp struct {
	Source      string // as Message.Source
	ID          string
	Pos         *ledger.Position // Kafka, keyed by position
	Fingerprint ledger.Fingerprint
	Token       uint64 // the failing claim's; 0 from a producer
	Group       string // Kafka: the only group that is to handle the copy; empty: any
	// Broker says that ID is the broker's, under which no handler had the message when a replay sent the copy: Options.KeyFunc,
	// where there is one, goes before it.
	Broker bool
	// Signer is the id of the key that it was signed with, MAC what that key makes of all the rest ([Stamp.Sign]). Empty and
	// zero: it is not signed.
	Signer string
	MAC    [sha256.Size]byte
}

// NewStamp is for producers that may send one message twice: source is the target queue's ARN or `cluster/topic`, id the
// message's identity there, body what is sent.
func NewStamp(source, id string, body []byte) Stamp {
	return Stamp{Source: source, ID: id, Fingerprint: ledger.BodyFingerprint(body)}
}

// Counts says whether the stamp is of a message of this source with this fingerprint.
func (s *Stamp) Counts(source string, f ledger.Fingerprint) bool {
	return s.Source == source && s.Fingerprint.Agrees(f)
}

// String returns the header's value: URL-encoded fields in the order of their names, so that any identity survives any
// broker.
func (s Stamp) String() string { return string(s.append(make([]byte, 0, 320), s.Signer != "")) }

// append writes the fields, with the MAC or without.
func (s *Stamp) append(b []byte, signed bool) []byte {
	add := func(name, value string) {
		b = append(append(append(b, name...), '='), url.QueryEscape(value)...)
		b = append(b, '&')
	}
	if s.Broker {
		add("broker", "1")
	}
	if s.Pos != nil {
		add("epoch", strconv.FormatInt(int64(s.Pos.Epoch), 10))
	}
	add("fp", hex.EncodeToString(s.Fingerprint[:]))
	if s.Group != "" {
		add("group", s.Group)
	}
	add("id", s.ID)
	if s.Signer != "" {
		add("key", s.Signer)
	}
	if s.Pos != nil {
		add("log", s.Pos.Log)
	}
	if signed {
		add("mac", hex.EncodeToString(s.MAC[:]))
	}
	if s.Pos != nil {
		add("offset", strconv.FormatInt(s.Pos.Offset, 10))
	}
	add("source", s.Source)
	if s.Token != 0 {
		add("token", strconv.FormatUint(s.Token, 10))
	}
	return append(b, "v=1"...)
}

// ParseStamp reads a header's value. A value that is not a stamp, or whose id is not that of its position, is an error;
// callers then treat the message as unstamped.
func ParseStamp(value []byte) (*Stamp, error) {
	if len(value) > maxStamp {
		return nil, fmt.Errorf("consumer: stamp: must be at most %d bytes, is %d", maxStamp, len(value))
	}
	f, err := parseFields(string(value))
	if err != nil {
		return nil, fmt.Errorf("consumer: stamp: %w", err)
	}
	if f.get("v").text != "1" {
		return nil, fmt.Errorf("consumer: stamp: version must be 1, is %q", f.get("v").text)
	}
	s := &Stamp{Source: f.get("source").text, ID: f.get("id").text, Group: f.get("group").text, Broker: f.get("broker").text == "1", Signer: f.get("key").text}
	fp := f.get("fp").text
	if len(fp) != hex.EncodedLen(len(s.Fingerprint)) || s.Source == "" || s.ID == "" {
		return nil, errMissing
	}
	if _, err := hex.Decode(s.Fingerprint[:], []byte(fp)); err != nil {
		return nil, errMissing
	}
	if t := f.get("token").text; t != "" {
		if s.Token, err = strconv.ParseUint(t, 10, 63); err != nil {
			return nil, fmt.Errorf("consumer: stamp: token: %w", err)
		}
	}
	if err := s.readMAC(f.get("mac").text); err != nil {
		return nil, err
	}
	if f.get("log").has {
		if s.Pos, err = f.position(); err != nil {
			return nil, err
		}
		if want := s.idOfPosition(); s.ID != want {
			return nil, fmt.Errorf("consumer: stamp: the id must be %.99q by its position, is %.99q", want, s.ID)
		}
	}
	return s, nil
}

var errMissing = errors.New("consumer: stamp: source, id or fingerprint missing")

// readMAC reads the MAC of a stamp that names its signer; another has none.
func (s *Stamp) readMAC(text string) error {
	if s.Signer == "" {
		return nil
	}
	if len(text) != hex.EncodedLen(len(s.MAC)) {
		return fmt.Errorf("consumer: stamp: the MAC must be %d hexadecimal digits, is %d bytes", hex.EncodedLen(len(s.MAC)), len(text))
	}
	if _, err := hex.Decode(s.MAC[:], []byte(text)); err != nil {
		return fmt.Errorf("consumer: stamp: the MAC: %w", err)
	}
	return nil
}

// stampFields are what a header's value says: as url.ParseQuery reads it, without the map that this makes for each.
type stampFields [len(stampNames)]stampField

type stampField struct {
	text string
	has  bool
}

var stampNames = [...]string{"v", "source", "id", "fp", "token", "group", "log", "epoch", "offset", "broker", "key", "mac"}

// get returns the field of a name that is among stampNames.
func (f *stampFields) get(name string) stampField { return f[slices.Index(stampNames[:], name)] }

// parseFields reads URL-encoded fields. Of several with one name the first counts; other names are ignored.
func parseFields(value string) (f stampFields, err error) {
	for value != "" {
		var pair string
		pair, value, _ = strings.Cut(value, "&")
		if strings.Contains(pair, ";") {
			return f, errors.New("a semicolon is no separator")
		}
		name, text, _ := strings.Cut(pair, "=")
		if name, err = url.QueryUnescape(name); err != nil {
			return f, err
		}
		if text, err = url.QueryUnescape(text); err != nil {
			return f, err
		}
		if at := slices.Index(stampNames[:], name); at >= 0 && !f[at].has {
			f[at] = stampField{text: text, has: true}
		}
	}
	return f, nil
}

// idOfPosition is the id of the record at Pos: the topic, which Source ends with, the partition, which Pos.Log ends with, and
// the offset. A ledger shows the records of a log by what their ids begin with.
func (s *Stamp) idOfPosition() string {
	last := func(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
	return last(s.Source) + "-" + last(s.Pos.Log) + "-" + strconv.FormatInt(s.Pos.Offset, 10)
}

func (f *stampFields) position() (*ledger.Position, error) {
	epoch, err := strconv.ParseInt(f.get("epoch").text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("consumer: stamp: epoch: %w", err)
	}
	offset, err := strconv.ParseInt(f.get("offset").text, 10, 64)
	if err != nil || offset < 0 || offset > ledger.MaxOffset || f.get("log").text == "" {
		return nil, errors.New("consumer: stamp: log or offset missing, or no offset that there is")
	}
	return &ledger.Position{Log: f.get("log").text, Epoch: int32(epoch), Offset: offset, Prev: -1}, nil
}

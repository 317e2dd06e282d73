package consumer

import (
	"encoding/hex"
	"fmt"
	"net/url"
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
type Stamp struct {
	Source      string // as Message.Source
	ID          string
	Pos         *ledger.Position // Kafka, keyed by position
	Fingerprint ledger.Fingerprint
	Token       uint64 // the failing claim's; 0 from a producer
	Group       string // Kafka: the only group that is to handle the copy; empty: any
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

// String returns the header's value: URL-encoded fields, so that any identity survives any broker.
func (s Stamp) String() string {
	v := url.Values{}
	v.Set("v", "1")
	v.Set("source", s.Source)
	v.Set("id", s.ID)
	v.Set("fp", hex.EncodeToString(s.Fingerprint[:]))
	if s.Token != 0 {
		v.Set("token", strconv.FormatUint(s.Token, 10))
	}
	if s.Group != "" {
		v.Set("group", s.Group)
	}
	if s.Pos != nil {
		v.Set("log", s.Pos.Log)
		v.Set("epoch", strconv.FormatInt(int64(s.Pos.Epoch), 10))
		v.Set("offset", strconv.FormatInt(s.Pos.Offset, 10))
	}
	return v.Encode()
}

// ParseStamp reads a header's value. A value that is not a stamp, or whose id is not that of its position, is an error;
// callers then treat the message as unstamped.
func ParseStamp(value []byte) (*Stamp, error) {
	if len(value) > maxStamp {
		return nil, fmt.Errorf("consumer: stamp: must be at most %d bytes, is %d", maxStamp, len(value))
	}
	v, err := url.ParseQuery(string(value))
	if err != nil {
		return nil, fmt.Errorf("consumer: stamp: %w", err)
	}
	if v.Get("v") != "1" {
		return nil, fmt.Errorf("consumer: stamp: version must be 1, is %q", v.Get("v"))
	}
	s := &Stamp{Source: v.Get("source"), ID: v.Get("id"), Group: v.Get("group")}
	fp, err := hex.DecodeString(v.Get("fp"))
	if err != nil || len(fp) != len(s.Fingerprint) || s.Source == "" || s.ID == "" {
		return nil, fmt.Errorf("consumer: stamp: source, id or fingerprint missing")
	}
	copy(s.Fingerprint[:], fp)
	if t := v.Get("token"); t != "" {
		if s.Token, err = strconv.ParseUint(t, 10, 63); err != nil {
			return nil, fmt.Errorf("consumer: stamp: token: %w", err)
		}
	}
	if v.Has("log") {
		if s.Pos, err = parsePosition(v); err != nil {
			return nil, err
		}
		if want := s.idOfPosition(); s.ID != want {
			return nil, fmt.Errorf("consumer: stamp: the id must be %.99q by its position, is %.99q", want, s.ID)
		}
	}
	return s, nil
}

// idOfPosition is the id of the record at Pos: the topic, which Source ends with, the partition, which Pos.Log ends with, and
// the offset. A ledger shows the records of a log by what their ids begin with.
func (s *Stamp) idOfPosition() string {
	last := func(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
	return last(s.Source) + "-" + last(s.Pos.Log) + "-" + strconv.FormatInt(s.Pos.Offset, 10)
}

func parsePosition(v url.Values) (*ledger.Position, error) {
	epoch, err := strconv.ParseInt(v.Get("epoch"), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("consumer: stamp: epoch: %w", err)
	}
	offset, err := strconv.ParseInt(v.Get("offset"), 10, 64)
	if err != nil || offset < 0 || offset > ledger.MaxOffset || v.Get("log") == "" {
		return nil, fmt.Errorf("consumer: stamp: log or offset missing, or no offset that there is")
	}
	return &ledger.Position{Log: v.Get("log"), Epoch: int32(epoch), Offset: offset, Prev: -1}, nil
}

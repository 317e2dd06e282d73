package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// storedPosition is a position as JSON. Without Log, the delivery that it is stored beside spells the log, the epoch and
// the offset (positionName): nearly all records' do, and a log's name is long. Without Prev it is the offset before.
type storedPosition struct {
	Log    *[]byte `json:"log,omitempty"`
	Epoch  int32   `json:"epoch,omitempty"`
	Offset int64   `json:"offset,omitempty"`
	Prev   *int64  `json:"prev,omitempty"`
}

// positionName is how a record's delivery is called that is named after its place.
func positionName(p *ledger.Position) string {
	return fmt.Sprintf("%s/%d/%d", p.Log, p.Epoch, p.Offset)
}

func encodePosition(p *ledger.Position, delivery []byte) []byte {
	if p == nil {
		return nil
	}
	var s storedPosition
	if name := []byte(p.Log); string(delivery) != positionName(p) {
		s.Log, s.Epoch, s.Offset = &name, p.Epoch, p.Offset
	}
	if p.Prev != p.Offset-1 {
		s.Prev = &p.Prev
	}
	b, _ := json.Marshal(s) // text and numbers have no way to fail
	return b
}

func decodePosition(b, delivery []byte) (*ledger.Position, error) {
	if b == nil {
		return nil, nil
	}
	var s storedPosition
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("postgres: the stored position cannot be read: %w", err)
	}
	p := &ledger.Position{Epoch: s.Epoch, Offset: s.Offset}
	if s.Log != nil {
		p.Log = string(*s.Log)
	} else if err := parsePosition(p, delivery); err != nil {
		return nil, err
	}
	p.Prev = p.Offset - 1
	if s.Prev != nil {
		p.Prev = *s.Prev
	}
	return p, nil
}

// original is a delivery's name without what reopenings ([acts.ReopenedDelivery]) have put before it.
func original(delivery []byte) []byte {
	for {
		rest, renamed := bytes.CutPrefix(delivery, []byte("reopened:"))
		token, name, ok := bytes.Cut(rest, []byte(":"))
		if _, err := strconv.ParseUint(string(token), 10, 64); !renamed || !ok || err != nil {
			return delivery
		}
		delivery = name
	}
}

// parsePosition reads positionName.
func parsePosition(p *ledger.Position, delivery []byte) error {
	log, offset, _ := cutLast(string(original(delivery)))
	log, epoch, ok := cutLast(log)
	number, err := strconv.ParseInt(epoch, 10, 32)
	p.Log, p.Epoch = log, int32(number)
	if ok && err == nil {
		p.Offset, err = strconv.ParseInt(offset, 10, 64)
	}
	if !ok || err != nil {
		return fmt.Errorf("postgres: the stored position cannot be read: it is said to be that of delivery %q", delivery)
	}
	return nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	return s[:max(i, 0)], s[i+1:], i >= 0
}

// logKey is a log as it is stored.
func logKey(l ranges.Log) int64 { return int64(binary.BigEndian.Uint64(l[:])) }

func logOf(key int64) (l ranges.Log) {
	binary.BigEndian.PutUint64(l[:], uint64(key))
	return l
}

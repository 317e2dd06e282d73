package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// The two workers name their scopes and deliveries as this file reads them; tests with both hold that.

// Scope is the name of the ledger's scope of a consumer (Kafka: a group) of a source, as in consumer.Message.Source: a
// queue's ARN, or `cluster/topic`.
func Scope(source, consumer string) string {
	if isARN(source) {
		return "sqs:" + source + "/" + consumer
	}
	cluster, topic := cutLast(source, '/')
	return "kafka:" + url.PathEscape(cluster) + "/" + topic + "/" + consumer
}

// ParseScope is the opposite of [Scope].
func ParseScope(scope string) (source, consumer string, ok bool) {
	if rest, is := strings.CutPrefix(scope, "sqs:"); is {
		source, consumer, ok = strings.Cut(rest, "/")
		return source, consumer, ok
	}
	rest, is := strings.CutPrefix(scope, "kafka:")
	parts := strings.SplitN(rest, "/", 3)
	if !is || len(parts) != 3 {
		return "", "", false
	}
	cluster, err := url.PathUnescape(parts[0])
	return cluster + "/" + parts[1], parts[2], err == nil
}

func isARN(source string) bool { return strings.HasPrefix(source, "arn:") }

// cutLast cuts a text at the last of a separator; without one, all is behind it.
func cutLast(s string, sep byte) (before, after string) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return "", s
	}
	return s[:i], s[i+1:]
}

// positionOf reads the id of a delivery from Kafka: the log, the leader epoch and the offset. It is nil for any other.
func positionOf(delivery []byte) *ledger.Position {
	s := string(delivery)
	if rest, ok := strings.CutPrefix(s, "reopened:"); ok {
		_, s, _ = strings.Cut(rest, ":")
	}
	s, offset := cutLast(s, '/')
	log, epoch := cutLast(s, '/')
	o, err := strconv.ParseInt(offset, 10, 64)
	if err != nil || o < 0 || strings.Count(log, "/") != 2 {
		return nil
	}
	e, err := strconv.ParseInt(epoch, 10, 32)
	if err != nil {
		return nil
	}
	return &ledger.Position{Log: log, Epoch: int32(e), Offset: o, Prev: -1}
}

// completeKey finds what a stored key was made of, so that a stamp can name it: its id alone, or a position, which the
// failed delivery names, or the stamp of a copy that failed. What it returns has the same stored bytes; false: it is not
// found.
func completeKey(stored ledger.Key, delivery []byte, headers []ledger.Header) (ledger.Key, bool) {
	sum := stored.Sum()
	key := ledger.Key{Scope: stored.Scope, ID: stored.ID}
	if key.Sum() == sum {
		return key, true
	}
	if key.Pos = positionOf(delivery); key.Pos != nil && key.Sum() == sum {
		return key, true
	}
	for _, h := range headers {
		if h.Name != consumer.StampName {
			continue
		}
		if stamp, err := consumer.ParseStamp(h.Value); err == nil && stamp.Pos != nil {
			if key.Pos = stamp.Pos; key.Sum() == sum {
				return key, true
			}
		}
	}
	return stored, false
}

// ownID is the id under which a letter is sent that is no copy of what has its id: the same whenever it is sent again.
func ownID(l *Letter) string {
	h := sha256.New()
	for _, part := range []string{l.Message.Source, l.Message.ID, string(l.Delivery)} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write([]byte(part))
	}
	fingerprint := ledger.BodyFingerprint(l.Message.Body)
	h.Write(fingerprint[:])
	return "resent-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// laneOf names what keeps its order: a FIFO group, or a Kafka key. Empty: nothing does.
func laneOf(m *consumer.Message) string {
	switch {
	case m.Group != "":
		return "group/" + m.Source + "/" + m.Group
	case m.Key != nil:
		return "key/" + m.Source + "/" + string(m.Key)
	}
	return ""
}

// ordered says that the letter's lane has an order: a group of a standard queue has none.
func (l *Letter) ordered() bool {
	m := &l.Message
	return m.Group != "" && strings.HasSuffix(m.Source, ".fifo") || m.Group == "" && m.Key != nil
}

// sizeOf is what a letter takes of the memory that a run may use.
func sizeOf(m *consumer.Message) int {
	n := 1024 + len(m.Body) + len(m.Key)
	for _, h := range m.Headers {
		n += len(h.Name) + len(h.Value) + 64
	}
	return n
}

package sqstest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/google/uuid"
)

const (
	region    = "us-east-1"
	accountID = "000000000000"
	senderID  = "AIDASQSTEST0000000000"
)

func newID() string { return uuid.Must(uuid.NewRandomFromReader(rand.Reader)).String() }

// sequenceNumber is a FIFO position as the service shows it: 20 digits.
func sequenceNumber(n uint64) string {
	return strconv.FormatUint(18_000_000_000_000_000_000+n, 10)
}

// handle is what a receipt handle says: which message of which queue, by which
// of its receives.
type handle struct {
	queue, message uint64
	generation     uint32
}

const handleBytes = 8 + 8 + 4 + 4

func (h handle) String() string {
	b := make([]byte, 0, handleBytes)
	b = binary.BigEndian.AppendUint64(b, h.queue)
	b = binary.BigEndian.AppendUint64(b, h.message)
	b = binary.BigEndian.AppendUint32(b, h.generation)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseHandle(s string) (handle, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != handleBytes ||
		binary.BigEndian.Uint32(b[20:]) != crc32.ChecksumIEEE(b[:20]) {
		return handle{}, false
	}
	return handle{
		queue:      binary.BigEndian.Uint64(b),
		message:    binary.BigEndian.Uint64(b[8:]),
		generation: binary.BigEndian.Uint32(b[16:]),
	}, true
}

// lookup finds the message that a handle of q names. A nil message without an
// error is one that is gone, or was moved to another queue.
func (s *Server) lookup(q *queue, text string) (m *message, h handle, moved bool, err *apiError) {
	if text == "" {
		return nil, h, false, errMissing("ReceiptHandle")
	}
	h, ok := parseHandle(text)
	if !ok || h.queue != q.serial {
		return nil, h, false, errHandle(text)
	}
	m = s.messages[h.message]
	if m != nil && m.queue != q {
		return nil, h, true, nil
	}
	return m, h, false, nil
}

// stale says whether a handle is not the newest, or its visibility is over.
func (m *message) stale(h handle) bool {
	return h.generation != m.generation || m.state != inFlight
}

// deleteByHandle is DeleteMessage. See the package comment on stale handles.
func (s *Server) deleteByHandle(q *queue, text string) (id string, err *apiError) {
	m, h, moved, err := s.lookup(q, text)
	switch {
	case err != nil:
		return "", err
	case q.fifo && (moved || m != nil && m.stale(h)):
		return "", errExpired(text)
	case m == nil:
		return "", nil // gone already: the request succeeds
	case h.generation != m.generation && !s.options.StaleDelete:
		return m.id, nil
	}
	q.drop(m)
	return m.id, nil
}

// changeVisibility is ChangeMessageVisibility.
func (s *Server) changeVisibility(q *queue, text string, timeoutSeconds int, now time.Time) (id string, err *apiError) {
	if timeoutSeconds < 0 || timeoutSeconds > int(maxVisibility/time.Second) {
		return "", errValue("VisibilityTimeout", timeoutSeconds, "VisibilityTimeout must be an integer between 0 and 43200.")
	}
	timeout := time.Duration(timeoutSeconds) * time.Second
	m, h, moved, err := s.lookup(q, text)
	switch {
	case err != nil:
		return "", err
	case q.fifo && (moved || m != nil && m.stale(h)):
		return "", errExpired(text)
	case m == nil:
		return "", errValue("ReceiptHandle", text, "Message does not exist or is not available for visibility timeout change.")
	case m.state != inFlight:
		return m.id, fail(legacy+"MessageNotInflight", "The message referred to is not in flight.")
	case now.Add(timeout).Sub(m.received) > maxVisibility:
		return m.id, errValue("VisibilityTimeout", timeoutSeconds, "Total VisibilityTimeout for the message is beyond the limit [43200 seconds].")
	}
	q.hold(m, inFlight, now.Add(timeout))
	q.advance(now)
	return m.id, nil
}

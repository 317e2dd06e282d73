package sqstest

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Quotas of the service (developer guide, "Amazon SQS message quotas").
const (
	maxMessageBytes  = 1 << 20 // a message with its attributes, and a whole batch
	maxAttributes    = 10
	maxNameLength    = 256
	maxTokenLength   = 128 // group and deduplication ids
	maxBatchEntries  = 10
	maxVisibility    = 12 * time.Hour
	maxDelaySeconds  = 900
	maxWaitSeconds   = 20
	dedupWindow      = 5 * time.Minute
	dedupEntryBytes  = 128 // what a remembered deduplication id is counted with
	defaultInFlight  = 120_000
	defaultMaxBytes  = 256 << 20
	maxRequestBytes  = 8 << 20 // a batch of 1 MiB whose every byte is escaped
	messageOverhead  = 512     // what a message is counted with beside its content
	maxMoveTasksKept = 10
)

type state uint8

const (
	visible state = iota
	delayed
	inFlight
	gone
)

// message is one stored message. The server's lock guards it.
type message struct {
	serial  uint64 // server-wide; what receipt handles name
	id      string
	content content
	queue   *queue
	state   state

	sequence   uint64    // FIFO: position, shown as SequenceNumber
	sent       time.Time // retention counts from here
	due        time.Time // delayed or in flight: visible from here on
	received   time.Time // latest receive: the 12 h cap counts from here
	first      time.Time // first receive in any queue
	receives   int       // in all queues
	here       int       // in this queue: what maxReceiveCount is held against
	generation uint32    // of the newest receipt handle
	source     string    // ARN of the queue it was dead-lettered from

	on               *chain
	prev, next       *message
	flying           bool   // counted in its group's inFlight
	counted          state  // as what its tenant counts it
	shown            uint64 // the order in which messages became visible
	dueAt, retainsAt int    // places in the queue's timelines
}

// content is what the sender gave, checked, with its digests.
type content struct {
	body       string
	bodyMD5    string
	attributes map[string]attribute
	system     map[string]attribute
	group      string
	dedup      string
	size       int // body and attributes, as the service counts them
}

// attribute is a message attribute as it travels.
type attribute struct {
	DataType    string
	StringValue *string `json:",omitempty"`
	BinaryValue []byte  `json:",omitempty"`
}

func (a attribute) binary() bool { return baseType(a.DataType) == "Binary" }

func baseType(dataType string) string {
	base, _, _ := strings.Cut(dataType, ".")
	return base
}

func (a attribute) value() []byte {
	if a.binary() || a.StringValue == nil {
		return a.BinaryValue
	}
	return []byte(*a.StringValue)
}

// digest is the MD5 of attributes as SDKs check it (developer guide,
// "Calculating the MD5 message digest for message attributes"): by name, each of
// name, type and value behind its length in four bytes, and a byte between type
// and value that says text (1) or binary (2).
func digest(attributes map[string]attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	hash := md5.New()
	part := func(b []byte) {
		hash.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		hash.Write(b)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		part([]byte(name))
		part([]byte(a.DataType))
		kind := byte(1)
		if a.binary() {
			kind = 2
		}
		hash.Write([]byte{kind})
		part(a.value())
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func bodyDigest(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// prepare checks what does not depend on a queue and computes the digest.
func prepare(in *sendEntry) (content, *apiError) {
	c := content{
		body: in.MessageBody, attributes: in.MessageAttributes, system: in.MessageSystemAttributes,
		group: in.MessageGroupId, dedup: in.MessageDeduplicationId,
	}
	if in.MessageBody == "" {
		return c, errMissing("MessageBody")
	}
	if r, at, bad := forbidden(in.MessageBody); bad {
		return c, fail("InvalidMessageContents", "Character #x%X at byte %d is not allowed in a message.", r, at)
	}
	if n := len(in.MessageAttributes); n > maxAttributes {
		return c, errValue("MessageAttributes", n, "Number of message attributes exceeds the allowed maximum of 10.")
	}
	if err := checkToken("MessageGroupId", in.MessageGroupId); err != nil {
		return c, err
	}
	if err := checkToken("MessageDeduplicationId", in.MessageDeduplicationId); err != nil {
		return c, err
	}
	c.size = len(in.MessageBody)
	for name, a := range in.MessageAttributes {
		if err := checkAttribute(name, a); err != nil {
			return c, err
		}
		c.size += len(name) + len(a.DataType) + len(a.value())
	}
	for name, a := range in.MessageSystemAttributes {
		if name != "AWSTraceHeader" || a.DataType != "String" || a.StringValue == nil {
			return c, errValue("MessageSystemAttributes", name, "Only AWSTraceHeader of type String is allowed.")
		}
	}
	c.bodyMD5 = bodyDigest(in.MessageBody)
	return c, nil
}

// forbidden finds the first character that a message must not contain: allowed
// are #x9, #xA, #xD, #x20-#xD7FF, #xE000-#xFFFD, #x10000-#x10FFFF (API
// reference, SendMessage).
func forbidden(s string) (r rune, at int, found bool) {
	for i, r := range s {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return r, i, true
		}
	}
	return 0, 0, false
}

// checkToken holds group and deduplication ids to printable ASCII without space.
func checkToken(parameter, value string) *apiError {
	if len(value) > maxTokenLength {
		return errValue(parameter, value, "It can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return errValue(parameter, strconv.Quote(value), "It can only include alphanumeric and punctuation characters. 1 to 128 in length.")
		}
	}
	return nil
}

var attributeName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

func checkAttribute(name string, a attribute) *apiError {
	lower := strings.ToLower(name)
	if len(name) > maxNameLength || !attributeName.MatchString(name) ||
		strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") {
		return errValue("MessageAttributes", strconv.Quote(name), "Invalid message attribute name.")
	}
	if len(a.DataType) > maxNameLength {
		return errValue("MessageAttributes", strconv.Quote(name), "The type is longer than 256 characters.")
	}
	base := baseType(a.DataType)
	switch base {
	case "String", "Number":
		if a.StringValue == nil || *a.StringValue == "" || a.BinaryValue != nil {
			return errValue("MessageAttributes", name, "Must contain a non-empty string value and no binary one for type "+base+".")
		}
		if _, _, bad := forbidden(*a.StringValue); bad {
			return errValue("MessageAttributes", name, "The value contains a character that is not allowed.")
		}
	case "Binary":
		if len(a.BinaryValue) == 0 || a.StringValue != nil {
			return errValue("MessageAttributes", name, "Must contain a non-empty binary value and no string one for type Binary.")
		}
	default:
		return errValue("MessageAttributes", name, "The type must be String, Number or Binary, with an optional label.")
	}
	if base == "Number" {
		if _, err := strconv.ParseFloat(*a.StringValue, 64); err != nil {
			return errValue("MessageAttributes", name, "Can't cast the value to a number.")
		}
	}
	return nil
}

// chosen are the attributes a receive asked for: All, .*, prefix.* or a name.
func chosen(all map[string]attribute, wanted []string) map[string]attribute {
	if len(all) == 0 || len(wanted) == 0 {
		return nil
	}
	out := map[string]attribute{}
	for _, w := range wanted {
		if w == "All" || w == ".*" {
			return all
		}
		prefix, isPrefix := strings.CutSuffix(w, ".*")
		for name, a := range all {
			if name == w || isPrefix && strings.HasPrefix(name, prefix) {
				out[name] = a
			}
		}
	}
	return out
}

// systemAttributes are the attributes the service keeps of a message.
func (m *message) systemAttributes(wanted []string) map[string]string {
	if len(wanted) == 0 {
		return nil
	}
	all := slices.Contains(wanted, "All")
	out := map[string]string{}
	put := func(name, value string) {
		if value != "" && (all || slices.Contains(wanted, name)) {
			out[name] = value
		}
	}
	put("SenderId", senderID)
	put("SentTimestamp", millis(m.sent))
	put("ApproximateReceiveCount", strconv.Itoa(m.receives))
	put("ApproximateFirstReceiveTimestamp", millis(m.first))
	put("MessageGroupId", m.content.group)
	put("DeadLetterQueueSourceArn", m.source)
	if m.queue.fifo {
		put("MessageDeduplicationId", m.content.dedup)
		put("SequenceNumber", sequenceNumber(m.sequence))
	}
	if trace, ok := m.content.system["AWSTraceHeader"]; ok {
		put("AWSTraceHeader", *trace.StringValue)
	}
	return out
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

package engine_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

var origin = engine.Origin{Scope: "group/topic", Source: "cluster/topic", Group: "group", Pos: &ledger.Position{Log: "log", Offset: 7}}

func message(body []byte, stamps ...consumer.Stamp) *consumer.Message {
	m := &consumer.Message{ID: "topic-0-7", Body: body}
	for _, s := range stamps {
		m.Headers = append(m.Headers, consumer.Header{Name: consumer.StampName, Value: []byte(s.String())})
	}
	return m
}

func TestIdentityOfTheBroker(t *testing.T) {
	m := message([]byte("body"))
	id := engine.Identify(&consumer.Options{}, origin, m)
	if string(id.Key.ID) != "topic-0-7" || id.Key.Scope != origin.Scope || id.Key.Pos != origin.Pos || m.ID != "topic-0-7" {
		t.Errorf("key %v, message %s", id.Key, m.ID)
	}
	if id.Fingerprint != ledger.BodyFingerprint(m.Body) || id.Invalid != nil || id.Skip || id.StampToken != 0 {
		t.Errorf("identity %+v", id)
	}
}

// The broker's own id is no better than KeyFunc's, though a stamp says it: unless there is no KeyFunc, or none for this one.
func TestIdentityOfAStampByTheBroker(t *testing.T) {
	moved := consumer.NewStamp(origin.Source, "message id", []byte("body"))
	moved.Broker = true
	for want, keyFunc := range map[string]func(*consumer.Message) (string, error){
		"message id":     nil,
		"key message id": func(m *consumer.Message) (string, error) { return "key " + m.ID, nil },
	} {
		m := message([]byte("body"), moved)
		id := engine.Identify(&consumer.Options{KeyFunc: keyFunc}, origin, m)
		if string(id.Key.ID) != want || m.ID != want || id.Invalid != nil || id.StampToken != 0 {
			t.Errorf("want %q: identity %+v, message %s", want, id, m.ID)
		}
	}
	id := engine.Identify(&consumer.Options{KeyFunc: func(*consumer.Message) (string, error) { return "", errors.New("no") }}, origin, message([]byte("body"), moved))
	if string(id.Key.ID) != "message id" || id.Invalid == nil {
		t.Errorf("refused by KeyFunc: %+v", id)
	}
}

func TestIdentityOfAStamp(t *testing.T) {
	body := []byte("body")
	good := consumer.NewStamp(origin.Source, "topic-0-5", body)
	good.Token, good.Pos = 9, &ledger.Position{Log: "old log/0", Epoch: 2, Offset: 5, Prev: -1}
	m := message(body, good)
	id := engine.Identify(&consumer.Options{KeyFunc: func(*consumer.Message) (string, error) { return "never", nil }}, origin, m)
	if string(id.Key.ID) != "topic-0-5" || *id.Key.Pos != *good.Pos || id.StampToken != 9 || m.ID != "topic-0-5" || id.Skip {
		t.Errorf("identity %+v, message %s", id, m.ID)
	}
	with := func(change func(*consumer.Stamp)) consumer.Stamp {
		s := good
		change(&s)
		return s
	}
	for name, m := range map[string]*consumer.Message{
		"other source":   message(body, with(func(s *consumer.Stamp) { s.Source = "cluster/other" })),
		"other body":     message([]byte("another"), good),
		"empty body":     message([]byte{}, consumer.NewStamp(origin.Source, "original", nil)),
		"nil body":       message(nil, consumer.NewStamp(origin.Source, "original", []byte{})),
		"other id":       message(body, with(func(s *consumer.Stamp) { s.ID = "topic-0-6" })),
		"id too long":    message(body, with(func(s *consumer.Stamp) { s.ID = strings.Repeat("x", ledger.MaxID+1) })),
		"last one wins":  message(body, good, with(func(s *consumer.Stamp) { s.Source = "cluster/other" })),
		"not a stamp":    {ID: "topic-0-7", Body: body, Headers: []consumer.Header{{Name: consumer.StampName, Value: []byte("%zz")}}},
		"empty stamp":    {ID: "topic-0-7", Body: body, Headers: []consumer.Header{{Name: consumer.StampName}}},
		"other spelling": {ID: "topic-0-7", Body: body, Headers: []consumer.Header{{Name: "ackledger-ID", Value: []byte(good.String())}}},
	} {
		id := engine.Identify(&consumer.Options{}, origin, m)
		if string(id.Key.ID) != "topic-0-7" || id.Key.Pos != origin.Pos || id.StampToken != 0 || id.Skip || id.Invalid != nil {
			t.Errorf("%s: the stamp counts: %+v", name, id)
		}
	}
}

// The longest id that the ledger takes counts.
func TestStampOfTheLongestID(t *testing.T) {
	long := strings.Repeat("x", ledger.MaxID)
	m := message([]byte("body"), consumer.NewStamp(origin.Source, long, []byte("body")))
	if id := engine.Identify(&consumer.Options{}, origin, m); string(id.Key.ID) != long || m.ID != long {
		t.Errorf("its identity is %+v", id)
	}
}

func TestStampOfAnotherGroup(t *testing.T) {
	body := []byte("body")
	for _, c := range []struct {
		stamp, group, source string
		skip                 bool
	}{
		{"", "group", origin.Source, false},
		{"group", "group", origin.Source, false},
		{"other", "group", origin.Source, true},
		{"other", "group", "cluster/another topic", false}, // copied by a service: nobody skips it
		{"other", "", origin.Source, false},                // SQS has no groups: never swallowed
	} {
		s := consumer.NewStamp(c.source, "original", body)
		s.Group = c.stamp
		from := origin
		from.Group = c.group
		if id := engine.Identify(&consumer.Options{}, from, message(body, s)); id.Skip != c.skip {
			t.Errorf("%+v: skip is %v", c, id.Skip)
		}
	}
}

func TestKeyFunc(t *testing.T) {
	failed := errors.New("no order id")
	long := strings.Repeat("k", ledger.MaxID)
	var nothing *consumer.Message
	for _, c := range []struct {
		name    string
		f       func(*consumer.Message) (string, error)
		id, err string
	}{
		{"key", func(*consumer.Message) (string, error) { return "order 1", nil }, "order 1", ""},
		{"longest key", func(*consumer.Message) (string, error) { return long, nil }, long, ""},
		{"not text", func(*consumer.Message) (string, error) { return "\x00\xff", nil }, "\x00\xff", ""},
		{"empty", func(*consumer.Message) (string, error) { return "", nil }, "topic-0-7", "must return 1 to 1024 bytes, returned 0"},
		{"too long", func(*consumer.Message) (string, error) { return long + "k", nil }, "topic-0-7", "must return 1 to 1024 bytes, returned 1025"},
		{"error", func(*consumer.Message) (string, error) { return "x", failed }, "topic-0-7", "consumer: KeyFunc: no order id"},
		{"panic", func(*consumer.Message) (string, error) { panic("ouch") }, "topic-0-7", "consumer: KeyFunc panicked: ouch"},
		{"nil pointer", func(*consumer.Message) (string, error) { return nothing.ID, nil }, "topic-0-7", "KeyFunc panicked"},
	} {
		m := message([]byte("body"))
		id := engine.Identify(&consumer.Options{KeyFunc: c.f}, origin, m)
		if string(id.Key.ID) != c.id || m.ID != c.id {
			t.Errorf("%s: key %q, message %q, want %q", c.name, id.Key.ID, m.ID, c.id)
		}
		if (c.err == "") != (id.Invalid == nil) || c.err != "" && !strings.Contains(id.Invalid.Error(), c.err) {
			t.Errorf("%s: invalid is %v, want %q", c.name, id.Invalid, c.err)
		}
		if keyed := c.err == ""; keyed != (id.Key.Pos == nil) {
			t.Errorf("%s: position %v", c.name, id.Key.Pos)
		}
		if c.name == "error" && !errors.Is(id.Invalid, failed) {
			t.Errorf("%s: %v does not wrap it", c.name, id.Invalid)
		}
	}
}

func TestFingerprintFunc(t *testing.T) {
	canonical := func(b []byte, err error) *consumer.Options {
		return &consumer.Options{FingerprintFunc: func(*consumer.Message) ([]byte, error) { return b, err }}
	}
	body := []byte("body")
	of := func(o *consumer.Options) engine.Identity { return engine.Identify(o, origin, message(body)) }
	if got := of(canonical([]byte("c"), nil)); got.Fingerprint != ledger.NewFingerprint(body, []byte("c")) || got.Invalid != nil {
		t.Errorf("canonical: %+v", got)
	}
	if of(canonical(nil, nil)).Fingerprint == of(canonical([]byte{}, nil)).Fingerprint {
		t.Error("nil canonical bytes count as empty ones")
	}
	o := canonical(nil, errors.New("no"))
	o.KeyFunc = func(*consumer.Message) (string, error) { return "never asked", nil }
	if got := of(o); got.Invalid == nil || got.Fingerprint != ledger.BodyFingerprint(body) || string(got.Key.ID) != "topic-0-7" {
		t.Errorf("error: %+v", got)
	}
	o.FingerprintFunc = func(*consumer.Message) ([]byte, error) { panic("ouch") }
	if got := of(o); got.Invalid == nil || !strings.Contains(got.Invalid.Error(), "FingerprintFunc panicked: ouch") {
		t.Errorf("panic: %+v", got)
	}
}

// A forged stamp on another body does not count: the message runs under its own id. With a fingerprint made to fit it
// names the original's row, where it is a mismatch (the ledger's row 4). Never swallowed.
func TestPitfall22_ForgedStamp(t *testing.T) {
	original, forged := []byte("pay 1"), []byte("pay 1000")
	id := engine.Identify(&consumer.Options{}, origin, message(forged, consumer.NewStamp(origin.Source, "original", original)))
	if string(id.Key.ID) != "topic-0-7" {
		t.Errorf("a stamp counts on a body that is not its own: %+v", id)
	}
	id = engine.Identify(&consumer.Options{}, origin, message(forged, consumer.NewStamp(origin.Source, "original", forged)))
	if string(id.Key.ID) != "original" || id.Fingerprint.Agrees(ledger.BodyFingerprint(original)) {
		t.Errorf("a stamp that fits must meet the original's row with another fingerprint: %+v", id)
	}
}

// A service copies all headers of one message onto three others: all three run, under their own ids; and the target
// group that was copied onto the next topic makes nobody skip it.
func TestPitfall84_CopiedHeaders(t *testing.T) {
	stamp := consumer.NewStamp(origin.Source, "original", []byte("original"))
	stamp.Group = "other group"
	for _, body := range []string{"one", "two", "three"} {
		m := message([]byte(body), stamp)
		m.ID = body
		if id := engine.Identify(&consumer.Options{}, origin, m); string(id.Key.ID) != body || id.Skip {
			t.Errorf("copy %s: %+v", body, id)
		}
	}
	next := origin
	next.Source = "cluster/next topic"
	if id := engine.Identify(&consumer.Options{}, next, message([]byte("original"), stamp)); id.Skip || string(id.Key.ID) != "topic-0-7" {
		t.Errorf("the same body on the next topic: %+v", id)
	}
}

// A deploy changes FingerprintFunc: what was claimed before it is redelivered after it, and is no mismatch; and a stamp
// made before it still counts.
func TestPitfall94_FingerprintFuncChanges(t *testing.T) {
	body := []byte("  Body ")
	before := engine.Identify(&consumer.Options{}, origin, message(body))
	o := &consumer.Options{FingerprintFunc: func(m *consumer.Message) ([]byte, error) { return bytes.TrimSpace(m.Body), nil }}
	after := engine.Identify(o, origin, message(body))
	if before.Fingerprint == after.Fingerprint || !before.Fingerprint.Agrees(after.Fingerprint) {
		t.Errorf("before %x, after %x", before.Fingerprint, after.Fingerprint)
	}
	stamp := consumer.Stamp{Source: origin.Source, ID: "original", Fingerprint: before.Fingerprint}
	if id := engine.Identify(o, origin, message(body, stamp)); string(id.Key.ID) != "original" {
		t.Errorf("the stamp of before does not count: %+v", id)
	}
}

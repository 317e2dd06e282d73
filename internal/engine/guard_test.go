package engine_test

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// both are options with one of the user's two functions, which does the same.
func both(do func(*consumer.Message)) map[string]*consumer.Options {
	return map[string]*consumer.Options{
		"KeyFunc":         {KeyFunc: func(m *consumer.Message) (string, error) { do(m); return "key", nil }},
		"FingerprintFunc": {FingerprintFunc: func(m *consumer.Message) ([]byte, error) { do(m); return []byte("canonical"), nil }},
	}
}

// full is a message with all that a function might write to.
func full() *consumer.Message {
	return &consumer.Message{
		ID: "topic-0-7", Key: []byte("key"), Body: []byte("body"), Headers: []consumer.Header{{Name: "name", Value: []byte("value")}},
	}
}

// scribble reads and writes a message.
func scribble(m *consumer.Message) {
	m.ID, m.Group = m.ID+"x", "another"
	m.Key[0], m.Body[0], m.Headers[0].Value[0] = 'x', 'x', 'x'
	m.Headers[0].Name = "x"
	m.Headers = append(m.Headers, consumer.Header{Name: "more"})
}

// wantInvalid says that the message cannot be keyed, has the broker's identity, and is as it came.
func wantInvalid(t *testing.T, id *engine.Identity, m *consumer.Message, text string) {
	t.Helper()
	if id.Invalid == nil || !strings.Contains(id.Invalid.Error(), text) {
		t.Errorf("invalid is %v, want %q", id.Invalid, text)
	}
	if string(id.Key.ID) != "topic-0-7" || id.Fingerprint != ledger.BodyFingerprint([]byte("body")) || !reflect.DeepEqual(m, full()) {
		t.Errorf("identity %+v of %+v", id, m)
	}
}

// A function that ended its goroutine (a helper called t.FailNow) ended the one that polls.
func TestFunctionsThatEndTheirGoroutine(t *testing.T) {
	for name, o := range both(func(*consumer.Message) { runtime.Goexit() }) {
		m := full()
		id := engine.Identify(o, origin, m)
		wantInvalid(t, &id, m, "consumer: "+name+" ended its goroutine (runtime.Goexit)")
	}
}

// A function that never returned stopped the polls, and the shutdown that waits for them. Left behind, it has a message of
// its own: the race detector sees nothing.
func TestFunctionsThatDoNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, given := make(chan struct{}), []*consumer.Message{}
		for name, o := range both(func(m *consumer.Message) { <-release; scribble(m) }) {
			m, began := full(), time.Now()
			id := engine.Identify(o, origin, m)
			wantInvalid(t, &id, m, "consumer: "+name+": must return within 1m0s")
			if took := time.Since(began); took < time.Minute || took > time.Minute+5*time.Second {
				t.Errorf("%s was given up after %s", name, took)
			}
			given = append(given, m)
		}
		close(release)
		for _, m := range given {
			scribble(m) // as a handler may, while the function does
		}
	})
}

// A process that was frozen for longer than a function may take finds the limit passed, and the function to go on.
func TestFunctionsThatWereFrozen(t *testing.T) {
	for _, took := range []time.Duration{time.Minute, time.Minute + 50*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			for name, o := range both(func(*consumer.Message) { time.Sleep(took) }) {
				if id := engine.Identify(o, origin, full()); id.Invalid != nil {
					t.Errorf("%s: %v", name, id.Invalid)
				}
			}
		})
	}
}

// What a function does to the message is in its own copy, which is like the original.
func TestFunctionsHaveACopy(t *testing.T) {
	for name, o := range both(scribble) {
		m, want := full(), full()
		if o.KeyFunc != nil {
			want.ID = "key"
		}
		if id := engine.Identify(o, origin, m); id.Invalid != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%s: %v, message %+v", name, id.Invalid, m)
		}
	}
	bare := consumer.Message{ID: "topic-0-7", SentAt: time.Unix(7, 0), Received: 3, Topic: "topic", Offset: 7}
	empty := bare
	empty.Key, empty.Body, empty.Headers = []byte{}, []byte{}, []consumer.Header{{Name: "nil"}, {Name: "empty", Value: []byte{}}}
	for _, m := range []consumer.Message{*full(), bare, empty} {
		for name, o := range both(func(got *consumer.Message) {
			if !reflect.DeepEqual(*got, m) {
				t.Errorf("it gets %#v of %#v", *got, m)
			}
		}) {
			of := m
			if id := engine.Identify(o, origin, &of); id.Invalid != nil {
				t.Errorf("%s: %v", name, id.Invalid)
			}
		}
	}
}

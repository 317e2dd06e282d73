package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ackledger/ackledger/consumer"
)

// nowhere is a target.
type nowhere struct{}

func (*nowhere) Publish(context.Context, *consumer.DeadLetter) error { return nil }
func (*nowhere) Source(context.Context) (string, error)              { return "", nil }

func TestDeadLetterOptions(t *testing.T) {
	o, err := consumer.Options{DeadLetter: &nowhere{}}.WithDefaults()
	if err != nil || o.DeadLetterTries != 5 || o.DeadLetterTimeout != 5*time.Second {
		t.Errorf("%v, %+v", err, o)
	}
	for want, o := range map[string]consumer.Options{
		"Options.DeadLetter: must be a target, is a nil pointer":      {DeadLetter: (*nowhere)(nil)},
		"Options.DeadLetterTries: must be 1 to 100, is -1":            {DeadLetterTries: -1},
		"Options.DeadLetterTries: must be 1 to 100, is 101":           {DeadLetterTries: 101},
		"Options.DeadLetterTimeout: must be 100ms to 1m0s, is 99ms":   {DeadLetterTimeout: 99 * time.Millisecond},
		"Options.DeadLetterTimeout: must be 100ms to 1m0s, is 1h0m0s": {DeadLetterTimeout: time.Hour},
		"Options.DeadLetterTimeout: must be 100ms to 1m0s, is -1s":    {DeadLetterTimeout: -time.Second},
	} {
		if _, err := o.WithDefaults(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// The text that goes with a dead letter is bounded, is valid UTF-8, and never shows the body.
func TestDeadLetterError(t *testing.T) {
	for _, c := range []struct{ text, body, want string }{
		{"", "body", ""},
		{"boom", "", "boom"},
		{"cannot charge {4111}: {4111}", "{4111}", "cannot charge [body]: [body]"},
		{"not 4111", "4111", "not [body]"}, // as short as can be told
		{"not 411", "411", "not 411"},
		{"a sad case", "a", "a sad case"}, // too short to be told from any text
		{"\xff\xfe", "body", "\uFFFD"},
	} {
		if got := consumer.DeadLetterError(c.text, []byte(c.body)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	for n := consumer.MaxDeadLetterError - 5; n < consumer.MaxDeadLetterError+5; n++ {
		for _, char := range []string{"a", "é", "世", "\U0001F600"} {
			got := consumer.DeadLetterError(strings.Repeat("x", n)+strings.Repeat(char, 4), nil)
			if len(got) > consumer.MaxDeadLetterError || !utf8.ValidString(got) {
				t.Fatalf("%d and %q: %d bytes, %q", n, char, len(got), got[len(got)-10:])
			}
		}
	}
}

// A target of one's own: everything that a DeadLetterer has to do.
func ExampleDeadLetterer() {
	var target consumer.DeadLetterer = printer{}
	err := target.Publish(context.Background(), &consumer.DeadLetter{
		Message: consumer.Message{ID: "order-1", Attempt: 10}, Kind: "exhausted", Error: "connection refused",
	})
	fmt.Println(err)
	// Output:
	// order-1 failed after 10 attempts: exhausted: connection refused
	// <nil>
}

type printer struct{}

func (printer) Publish(_ context.Context, d *consumer.DeadLetter) error {
	fmt.Printf("%s failed after %d attempts: %s: %s\n", d.Message.ID, d.Message.Attempt, d.Kind, d.Error)
	return nil
}

func (printer) Source(context.Context) (string, error) { return "", nil } // nobody consumes what is printed

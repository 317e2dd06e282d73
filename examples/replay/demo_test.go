package main

import (
	"strings"
	"testing"
)

func TestTheDemo(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), "", &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"230 replayed", "20 succeeded already", "233 replayed", "17 succeeded already", "each of 500 orders"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// The audit is what makes the demo a proof: it must see each way in which an order can go wrong.
func TestTheAuditSeesWhatIsWrong(t *testing.T) {
	whole := map[string]int{"sqs-order-0000": 1, "kafka-order-0000": 1}
	if once, err := verdict(whole, 1); once != 2 || err != nil {
		t.Errorf("%d, %v", once, err)
	}
	for _, wrong := range []map[string]int{
		{"sqs-order-0000": 1}, {"sqs-order-0000": 2, "kafka-order-0000": 1}, {"sqs-order-0000": 1, "kafka-order-0000": 1, "order": 1},
	} {
		if _, err := verdict(wrong, 1); err == nil {
			t.Errorf("%v passes", wrong)
		}
	}
}

func TestTheSettingsAreWise(t *testing.T) {
	t.Parallel()
	o, err := options("demo", nil).WithDefaults()
	if got := o.Warnings(0); err != nil || len(got) > 0 {
		t.Errorf("%v, %q", err, got)
	}
}

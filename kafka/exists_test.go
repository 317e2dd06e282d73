package kafka

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// logs answers a horizon's questions, and counts them.
type logs struct {
	extent
	err   error
	asked int
}

func (l *logs) ask(context.Context, string) (extent, error) { l.asked++; return l.extent, l.err }

// sight is an assignment of partition 0 of a topic, whose horizon asks these logs.
func (l *logs) sight() (*horizon, *assignment) {
	h := newHorizon(zap.NewNop(), l.ask)
	a := newAssignment(place{Topic: "orders", Partition: 0}, topicID{1}, LogName("c", "orders", topicID{1}, 0))
	a.horizon = h
	return h, a
}

func TestWhatIsKnownToExist(t *testing.T) {
	l := &logs{extent: extent{topicID{1}, map[int32]end{0: {100, 4}, 1: {50, 3}, 2: silent, 3: {50, -1}, 4: {0, 0}}}}
	_, a := l.sight()
	d := &delivery{of: a, pos: ledger.Position{Log: a.log, Epoch: 2, Offset: 7}}
	log := func(partition int32) string { return LogName("c", "orders", topicID{1}, partition) }
	for _, c := range []struct {
		name   string
		log    string
		epoch  int32
		offset int64
		want   bool
	}{
		{"before it", log(0), 2, 6, true},
		{"before it, of an epoch before", log(0), 1, 0, true},
		{"before it, of an epoch to come", log(0), 3, 6, false},
		{"itself", log(0), 2, 7, false},
		{"behind it, though it is there by now", log(0), 2, 8, false},
		{"the last of another partition", log(1), 3, 49, true},
		{"the next of another partition", log(1), 3, 50, false},
		{"the highest that there can be", log(1), 3, ledger.MaxOffset, false},
		{"of an epoch to come", log(1), 4, 10, false},
		{"of a partition that does not say", log(2), 9, 1 << 40, true},
		{"of a partition without epochs", log(3), 9, 49, true},
		{"of one without epochs, to come", log(3), 0, 50, false},
		{"of an empty partition", log(4), 0, 0, false},
		{"of no partition", log(5), 0, 0, false},
		{"of the topic's former life", LogName("c", "orders", topicID{2}, 1), 0, 0, false},
		{"by the topic's name", LogName("c", "orders", topicID{}, 1), 0, 0, false},
		{"of another cluster", LogName("d", "orders", topicID{1}, 1), 0, 0, false},
		{"of no partition's name", log(0) + "/", 0, 0, false},
		{"of another spelling", log(0)[:len(log(0))-1] + "00", 0, 0, false},
		{"with a sign", log(0)[:len(log(0))-1] + "+1", 0, 0, false},
		{"below zero", log(0)[:len(log(0))-1] + "-1", 0, 0, false},
		{"beyond all partitions", log(0)[:len(log(0))-1] + strconv.Itoa(1<<40), 0, 0, false},
		{"no log", "", 0, 0, false},
	} {
		if got := d.Exists(&ledger.Position{Log: c.log, Epoch: c.epoch, Offset: c.offset}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	a.horizon = nil
	if d.Exists(&ledger.Position{Log: log(1), Epoch: 3, Offset: 49}) {
		t.Error("without a horizon another partition's record counts")
	}
}

// A flood of forged stamps costs one question in a poll. What is known to be there costs none.
func TestForgedStampsCostOneQuestionAPoll(t *testing.T) {
	l := &logs{extent: extent{topicID{1}, map[int32]end{1: {50, 3}}}}
	h, a := l.sight()
	for poll := 1; poll <= 3; poll++ {
		h.begin(t.Context())
		for offset := int64(0); offset < 1000; offset++ {
			if got, want := h.reaches(a.Topic, a.id, 1, offset, 3), offset < l.ends[1].offset; got != want {
				t.Fatalf("offset %d: %v", offset, got)
			}
			h.reaches(a.Topic, a.id, int32(offset), 0, 9)
		}
		if l.asked != poll {
			t.Fatalf("asked %d times in %d polls", l.asked, poll)
		}
		l.ends = map[int32]end{1: {50 + int64(poll), 3}}
	}
	h.begin(t.Context())
	if h.reaches(a.Topic, a.id, 1, 30, 3); l.asked != 3 {
		t.Error("asked for what is known to be there")
	}
	if !h.reaches(a.Topic, a.id, 1, 52, 3) || l.asked != 4 {
		t.Error("what came since does not count")
	}
}

// A copy of a failed record must not become another message because the cluster does not answer. Nor is it asked in each poll.
func TestWhoDoesNotGetToKnowTakesTheStamp(t *testing.T) {
	for name, l := range map[string]*logs{
		"no answer":                        {err: errors.New("away")},
		"of a topic that was created anew": {extent: extent{topicID{2}, map[int32]end{1: {0, 0}}}},
		"a partition without a leader":     {extent: extent{topicID{1}, map[int32]end{1: silent}}},
	} {
		h, a := l.sight()
		for range 3 {
			h.begin(t.Context())
			if !h.reaches(a.Topic, a.id, 1, 10, 0) {
				t.Errorf("%s: refused", name)
			}
		}
		if l.asked != 1 {
			t.Errorf("%s: asked %d times", name, l.asked)
		}
	}
}

package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/storage"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// found is what the ledger lacks of the site's group, which is one partition.
func (s *site) found(l RecoverLedger) []Committed {
	s.t.Helper()
	list, err := FindCommitted(s.t.Context(), []kgo.Opt{kgo.SeedBrokers(s.brokers...)}, l, 0)
	if err != nil || len(list) != 1 || list[0].Group != s.group {
		s.t.Fatalf("found %+v, %v", list, err)
	}
	return list
}

func (s *site) setBack(list []Committed, l *named) error {
	return SetBack(s.t.Context(), []kgo.Opt{kgo.SeedBrokers(s.brokers...)}, list, l.id)
}

// A ledger was restored, and its workers went on at commits that are ahead of it: what lies between was lost. The id of the ledger's new
// epoch is another one's to them until the group is set back, and the workers of before are refused from then on.
func TestPitfall216_WorkersOfTheEpochAfter(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		before, b := newNamed("one"), newBook()
		s.send(0, numbers("", 10)...)
		first := s.startOf(before, b.handle, nil)
		s.caughtUp()
		first.end()
		b.once(t, numbers("", 10))

		restored, again := newNamed(storage.InEpoch("one", 1, 7)), newBook() // the backup has nothing of it
		s.startOf(restored, again.handle, nil).isRefused("ledger, one;", `ledger is "one-r1-00000007"`, "ackledger recover")
		list := s.found(restored)
		if c := list[0]; !c.Unseen || c.Offset != 10 || c.LedgerID != "one" {
			t.Fatalf("found %+v", c)
		}
		list[0].Back = list[0].Start
		if err := s.setBack(list, restored); err != nil {
			t.Fatal(err)
		}
		s.startOf(before, b.handle, nil).isRefused("ledger, one-r1-00000007;", "ackledger recover")
		second := s.startOf(restored, again.handle, nil)
		s.caughtUp()
		second.end()
		again.once(t, numbers("", 10))
		b.once(t, numbers("", 10))
	})
}

// A ledger of two clusters was restored twice, the second time to before its first recovery, and recovered for the second cluster alone: it
// had the first one's epoch again. Its workers went on from where they were, past what the restore had lost.
func TestPitfall219_TheSameEpochTwice(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		first, b := newNamed(storage.InEpoch("one", 1, 7)), newBook()
		s.send(0, numbers("", 10)...)
		w := s.startOf(first, b.handle, nil)
		s.caughtUp()
		w.end()
		b.once(t, numbers("", 10))

		again := newBook()
		s.startOf(newNamed(storage.InEpoch("one", 1, 8)), again.handle, nil).isRefused("ledger, one-r1-00000007;", "ackledger recover")
	})
}

// A group was set to where it was to go back to, as it had been found; but it had committed something before that since, and was set
// forward: what lies between was lost.
func TestPitfall217_CommittedSinceItWasFound(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		l := newNamed("one")
		s.send(0, numbers("", 10)...)
		w := s.startOf(l, newBook().handle, nil)
		s.caughtUp()
		w.end()
		list := s.found(l)
		note := s.committedNote(10)
		for _, o := range []kadm.Offset{{At: 3, LeaderEpoch: -1, Metadata: note}, {At: 10, LeaderEpoch: -1, Metadata: "by hand"}} {
			o.Topic = s.topic
			s.commits(o)
			if err := s.setBack(list, l); err == nil || !strings.Contains(err.Error(), "was at 10") {
				t.Errorf("set back over %d %q: %v", o.At, o.Metadata, err)
			}
			if is := s.committedNote(o.At); is != o.Metadata {
				t.Errorf("the commit of %d says %q", o.At, is)
			}
		}
		s.commits(kadm.Offset{Topic: s.topic, At: 3, LeaderEpoch: -1, Metadata: note})
		if err := s.setBack(s.found(l), l); err != nil {
			t.Error(err)
		}
		s.committedNote(3)
		if _, err := s.adm.DeleteGroup(t.Context(), s.group); err != nil {
			t.Fatal(err)
		}
		if err := s.setBack(list, l); err == nil {
			t.Error("a group that has gone was set back")
		}
	})
}

// What a ledger had parked was no finished record to recover: it set the group back behind it, and all since then ran once more.
func TestPitfall251_RecoveredBehindTheParked(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		l, b := newNamed("one"), newBook()
		s.send(0, numbers("", 10)...)
		c := quick()
		c.Order = OrderNone
		w := s.startOf(l, func(ctx context.Context, m *consumer.Message) error {
			if err := b.handle(ctx, m); err != nil || m.Offset != 3 {
				return err
			}
			return consumer.RetryAfter(errors.New("not now"), time.Hour)
		}, c)
		s.caughtUp() // past the one that is parked
		w.end()
		if c := s.found(l)[0]; c.Unseen || c.Offset != 10 || c.Back != 10 || c.Unfinished != 0 {
			t.Errorf("found %+v", c)
		}
	})
}

// commits has an operator set the group's offset.
func (s *site) commits(o kadm.Offset) {
	s.t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(o)
	if err := s.adm.CommitAllOffsets(s.t.Context(), s.group, offsets); err != nil {
		s.t.Fatal(err)
	}
}

// committedNote is the metadata of the group's commit, which must be of that offset.
func (s *site) committedNote(at int64) string {
	s.t.Helper()
	all, err := s.adm.FetchOffsets(context.WithoutCancel(s.t.Context()), s.group)
	if err != nil {
		s.t.Fatal(err)
	}
	o, _ := all.Lookup(s.topic, 0)
	if o.At != at {
		s.t.Errorf("the group has committed %d, want %d", o.At, at)
	}
	return o.Metadata
}

package kafka

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stamped is a record with a stamp for a place in the topic, of its own value.
func (s *site) stamped(r *running, partition int32, value string, of ledger.Position, in int32) *kgo.Record {
	st := consumer.NewStamp(r.cluster+"/"+s.topic, recordID(s.topic, in, of.Offset), []byte(value))
	st.Pos = &of
	return withStamp(&kgo.Record{Topic: s.topic, Partition: partition, Value: []byte(value)}, st)
}

func withStamp(r *kgo.Record, st consumer.Stamp) *kgo.Record {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: consumer.StampName, Value: []byte(st.String())})
	return r
}

// A producer knows where the next records will stand, and sends others with stamps for these places. They ran under the
// names of the records to come, which were archived as mismatches when they came, and never ran.
func TestPitfall126_StampOfARecordYetToCome(t *testing.T) { onBoth(t, 2, stampOfARecordYetToCome) }

func stampOfARecordYetToCome(s *site) {
	t := s.t
	b := newBook()
	r := s.start(b.handle, nil, kgo.MetadataMaxAge(200*time.Millisecond)) // a partition is added
	want := numbers("first-", 10)
	s.send(0, want[:5]...)
	s.send(1, want[5:]...)
	s.caughtUp()
	for i, c := range []struct{ from, of int32 }{{1, 0}, {0, 0}, {0, 1}, {1, 2}} { // the last is of a partition that is to be added
		place := *s.key(r, c.of, 0, s.ends()[c.of].Offset).Pos
		if c.from == c.of {
			place.Offset += 20 // behind what is sent here
		}
		for n := range 20 {
			value := fmt.Sprintf("forged-%d-%d", i, n)
			s.sendRecords(s.stamped(r, c.from, value, place, c.of))
			want = append(want, value)
			place.Offset++
		}
		s.caughtUp()
		if c.of == 2 {
			if _, err := s.adm.UpdatePartitions(t.Context(), 3, s.topic); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the broker has the partition", func() bool { return len(s.ends()) == 3 })
			s.prod.PurgeTopicsFromClient(s.topic)
		}
		genuine := numbers(fmt.Sprintf("genuine-%d-", i), 20)
		want = append(want, genuine...)
		s.send(c.of, genuine...)
		s.caughtUp()
	}
	r.end()
	b.once(t, want)
}

// Whose stamps count is the worker's to say, whatever holds its records: a copy whose stamp counts is done already, any other one is
// a message of its own. While keys change, what the old one has signed counts.
func TestWhoseStampsCount(t *testing.T) {
	key := func(id string, fill byte) consumer.StampKey {
		return consumer.StampKey{ID: id, Secret: bytes.Repeat([]byte{fill}, 32)}
	}
	gone, old, next := key("gone", 1), key("old", 2), key("next", 3)
	copies := []struct {
		value    string
		by       []consumer.StampKey
		withKeys bool
	}{
		{"unsigned", nil, false},
		{"signed", []consumer.StampKey{next}, true},
		{"signed with the old key", []consumer.StampKey{old}, true},
		{"signed with a key that is gone", []consumer.StampKey{gone}, false},
		{"signed with another key of that name", []consumer.StampKey{key("next", 4)}, false},
	}
	for name, stamps := range map[string]consumer.Stamps{
		"by default": {}, "ignored": {Ignore: true}, "with keys": {Keys: []consumer.StampKey{next, old}},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, audit Audit) {
				s := fakeSite(t, 2).with(audit)
				b, c := newBook(), quick()
				c.Stamps = stamps
				r := s.start(b.handle, c)
				for _, of := range copies {
					s.send(0, of.value)
				}
				s.caughtUp()
				for i, of := range copies {
					st := consumer.NewStamp(r.cluster+"/"+s.topic, recordID(s.topic, 0, int64(i)), []byte(of.value))
					st.Pos = s.key(r, 0, 0, int64(i)).Pos
					s.sendRecords(withStamp(&kgo.Record{Topic: s.topic, Partition: 1, Value: []byte(of.value)}, st.Sign(of.by...)))
				}
				s.caughtUp()
				r.end()
				for _, of := range copies {
					want := 2
					if name == "by default" || name == "with keys" && of.withKeys {
						want = 1
					}
					if got := b.runs[of.value]; got != want {
						t.Errorf("%s: handled %d times, want %d", of.value, got, want)
					}
				}
			})
		})
	}
}

// A topic is deleted and created again. A letter of its former life hides nothing of this one's, but no worker takes its
// stamp, and would run each copy as another message: it is not sent.
func TestLetterOfATopicsFormerLifeIsNotSent(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1, kfake.ClusterID("c"))
	s.send(0, numbers("old-", 5)...)
	was := s.id()
	s.recreate()
	s.send(0, numbers("new-", 5)...)
	target, err := NewReplayTarget(s.prod, &ReplayTargetOptions{AllowGroups: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Begin(t.Context(), replay.Begin{Source: "c/dead"}); err != nil {
		t.Fatal(err)
	}
	key := consumer.StampKey{ID: "k", Secret: make([]byte, 32)}
	for _, c := range []struct {
		id     topicID
		offset int64
		sign   []consumer.StampKey
		want   string
	}{
		{s.id(), 4, nil, ""},
		{s.id(), 5, nil, "has no such record"},
		{was, 4, nil, "was created anew"},
		{was, 4, []consumer.StampKey{key}, ""},
		{topicID{}, 4, nil, ""}, // with Config.NameIdentity
	} {
		st := consumer.Stamp{Source: "c/" + s.topic, ID: recordID(s.topic, 0, c.offset), Token: 1,
			Pos: &ledger.Position{Log: LogName("c", s.topic, c.id, 0), Offset: c.offset, Prev: -1}}.Sign(c.sign...)
		l := &replay.Letter{Vouched: true, DeadLetter: consumer.DeadLetter{Message: consumer.Message{ID: st.ID, Source: st.Source, Topic: s.topic}, Stamp: &st}}
		err := target.Accept(l)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, offset %d: %v, want %q", c.id, c.offset, err, c.want)
		}
	}
}

package kafka

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// recreate deletes the topic and creates it again, with one partition. On a real broker either takes a while, and the old one
// takes records until the broker has heard of it.
func (s *site) recreate() {
	s.t.Helper()
	old := s.id()
	if _, err := s.adm.DeleteTopic(s.t.Context(), s.topic); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the topic is created again", func() bool {
		_, err := s.adm.CreateTopic(s.t.Context(), 1, 1, nil, s.topic)
		return err == nil
	})
	eventually(s.t, "the broker knows the new topic", func() bool { id := s.id(); return id != old && id != topicID{} })
	// The producer does not take on the new id either.
	s.prod.PurgeTopicsFromClient(s.topic)
}

// key is how the ledger knows a record of the site's topic.
func (s *site) key(r *running, partition int32, epoch int32, offset int64) ledger.Key {
	s.t.Helper()
	return ledger.Key{
		Scope: r.sources[s.topic].scope, ID: []byte(recordID(s.topic, partition, offset)),
		Pos: &ledger.Position{Log: LogName(r.cluster, s.topic, s.id(), partition), Epoch: epoch, Offset: offset, Prev: -1},
	}
}

// A topic is deleted and created again while nobody reads it. Offset 0 is a new message then, wherever the old commit
// stood.
func TestPitfall20_TopicRecreatedWhileNobodyReads(t *testing.T) { onBoth(t, 1, recreatedWhileStopped) }

func recreatedWhileStopped(s *site) {
	t := s.t
	b := newBook()
	r := s.start(b.handle, nil)
	s.send(0, numbers("old-", 10)...)
	eventually(t, "the old topic is handled", func() bool { return b.len() == 10 })
	s.caughtUp()
	was := s.id()
	r.end()
	s.recreate()
	s.send(0, numbers("new-", 20)...)
	// Kafka drops the group's offsets with the topic, but a commit that is late may land by name: as if one had.
	s.commitAs(0, 10, noteOf(r.cluster, was))
	again := s.start(b.handle, nil)
	eventually(t, "the new topic is handled from its first record on", func() bool { return b.len() == 30 })
	s.caughtUp()
	again.end()
	b.once(t, append(numbers("old-", 10), numbers("new-", 20)...))
}

// MirrorMaker 2 copies a group's offsets to another cluster with their metadata, in which stands the id of the topic that it
// reads from. The worker took its own for created anew, and handled all again.
func TestCommitCopiedFromAnotherClusterCounts(t *testing.T) {
	s := fakeSite(t, 1)
	s.send(0, numbers("", 10)...)
	s.commitAs(0, 7, noteOf("another", topicID{9}))
	b := newBook()
	r := s.start(b.handle, nil)
	eventually(t, "the rest is handled", func() bool { return b.len() >= 3 })
	s.caughtUp()
	r.end()
	b.once(t, numbers("", 10)[7:])
}

// id is the topic's id of today.
func (s *site) id() topicID {
	s.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &s.topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(s.t.Context(), s.prod)
	if err != nil || len(resp.Topics) != 1 {
		s.t.Fatalf("metadata: %v", err)
	}
	return resp.Topics[0].TopicID
}

func (s *site) commitAs(partition int32, offset int64, note string) {
	s.t.Helper()
	o := kadm.Offsets{}
	o.Add(kadm.Offset{Topic: s.topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: note})
	if err := s.adm.CommitAllOffsets(s.t.Context(), s.group, o); err != nil {
		s.t.Fatal(err)
	}
}

// A topic is deleted and created again under a running worker. The client never takes on the new id by itself, and a
// commit for the old topic lands, by name, on the new one: its first records were skipped.
func TestPitfall81_TopicRecreatedUnderAWorker(t *testing.T) { onBoth(t, 1, recreatedUnderAWorker) }

func recreatedUnderAWorker(s *site) {
	t := s.t
	b := newBook()
	c := quick()
	c.Start = StartLatest // the new topic begins at the start of its log all the same
	r := s.start(b.handle, c)
	r.owns(1)
	want := numbers("old-", 100)
	s.send(0, want...)
	eventually(t, "the old topic is handled", func() bool { return b.len() == 100 })
	s.caughtUp()
	for _, prefix := range []string{"new-", "newer-"} {
		s.recreate()
		fresh := numbers(prefix, 100)
		want = append(want, fresh...)
		s.send(0, fresh...)
		eventually(t, "the new topic is handled from its first record on", func() bool { return b.len() == len(want) })
		s.caughtUp()
	}
	r.end()
	b.once(t, want)
}

// The client assigns a partition twice without taking it away in between, and reads on behind what it had delivered: the
// second assignment took all of that for a gap. kgo 1.22.2 does so with a topic that is purged and added at once.
func TestAssignedTwiceLosesNothing(t *testing.T) {
	s := fakeSite(t, 1)
	b := newBook()
	var begun atomic.Int64
	var second atomic.Bool
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if second.Load() {
			return b.handle(ctx, m)
		}
		begun.Add(1)
		<-ctx.Done()
		return context.Cause(ctx)
	}, nil)
	s.send(0, numbers("", 10)...)
	eventually(t, "a handler runs", func() bool { return begun.Load() > 0 })
	second.Store(true)
	if _, err := r.adjust(t.Context(), map[string]map[int32]kgo.Offset{s.topic: {0: kgo.NewOffset().At(0)}}); err != nil {
		t.Fatal(err)
	}
	s.send(0, "next")
	eventually(t, "all is handled", func() bool { return b.len() >= 11 })
	s.caughtUp()
	r.end()
	b.once(t, append(numbers("", 10), "next"))
}

// The offsets of a partition that the group has taken away meanwhile were fetched once more, and it was read beside its new
// owner, for good.
func TestWhatIsTakenAwayIsNotRead(t *testing.T) {
	s := fakeSite(t, 2)
	r := s.start(newBook().handle, nil)
	r.owns(2)
	r.revoked(t.Context(), r.kgo, map[string][]int32{s.topic: {1}})
	at := func() map[string]map[int32]kgo.Offset {
		return map[string]map[int32]kgo.Offset{s.topic: {1: kgo.NewOffset().At(0)}}
	}
	if left, err := r.adjust(t.Context(), at()); err != nil || len(left) != 0 || r.table.get(place{Topic: s.topic, Partition: 1}) != nil {
		t.Errorf("%v, %v: it is read", left, err)
	}
	r.assigned(t.Context(), r.kgo, map[string][]int32{s.topic: {1}})
	if left, err := r.adjust(t.Context(), at()); err != nil || len(left[s.topic]) != 1 {
		t.Errorf("%v, %v: it is not read", left, err)
	}
	r.end()
}

// The same topic name on two clusters, and two groups on one topic, with one ledger: each message is handled by each.
func TestPitfall21_ClustersAndGroupsDoNotMeet(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		one := fakeSite(t, 1, kfake.ClusterID("one")).with(audit)
		two := fakeSite(t, 1, kfake.ClusterID("two")).with(audit)
		if err := two.fake.CreateTopic(one.topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		two.topic, two.ledger, two.group = one.topic, one.ledger, one.group
		third := *one
		third.group = newName()
		values := numbers("v", 20)
		one.send(0, values...)
		two.send(0, values...)
		for _, s := range []*site{one, two, &third} {
			b := newBook()
			r := s.start(b.handle, nil)
			eventually(t, "all are handled here too", func() bool { return b.len() == len(values) })
			s.caughtUp()
			r.end()
			b.once(t, values)
		}
		if rows := one.ledger.Len(); audit == AuditRows && rows != 3*len(values) || audit == AuditRanges && rows != 0 {
			t.Errorf("%d rows", rows)
		}
	})
}

// A service copies all headers of a stamped record onto others: they run, under their own ids. A stamp for another group
// counts on the topic that it names and nowhere else.
func TestPitfall84_CopiedStampsAndTargetGroups(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1, kfake.ClusterID("c")).with(audit)
		body := []byte("pay 5")
		stamped := func(source, group string, value []byte) *kgo.Record {
			st := consumer.NewStamp(source, "order-7", body)
			st.Group = group
			return &kgo.Record{Topic: s.topic, Value: value, Headers: []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(st.String())}}}
		}
		here := "c/" + s.topic
		s.sendRecords(
			stamped(here, "", body),                  // 0: runs, as order-7
			stamped(here, "", []byte("other")),       // 1: copied onto another body: runs as itself
			stamped("c/elsewhere", "", body),         // 2: copied from another topic: runs as itself
			stamped("c/elsewhere", "g9", body),       // 3: likewise, with a target group that is not ours
			stamped(here, s.group, body),             // 4: for us, but order-7 is done
			stamped(here, "somebody else", body),     // 5: for another group
			&kgo.Record{Topic: s.topic, Value: body}, // 6: no stamp
		)
		var mu sync.Mutex
		runs := map[string]int64{}
		r := s.start(func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if at, ok := runs[m.ID]; ok {
				t.Errorf("%s ran at offset %d and at %d", m.ID, at, m.Offset)
			}
			runs[m.ID] = m.Offset
			return nil
		}, nil)
		s.caughtUp()
		r.end()
		mu.Lock()
		defer mu.Unlock()
		own := func(offset int64) string { return recordID(s.topic, 0, offset) }
		if _, ok := runs["order-7"]; !ok || len(runs) != 5 {
			t.Errorf("ran: %v", runs)
		}
		for _, offset := range []int64{1, 2, 3, 6} {
			if at, ok := runs[own(offset)]; !ok || at != offset {
				t.Errorf("the record at offset %d did not run under its own id", offset)
			}
		}
	})
}

// A stamp that carries an absurd or forged identity of another record never hides a message.
func TestPitfall22_ForgedStampOnAnotherBody(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1, kfake.ClusterID("c")).with(audit)
		s.send(0, "original")
		b := newBook()
		r := s.start(b.handle, nil)
		s.caughtUp()
		key := s.key(r, 0, 0, 0)
		before, err := s.ledger.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		forged := consumer.NewStamp("c/"+s.topic, string(key.ID), []byte("original"))
		forged.Pos = key.Pos
		fitted := consumer.NewStamp("c/"+s.topic, string(key.ID), []byte("forged and fitted"))
		fitted.Pos = key.Pos
		for value, st := range map[string]consumer.Stamp{"forged": forged, "forged and fitted": fitted} {
			s.sendRecords(&kgo.Record{Topic: s.topic, Value: []byte(value), Headers: []kgo.RecordHeader{
				{Key: consumer.StampName, Value: []byte(st.String())}}})
		}
		s.caughtUp()
		r.end()
		b.once(t, []string{"original", "forged"}) // the other is a mismatch
		after, err := s.ledger.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if after.State != before.State || after.Token != before.Token || after.Fingerprint != before.Fingerprint {
			t.Errorf("the original row changed: %+v, was %+v", after, before)
		}
		if audit == AuditRanges { // the body of what lies in a range is not known: the copy counts as one of it, and is not run
			return
		}
		if len(after.Archived) != 1 || after.Archived[0].Kind != ledger.KindMismatch || string(after.Archived[0].Body) != "forged and fitted" {
			t.Errorf("archived: %+v", after.Archived)
		}
	})
}

// Fetches of older protocol versions carry no topic id. The identity comes from metadata, so nothing runs again when
// they begin to.
func TestPitfall95_FetchesWithoutTopicIDs(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		old := kversion.Stable()
		old.SetMaxKeyVersion(kmsg.Fetch.Int16(), 12)
		values := numbers("v", 30)
		s.send(0, values[:20]...)
		b := newBook()
		r := s.start(b.handle, nil, kgo.MaxVersions(old))
		s.caughtUp()
		r.end()
		s.rewind(0)
		s.send(0, values[20:]...)
		again := s.start(b.handle, nil)
		eventually(t, "the rest is handled", func() bool { return b.len() == len(values) })
		s.caughtUp()
		again.end()
		b.once(t, values)
	})
}

// rewind sets the group's offset back to 0, as an operator does.
func (s *site) rewind(partition int32) { s.setOffset(partition, 0) }

func (s *site) setOffset(partition int32, offset int64) {
	s.t.Helper()
	s.commitAs(partition, offset, "")
}

// A cluster without topic ids: a recreated topic cannot be told from the old one, so it is refused unless the user says
// that names are enough.
func TestPitfall95_ClustersWithoutTopicIDs(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		old := kversion.Stable()
		old.SetMaxKeyVersion(kmsg.Metadata.Int16(), 9)
		s.opts = []kgo.Opt{kgo.MaxVersions(old)}
		if err := s.worker(nothing, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "NameIdentity") {
			t.Fatalf("a cluster without topic ids: %v", err)
		}
		c := quick()
		c.NameIdentity = true
		values := numbers("v", 20)
		s.send(0, values...)
		b := newBook()
		for range 2 {
			r := s.start(b.handle, c)
			r.owns(1)
			s.caughtUp()
			r.end()
			s.rewind(0)
		}
		b.once(t, values)
		// The same by name on a cluster that has ids: an upgrade of the brokers runs nothing again.
		s.opts = nil
		r := s.start(b.handle, c)
		r.owns(1)
		s.caughtUp()
		r.end()
		b.once(t, values)
	})
}

// Tombstones (nil value) and nil keys: handled as they are, and archived as they are when they fail.
func TestPitfall64_TombstonesAndNilKeys(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		s.sendRecords(
			&kgo.Record{Topic: s.topic, Key: nil, Value: nil},
			&kgo.Record{Topic: s.topic, Key: []byte{}, Value: []byte{}},
			&kgo.Record{Topic: s.topic, Key: []byte("k"), Value: nil, Headers: []kgo.RecordHeader{{Key: "h\x00\xff", Value: nil}}},
			&kgo.Record{Topic: s.topic, Key: nil, Value: []byte{0xff, 0, 0xfe}},
		)
		var mu sync.Mutex
		seen := map[int64]consumer.Message{}
		r := s.start(func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			seen[m.Offset] = *m
			return consumer.Terminal(errors.New("not wanted"))
		}, nil)
		s.caughtUp()
		defer r.end()
		mu.Lock()
		defer mu.Unlock()
		for offset, want := range []struct{ key, value []byte }{{nil, nil}, {[]byte{}, []byte{}}, {[]byte("k"), nil}, {nil, []byte{0xff, 0, 0xfe}}} {
			m := seen[int64(offset)]
			rec, err := s.ledger.Get(t.Context(), s.key(r, 0, 0, int64(offset)))
			if err != nil || len(rec.Archived) != 1 {
				t.Fatalf("offset %d: %d archived, %v", offset, len(rec.Archived), err)
			}
			for name, pair := range map[string][2][]byte{
				"key": {m.Key, want.key}, "body": {m.Body, want.value}, "archived body": {rec.Archived[0].Body, want.value},
			} {
				if (pair[0] == nil) != (pair[1] == nil) || !bytes.Equal(pair[0], pair[1]) {
					t.Errorf("offset %d: %s is %#v, want %#v", offset, name, pair[0], pair[1])
				}
			}
		}
	})
}

// A backfill with timestamps of 2019, and records dated in 1970 and in 2200: the timestamp is the producer's word, and no
// message is treated as past its deadline for it.
func TestPitfall109_Backfill(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		old := time.Date(2019, 3, 1, 0, 0, 0, 0, time.UTC)
		var values []string
		for i, at := range []time.Time{old, time.UnixMilli(0), old.AddDate(181, 0, 0)} {
			v := numbers("v", 3)[i]
			values = append(values, v)
			s.sendRecords(&kgo.Record{Topic: s.topic, Value: []byte(v), Timestamp: at})
		}
		b := newBook()
		failed := map[string]bool{}
		var mu sync.Mutex
		r := s.start(func(ctx context.Context, m *consumer.Message) error {
			mu.Lock()
			first := !failed[m.ID]
			failed[m.ID] = true
			mu.Unlock()
			if first {
				return errors.New("once") // a retry must not be past a deadline either
			}
			return b.handle(ctx, m)
		}, nil)
		eventually(t, "all are handled in their second attempt", func() bool { return b.len() == len(values) })
		s.caughtUp()
		r.end()
		b.once(t, values)
	})
}

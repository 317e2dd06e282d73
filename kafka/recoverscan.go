package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Committed is what a group has committed of one partition, beside what a ledger that was restored knows of it.
type Committed struct {
	Group, State string // State is the group's, as Kafka names it; only with Empty can it be set back
	Topic        string
	Partition    int32
	LedgerID     string // that the commit names; empty: none
	Offset       int64
	Start        int64 // of the log

	// Back is where the group is to go on: the first record that the ledger does not have as finished. Offset: it has them all.
	Back        int64
	Unfinished  int64     // records from Back up to Offset that the ledger does not have as finished
	First, Last time.Time // of these: the oldest and the newest, by their timestamps
	// Unseen says that the log has records below Offset, and the ledger knows of none of them: they were all handled after the backup,
	// or all before what the ledger still recognises, or never by this group. Back is then Offset, and Unfinished their number.
	Unseen bool
	// Below are records within the span, below all that the ledger knows of the partition: they are as those of Unseen. They count in
	// nothing else.
	Below int64

	epoch     int32 // the leader's, of the record at Back
	topicID   topicID
	note      string // the commit's metadata
	signature string // the same without the ledger's id
}

const (
	// scanBlock is how many offsets a scan reads first; each block further down has twice as many.
	scanBlock = 10_000
	// scanPoll is how many records a scan asks the ledger for at once: two keys each, that of a stamp and its own.
	scanPoll = ledger.MaxStatus / 2
)

// scan looks for what lies below a commit that the ledger does not have as finished. Workers deliver at most span records past the first
// unfinished one of a partition, so nothing further below the youngest that the ledger knows can have been unfinished at the backup.
type scan struct {
	ledger          ledger.Operator
	opts            []kgo.Opt
	cluster         string
	span            int
	scope           string
	of              *Committed
	lowest, highest int64                         // that the ledger knows; -1: none yet
	missing         []gap                         // in the order of the log
	running         bool                          // the last of missing goes on with the next record
	parked          map[[ledger.KeySize]byte]bool // messages of the scope that the ledger has whole; nil: nobody has looked yet
}

// gap are unfinished records with no finished one between them. One that the ledger knows, as pending, begins another.
type gap struct {
	first    int64 // offset
	records  int64
	epoch    int32 // of the first
	from, to time.Time
}

func (s *scan) run(ctx context.Context) error {
	s.lowest, s.highest = -1, -1
	read := 0 // below the block in which the highest was found
	for high, block := s.of.Offset, int64(scanBlock); high > s.of.Start; block *= 2 {
		low, found := max(s.of.Start, high-block), s.highest >= 0
		above := s.missing
		s.missing, s.running = nil, false
		n, err := s.block(ctx, low, high)
		if err != nil {
			return err
		}
		s.missing = append(s.missing, above...)
		if high = low; found {
			read += n
		}
		if read >= s.span {
			break
		}
	}
	s.conclude()
	return nil
}

// conclude says where the group is to go on.
func (s *scan) conclude() {
	c := s.of
	at := slices.IndexFunc(s.missing, func(g gap) bool { return s.lowest >= 0 && g.first >= s.lowest })
	if at < 0 {
		at = len(s.missing)
	}
	for i, g := range s.missing {
		if i < at && s.lowest >= 0 {
			c.Below += g.records
			continue
		}
		c.Unfinished += g.records
		if c.First.IsZero() || g.from.Before(c.First) {
			c.First = g.from
		}
		if g.to.After(c.Last) {
			c.Last = g.to
		}
	}
	switch {
	case s.lowest < 0:
		c.Unseen = len(s.missing) > 0
	case at < len(s.missing):
		c.Back, c.epoch = s.missing[at].first, s.missing[at].epoch
	}
}

// block reads the offsets from low up to high, and returns how many records there were.
func (s *scan) block(ctx context.Context, low, high int64) (n int, err error) {
	topic, partition := s.of.Topic, s.of.Partition
	cl, err := kgo.NewClient(append(slices.Clone(s.opts), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(low)}}))...)
	if err != nil {
		return 0, fmt.Errorf("the client's options: %w", err)
	}
	defer cl.CloseAllowingRebalance()
	for next, quiet := low, time.Now(); next < high; {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fetches := cl.PollRecords(poll, scanPoll)
		cancel()
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return n, e.Err
			}
		}
		var some []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; r.Offset < high && !r.Attrs.IsControl() {
				some = append(some, r)
			}
		})
		n += len(some)
		if err := s.ask(ctx, some); err != nil {
			return n, err
		}
		switch {
		case fetches.NumRecords() > 0:
			quiet = time.Now()
		case time.Since(quiet) > quietLook && nothingLeft(ctx, cl, topic, partition, next, high):
			next = high
		case time.Since(quiet) > quietLimit:
			return n, fmt.Errorf("offset %d was not read: nothing more came for %s", next, quietLimit)
		}
	}
	return n, nil
}

// ask asks the ledger for records, in their order.
func (s *scan) ask(ctx context.Context, list []*kgo.Record) error {
	keys := make([]ledger.Key, 0, 2*len(list))
	stamps := make([]*consumer.Stamp, len(list))
	log := LogName(s.cluster, s.of.Topic, s.of.topicID, s.of.Partition)
	for i, r := range list {
		id := fmt.Appendf(nil, "%s-%d-%d", r.Topic, r.Partition, r.Offset)
		own := ledger.Key{Scope: s.scope, ID: id, Pos: &ledger.Position{Log: log, Epoch: r.LeaderEpoch, Offset: r.Offset, Prev: -1}}
		named := own
		if stamps[i] = stampOf(r); stamps[i] != nil {
			named = ledger.Key{Scope: s.scope, ID: []byte(stamps[i].ID), Pos: stamps[i].Pos}
		}
		keys = append(keys, own, named)
	}
	if len(keys) == 0 {
		return nil
	}
	known, err := s.ledger.Status(ctx, keys)
	if err != nil {
		return fmt.Errorf("ask the ledger: %w", err)
	}
	for i, r := range list {
		own, named := &known[2*i], &known[2*i+1]
		for j, status := range []*ledger.Status{own, named} {
			if cared, err := s.inCare(ctx, status, &keys[2*i+j]); err != nil {
				return err
			} else if cared { // it is as good as finished for its group: the ledger runs it
				status.State = ledger.Succeeded
			}
		}
		s.note(r, own, named, stamps[i])
	}
	return nil
}

// inCare says whether the ledger has a pending message whole, so that its record is not needed any more.
func (s *scan) inCare(ctx context.Context, status *ledger.Status, key *ledger.Key) (bool, error) {
	op, ok := s.ledger.(ledger.ParkingOperator)
	if status.State != ledger.Pending || !ok {
		return false, nil
	}
	if s.parked == nil {
		s.parked = map[[ledger.KeySize]byte]bool{}
		for m, err := range op.ParkedMessages(ledger.WithoutBodies(ctx), ledger.Filter{Scope: s.scope}) {
			if err != nil {
				s.parked = nil
				return false, fmt.Errorf("ask the ledger what is parked: %w", err)
			}
			s.parked[m.Key.Sum()] = true
		}
	}
	return s.parked[key.Sum()], nil
}

// note takes in what the ledger says of a record: by its own identity, and by that of its stamp, which may not count.
func (s *scan) note(r *kgo.Record, own, named *ledger.Status, stamp *consumer.Stamp) {
	if stamp != nil && stamp.Group != "" && stamp.Group != s.of.Group {
		return // this group's workers pass it
	}
	finished := own.State == ledger.Succeeded || own.State == ledger.Failed
	if stamp != nil && !finished {
		finished = named.State == ledger.Succeeded || named.State == ledger.Failed && named.Token != stamp.Token
	}
	if own.State != 0 {
		s.highest = max(s.highest, r.Offset)
		if s.lowest < 0 || r.Offset < s.lowest {
			s.lowest = r.Offset
		}
	}
	switch {
	case finished:
	case s.running && own.State == 0:
		g := &s.missing[len(s.missing)-1]
		g.records, g.to = g.records+1, r.Timestamp
	default:
		s.missing = append(s.missing, gap{r.Offset, 1, r.LeaderEpoch, r.Timestamp, r.Timestamp})
	}
	s.running = !finished
}

// stampOf reads a record's stamp; nil: it has none.
func stampOf(r *kgo.Record) *consumer.Stamp {
	for i := range r.Headers {
		if r.Headers[i].Key == consumer.StampName {
			if st, err := consumer.ParseStamp(r.Headers[i].Value); err == nil {
				return st
			}
		}
	}
	return nil
}

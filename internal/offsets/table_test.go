package offsets_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/offsets"
	"pgregory.net/rapid"
)

// member is the dumb version of a table: every assignment there ever was, and every record of each.
type member struct {
	span, most int
	limit      int64
	terms      []*term
	crowded    time.Time // since when one has crowded
}

type term struct {
	*offsets.Assignment
	records  []delivered
	position twin
	closed   bool
	gone     bool
	paused   time.Time
	stuck    bool
	moved    time.Time
	high     int64
	sure     int64
	unsure   time.Time
}

type delivered struct {
	seq  uint64
	size int64
	back bool // in hand no more
}

func (m *member) present() (all []*term) {
	for _, x := range m.terms {
		if !x.gone {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *term) int { return a.Compare(b.TopicPartition) })
	return all
}

// weigh returns what counts against the limit: all but the largest of those that are more than a quarter of it.
func weigh(limit int64, terms ...*term) (records int, bytes, counted int64) {
	large := int64(0)
	for _, x := range terms {
		for _, d := range x.records {
			if d.back {
				continue
			}
			records++
			bytes += d.size
			if d.size > limit/4 {
				large = max(large, d.size)
			}
		}
	}
	return records, bytes, bytes - large
}

func (m *member) room() (records int, bytes int64) {
	held, _, counted := weigh(m.limit, m.terms...)
	return m.most - held, m.limit - counted
}

func (m *member) scarce() bool {
	records, bytes := m.room()
	return records <= m.most/4 || bytes <= m.limit/4
}

func (m *member) crowds(x *term, part int) bool {
	records, bytes := m.room()
	held, _, counted := weigh(m.limit, x)
	return held > 0 && (held > records/part || counted > bytes/int64(part))
}

func (m *member) mostly(x *term) bool {
	records, _, bytes := weigh(m.limit, m.terms...)
	held, _, counted := weigh(m.limit, x)
	return held > records/2 || counted > bytes/2
}

func (x *term) span() int { return len(x.position.records) - x.position.prefix() }

// drive is one run of the table and its twin.
type drive struct {
	m     *member
	table *offsets.Table
	now   time.Time
}

// The table decides as one does that goes through all that ever happened.
func TestTableAgreesWithWhoRemembersAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &member{span: rapid.IntRange(1, 6).Draw(t, "span"), most: rapid.IntRange(4, 16).Draw(t, "most"), limit: 400}
		d := &drive{m: m, table: offsets.NewTable(m.span, m.most, m.limit), now: time.Unix(1000, 0)}
		t.Repeat(map[string]func(*rapid.T){
			"wait":    d.wait,
			"install": d.install,
			"take":    d.take,
			"finish":  d.finish,
			"close":   d.close,
			"discard": d.discard,
			"crowded": d.crowded,
			"commit":  d.commit,
			"saw":     d.saw,
			"":        d.compare,
		})
	})
}

func (d *drive) wait(t *rapid.T) {
	d.now = d.now.Add(time.Duration(rapid.IntRange(1, 700).Draw(t, "ms")) * time.Millisecond)
}

// pick draws a term, of those that fit.
func (d *drive) pick(t *rapid.T, fits func(*term) bool) *term {
	all := slices.DeleteFunc(slices.Clone(d.m.terms), func(x *term) bool { return !fits(x) })
	if len(all) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(all).Draw(t, "term")
}

func (d *drive) install(t *rapid.T) {
	at := offsets.TopicPartition{Topic: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic"), Partition: rapid.Int32Range(0, 11).Draw(t, "partition")}
	start, committed := rapid.Int64Range(0, 3).Draw(t, "start"), int64(-1)
	if rapid.Bool().Draw(t, "from a commit") {
		committed = start
	}
	x := &term{high: -1, sure: committed, position: twin{start: start}}
	if rapid.Bool().Draw(t, "unsure") {
		x.unsure = d.now.Add(time.Second)
	}
	x.Assignment = &offsets.Assignment{TopicPartition: at, Start: start, Epoch: -1, Committed: committed, Unsure: x.unsure, Of: x}
	var was *term
	for _, y := range d.m.present() {
		if y.TopicPartition == at {
			was = y
		}
	}
	old := d.table.Install(x.Assignment)
	if (old != nil) != (was != nil) || was != nil && old != was.Assignment {
		t.Fatalf("%v replaces %v", old, was)
	}
	if was != nil {
		was.closed, was.gone = true, true
	}
	d.m.terms = append(d.m.terms, x)
}

func (d *drive) take(t *rapid.T) {
	x := d.pick(t, func(*term) bool { return true })
	last, epoch := x.position.start-1, int32(-1)
	if n := len(x.position.records); n > 0 {
		last, epoch = x.position.records[n-1].offset, x.position.records[n-1].epoch
	}
	for range rapid.IntRange(1, 3).Draw(t, "records") {
		r := offsets.Record{
			Offset: last + rapid.Int64Range(-1, 3).Draw(t, "gap"), Epoch: max(epoch, 0) + rapid.Int32Range(0, 1).Draw(t, "epoch"),
			Size: rapid.SampledFrom([]int64{0, 10, 40, 150}).Draw(t, "size"), Control: rapid.IntRange(0, 5).Draw(t, "control") == 0,
		}
		want := offsets.Taken
		switch {
		case x.closed:
			want = offsets.Passed
		case r.Offset <= last && r.Epoch > epoch:
			want = offsets.Rewound
		case r.Offset <= last:
			want = offsets.Passed
		default:
			x.position.records = append(x.position.records, twinRecord{r.Offset, r.Epoch, r.Control})
			last, epoch = r.Offset, r.Epoch
			if r.Control {
				want = offsets.Passed
			}
		}
		held, _, _ := weigh(d.m.limit, x)
		seq, is := d.table.Take(d.now, x.Assignment, r)
		if is != want {
			t.Fatalf("%+v behind %d, epoch %d, is %d, want %d", r, last, epoch, is, want)
		}
		if is != offsets.Taken {
			continue
		}
		if held == 0 {
			x.moved = d.now
		}
		if want := uint64(len(x.position.records) - 1); seq != want {
			t.Fatalf("sequence number %d, want %d", seq, want)
		}
		x.records = append(x.records, delivered{seq: seq, size: r.Size})
	}
	pauses := !x.closed && x.span() >= d.m.span && x.paused.IsZero()
	if got := d.table.Pauses(d.now, x.Assignment); got != pauses {
		t.Fatalf("pauses: %v with a span of %d", got, x.span())
	}
	if pauses {
		x.paused = d.now
	}
}

func (d *drive) finish(t *rapid.T) {
	inHand := func(r delivered) bool { return !r.back }
	x := d.pick(t, func(x *term) bool { return slices.ContainsFunc(x.records, inHand) })
	ack, first := rapid.IntRange(0, 4).Draw(t, "ack") > 0, slices.IndexFunc(x.records, inHand)
	at := rapid.IntRange(first, len(x.records)-1).Draw(t, "record")
	if x.records[at].back {
		at = first
	}
	r := &x.records[at]
	d.table.Finish(d.now, x.Assignment, r.seq, r.size, ack)
	r.back, x.moved = true, d.now
	if ack && !x.gone {
		x.position.records[r.seq].done = true
	}
	resumes := !x.paused.IsZero() && !x.closed && x.span() <= d.m.span/2
	if got := d.table.Resumes(x.Assignment); got != resumes {
		t.Fatalf("resumes: %v with a span of %d", got, x.span())
	}
	if resumes {
		x.paused = time.Time{}
	}
	var free []*offsets.Assignment
	for _, y := range d.m.present() {
		if y.stuck && !d.m.crowds(y, 2) {
			y.stuck = false
			free = append(free, y.Assignment)
		}
	}
	if got := d.table.Unstuck(); !slices.Equal(got, free) {
		t.Fatalf("unstuck: %v, want %v", got, free)
	}
}

func (d *drive) close(t *rapid.T) {
	x := d.pick(t, func(*term) bool { return true })
	was := x.closed
	got := d.table.Close(func(a *offsets.Assignment) bool { return a == x.Assignment })
	if x.closed = true; (len(got) == 1) == was {
		t.Fatalf("closed: %v, before: %v", got, was)
	}
}

func (d *drive) discard(t *rapid.T) {
	x := d.pick(t, func(x *term) bool { return x.closed })
	x.gone = true
	d.table.Discard(x.Assignment)
}

func (d *drive) crowded(t *rapid.T) {
	all := d.m.present()
	var crowding []*term
	var want []*offsets.Assignment
	wait, starving := time.Duration(0), false
	for _, x := range all {
		if len(all) > 1 && !x.closed && !x.stuck && d.m.scarce() && d.m.crowds(x, 1) {
			crowding = append(crowding, x)
		}
		held, _, _ := weigh(d.m.limit, x)
		offset, _ := x.position.position()
		starving = starving || !x.closed && !x.stuck && x.paused.IsZero() && held == 0 && x.high > offset
	}
	switch {
	case crowding == nil:
		d.m.crowded = time.Time{}
	case d.m.crowded.IsZero():
		d.m.crowded = d.now
	}
	for _, x := range crowding {
		left := time.Second - d.now.Sub(x.moved)
		if starving && d.m.mostly(x) {
			left = min(left, 100*time.Millisecond-d.now.Sub(d.m.crowded))
		}
		if left > 0 {
			wait = max(wait, left)
			continue
		}
		x.stuck = true
		want = append(want, x.Assignment)
	}
	if got, w := d.table.Crowded(d.now); !slices.Equal(got, want) || w != wait {
		t.Fatalf("crowded: %v in %s, want %v in %s", got, w, want, wait)
	}
}

// commit has some of what is due confirmed, perhaps late.
func (d *drive) commit(t *rapid.T) {
	for _, c := range d.table.Due(d.now) {
		if rapid.Bool().Draw(t, "answered") {
			at := c.Offset - rapid.Int64Range(0, 1).Draw(t, "an older answer")
			c.Of.Confirm(at)
			x := c.Of.Of.(*term)
			x.sure = max(x.sure, at)
		}
	}
}

func (d *drive) saw(t *rapid.T) {
	x := d.pick(t, func(*term) bool { return true })
	high := rapid.Int64Range(0, 20).Draw(t, "high")
	x.Saw(high)
	x.high = max(x.high, high)
}

func (d *drive) compare(t *rapid.T) {
	var due []offsets.Commit
	for _, x := range d.m.terms {
		held, bytes, _ := weigh(d.m.limit, x)
		if n, b := x.Held(); n != held || b != bytes || x.Closed() != x.closed || x.Gone() != x.gone || x.Drained() != (x.closed && held == 0) {
			t.Fatalf("%v: %d in hand, %d bytes, want %d and %d; closed %v, gone %v", x.TopicPartition, n, b, held, bytes, x.Closed(), x.Gone())
		}
		offset, epoch := x.position.position()
		if o, e := x.Position(); o != offset || e != epoch || x.Span() != x.span() {
			t.Fatalf("%v: position %d of epoch %d, span %d; want %d of %d", x.TopicPartition, o, e, x.Span(), offset, epoch)
		}
		if lag, known := x.Lag(); known != (x.high >= 0) || known && lag != max(x.high-offset, 0) {
			t.Fatalf("lag %d, %v, from %d to %d", lag, known, offset, x.high)
		}
		n := x.position.prefix()
		for to := range int64(20) {
			if want := n < len(x.position.records) && x.position.records[n].offset < to; x.Needs(to) != want {
				t.Fatalf("needs what is before %d: %v", to, x.Needs(to))
			}
		}
		c, is := x.Due(d.now)
		if want := !x.gone && (offset > x.sure || d.now.Before(x.unsure)); is != want || is && c != (offsets.Commit{Of: x.Assignment, Offset: offset, Epoch: epoch}) {
			t.Fatalf("due: %+v, %v, want %v", c, is, want)
		}
	}
	all := d.m.present()
	var list []*offsets.Assignment
	for _, x := range all {
		list = append(list, x.Assignment)
		if c, is := x.Due(d.now); is && !x.closed {
			due = append(due, c)
		}
		d.why(t, x)
	}
	if got := d.table.All(); !slices.Equal(got, list) {
		t.Fatalf("the assignments are %v, want %v", got, list)
	}
	if got := d.table.Due(d.now); !slices.Equal(got, due) {
		t.Fatalf("due: %v, want %v", got, due)
	}
	records, bytes, _ := weigh(d.m.limit, d.m.terms...)
	if n, b := d.table.Held(); n != records || b != bytes {
		t.Fatalf("%d records and %d bytes in hand, want %d and %d", n, b, records, bytes)
	}
}

// why compares the reason for which a partition is not read.
func (d *drive) why(t *rapid.T, x *term) {
	records, bytes := d.m.room()
	want, since := offsets.Read, time.Time{}
	switch {
	case !x.paused.IsZero():
		want, since = offsets.AtSpan, x.paused
	case x.stuck && (records <= 0 || bytes <= 0):
		want, since = offsets.AllFull, x.moved
	case x.stuck:
		want, since = offsets.Crowds, x.moved
	}
	if got, at := d.table.Why(x.Assignment); got != want || !at.Equal(since) {
		t.Fatalf("%v is not read for reason %d since %v, want %d since %v", x.TopicPartition, got, at, want, since)
	}
	if d.table.Get(x.TopicPartition) != x.Assignment || d.table.Full(x.TopicPartition) != (want != offsets.Read && !x.closed) {
		t.Fatalf("%v: full %v", x.TopicPartition, d.table.Full(x.TopicPartition))
	}
}

// Partitions are ordered by number, not by its text.
func TestPartitionsInOrder(t *testing.T) {
	t.Parallel()
	list := []offsets.TopicPartition{{Topic: "b", Partition: 0}, {Topic: "a", Partition: 10}, {Topic: "a", Partition: 2}}
	slices.SortFunc(list, offsets.TopicPartition.Compare)
	if want := []offsets.TopicPartition{{Topic: "a", Partition: 2}, {Topic: "a", Partition: 10}, {Topic: "b", Partition: 0}}; !slices.Equal(list, want) {
		t.Errorf("%v", list)
	}
}

// A table takes records in and lets them go without an allocation.
func TestTakingAndFinishingAllocatesNothing(t *testing.T) {
	table, now := offsets.NewTable(10_000, 10_000, 1<<30), time.Unix(1000, 0)
	a := &offsets.Assignment{Epoch: -1}
	table.Install(a)
	next := int64(0)
	round := func() {
		first := uint64(next)
		for range 500 {
			table.Take(now, a, offsets.Record{Offset: next, Size: 100})
			next++
		}
		for seq := first; seq < uint64(next); seq++ {
			table.Finish(now, a, seq, 100, true)
		}
	}
	round()
	if got := testing.AllocsPerRun(20, round); got != 0 {
		t.Errorf("%v allocations for 500 records", got)
	}
}

// A partition that crowds and gives back slowly, while another has something to read and nothing in hand, leaves the room to that
// one soon. Where none starves, or most is another's, polls wait for it.
func TestSlowPartitionLeavesTheRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		high  int64 // of the other
		other int   // that the other has in hand
		stuck bool
	}{
		"it starves": {high: 5, stuck: true}, "nothing to read": {high: 0}, "something in hand": {high: 5, other: 1},
	} {
		table, now := offsets.NewTable(1000, 100, 1<<20), time.Unix(1000, 0)
		slow := &offsets.Assignment{TopicPartition: offsets.TopicPartition{Topic: "a", Partition: 0}, Epoch: -1, Committed: -1}
		other := &offsets.Assignment{TopicPartition: offsets.TopicPartition{Topic: "a", Partition: 1}, Epoch: -1, Committed: -1}
		table.Install(slow)
		table.Install(other)
		other.Saw(c.high)
		var seqs []uint64
		for i := range 90 {
			seq, _ := table.Take(now, slow, offsets.Record{Offset: int64(i), Epoch: -1, Size: 1})
			seqs = append(seqs, seq)
		}
		for i := range c.other {
			table.Take(now, other, offsets.Record{Offset: int64(i), Epoch: -1, Size: 1})
		}
		var stuck []*offsets.Assignment
		for i := 0; i < 4; i++ { // it gives one back in 40 ms
			got, wait := table.Crowded(now)
			if stuck = append(stuck, got...); len(got) == 0 && wait <= 0 && len(stuck) == 0 {
				t.Errorf("%s: it is polled", name)
			}
			now = now.Add(40 * time.Millisecond)
			table.Finish(now, slow, seqs[i], 1, true)
		}
		if got := len(stuck) == 1 && stuck[0] == slow; got != c.stuck || len(stuck) > 1 {
			t.Errorf("%s: %d partitions leave the room, want that: %v", name, len(stuck), c.stuck)
		}
	}
}

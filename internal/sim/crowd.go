package sim

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/offsets"
)

// weigh is what is in hand: records, their bytes, and the bytes that count against the limit, which are all but the largest record
// of more than a quarter of it.
func weigh(limit int64, list ...*assignment) (records int, bytes, counted int64) {
	largest := int64(0)
	for _, a := range list {
		for _, t := range a.taken {
			if t.back {
				continue
			}
			n := a.member.size(t.message)
			records, bytes = records+1, bytes+n
			if n > limit/4 {
				largest = max(largest, n)
			}
		}
	}
	return records, bytes, bytes - largest
}

// hasRoom is how many more records and bytes a member wants.
func (m *member) hasRoom() (records int, bytes int64) {
	limit := int64(m.cluster.held) * size
	n, _, counted := weigh(limit, m.all...)
	return m.cluster.held - n, limit - counted
}

// space is how many records it may take in now.
func (m *member) space() int {
	records, bytes := m.hasRoom()
	return int(min(m.room(), int64(records), bytes/size))
}

// crowds says whether an assignment has more in hand than that part of the room.
func (a *assignment) crowds(part int) bool {
	records, bytes := a.member.hasRoom()
	n, _, counted := weigh(int64(a.member.cluster.held)*size, a)
	return n > 0 && (n > records/part || counted > bytes/int64(part))
}

// mostly says whether most of what is in hand is of an assignment.
func (a *assignment) mostly() bool {
	limit := int64(a.member.cluster.held) * size
	records, _, counted := weigh(limit, a.member.all...)
	n, _, own := weigh(limit, a)
	return n > records/2 || own > counted/2
}

// starves says whether an assignment has something to read, and nothing in hand.
func (a *assignment) starves() bool {
	n, _, _ := weigh(0, a)
	_, at := a.position()
	return !a.closed && !a.stuck && !a.paused && n == 0 && a.end > at.offset
}

// mustCrowd checks which partitions leave the room to the others: where little is left, those that have more in hand than that, and
// have given nothing back for a second; or have most, while another starves.
func (m *member) mustCrowd(stuck []*offsets.Assignment, wait time.Duration) {
	records, bytes := m.hasRoom()
	scarce := records <= m.cluster.held/4 || bytes <= int64(m.cluster.held)*size/4
	list, longest := m.assigns(), time.Duration(0)
	starving := slices.ContainsFunc(list, (*assignment).starves)
	crowding := func(a *assignment) bool { return len(list) > 1 && scarce && !a.closed && !a.stuck && a.crowds(1) }
	switch some := slices.ContainsFunc(list, crowding); {
	case !some:
		m.crowded = 0
	case m.crowded == 0:
		m.crowded = m.now
	}
	for _, a := range list {
		if !crowding(a) {
			continue
		}
		left := time.Second - (m.now - a.moved)
		if starving && a.mostly() {
			left = min(left, 100*time.Millisecond-(m.now-m.crowded))
		}
		if left > 0 {
			longest = max(longest, left)
			continue
		}
		if a.stuck = true; len(stuck) == 0 || stuck[0] != &a.Assignment {
			m.breaks(none, "a partition that crowds leaves the room to others: %s reads partition %d", m, a.part.number)
			return
		}
		stuck = stuck[1:]
	}
	if len(stuck) != 0 || wait != longest {
		m.breaks(none, "a partition is read where it crowds nobody: %s leaves out %d, and waits %s, not %s", m, len(stuck), wait, longest)
	}
}

// unstuck has those go on that have less than half of the room.
func (m *member) unstuck() bool {
	free := m.table.Unstuck()
	some := len(free) > 0
	for _, a := range m.assigns() {
		if !a.stuck || a.crowds(2) {
			continue
		}
		if a.stuck = false; len(free) == 0 || free[0] != &a.Assignment {
			m.breaks(none, "a partition that was left out goes on: %s does not read partition %d", m, a.part.number)
			return false
		}
		free = free[1:]
	}
	if len(free) != 0 {
		m.breaks(none, "a partition goes on once there is room: %s has %d more", m, len(free))
	}
	return some
}

// pauses pauses the partition at the span's limit.
func (a *assignment) pauses() {
	m := a.member
	want := !a.closed && !a.paused && a.span() >= m.cluster.span
	if m.table.Pauses(m.clock(), &a.Assignment) != want {
		m.breaks(none, "a partition pauses at the span's limit: %s has %d of partition %d", m, a.span(), a.part.number)
	}
	a.paused = a.paused || want
	n, bytes, _ := weigh(0, a)
	if held, size := a.Held(); held != n || size != bytes || a.Span() != a.span() {
		m.breaks(none, "what is in hand is counted: %s has %d records of %d bytes, not %d of %d, of partition %d", m, n, bytes, held, size, a.part.number)
	}
	n, bytes, _ = weigh(0, m.all...)
	if n > m.cluster.held {
		m.breaks(none, "no more is in hand than may be: %s has %d records", m, n)
	}
	if held, size := m.table.Held(); held != n || size != bytes {
		m.breaks(none, "what is in hand is counted: %s has %d records of %d bytes, not %d of %d", m, n, bytes, held, size)
	}
	if a.span() >= 2*m.cluster.span {
		m.breaks(none, "the span is limited: %s has %d of partition %d", m, a.span(), a.part.number)
	}
}

// resumes says whether a paused one goes on: when half of the span is finished.
func (a *assignment) resumes() bool {
	m := a.member
	want := a.paused && !a.closed && a.span() <= m.cluster.span/2
	if m.table.Resumes(&a.Assignment) != want {
		m.breaks(none, "a partition goes on when half of the span is finished: %s has %d of partition %d", m, a.span(), a.part.number)
	}
	a.paused = a.paused && !want
	return want
}

// mustBeFull checks whether a partition is read, and what is said of it.
func (a *assignment) mustBeFull(is bool) bool {
	m := a.member
	why, since := m.table.Why(&a.Assignment)
	want := offsets.Read
	records, bytes := m.hasRoom()
	switch {
	case a.paused:
		want = offsets.AtSpan
	case a.stuck && (records <= 0 || bytes <= 0):
		want = offsets.AllFull
	case a.stuck:
		want = offsets.Crowds
	}
	if at, is := a.Oldest(); is != (a.prefix() < len(a.taken)) || is && at != a.taken[a.prefix()].offset {
		m.breaks(none, "what holds the position is told: %s names %d of partition %d", m, at, a.part.number)
	}
	if why != want || is != (why != offsets.Read && !a.closed) || since.IsZero() != (why == offsets.Read) || since.After(m.clock()) {
		m.breaks(none, "what is not read has a reason: %s says %d of partition %d, not %d", m, why, a.part.number, want)
	}
	return is
}

// saw notes where the log ends.
func (a *assignment) saw() {
	m := a.member
	_, at := a.position()
	if n, known := a.Lag(); known != (a.end > 0) || known && n != max(a.end-at.offset, 0) {
		m.breaks(none, "the lag is what is not finished: %s has %d of partition %d, from %d to %d", m, n, a.part.number, at.offset, a.end)
	}
	a.Saw(a.part.next)
	a.end = max(a.end, a.part.next)
}

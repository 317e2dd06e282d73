package flow

import (
	"math"
	"time"
)

// Lanes says of which ordering keys of a log messages may be parked in the ledger ([ledger.ParkLane]), as one assignment of the log knows
// them: always of more than there are, never of fewer. For who parks more than the ledger has told of is this assignment alone, whose
// lanes are marked before; or one before it, which goes on with what it has in hand: but that comes to this assignment as well, is busy
// until it is parked, and found in the ledger's care then, which marks its lane too. So what comes behind it in its sequence is asked for.
//
// It is no part of a [Flow]: a handler's goroutine asks it before it begins. It has no lock either.
type Lanes struct {
	loaded  bool
	all     bool          // there are more than were told of
	shared  bool          // others park at any time
	loadAt  time.Duration // not before, once it is loaded
	changes uint64        // counts what marks them
	marks   map[uint64]*laneMark
}

// laneMark is a lane of which messages may be parked.
type laneMark struct {
	changed  uint64        // when it was marked last
	parking  int           // messages of this process that are being parked in it
	behind   bool          // what the ledger said last, which is believed
	until    time.Duration // for so long
	headWait time.Duration

	few         int // so many it had at the last answer that it is soon over; 0: there was none of late
	since, last time.Duration
}

// holds says whether to wait on for what is soon over. Where nothing of it ends for long it is not: a handler takes its time, nobody can open the
// message, or no worker runs what is parked.
func (m *laneMark) holds(now time.Duration, messages int) bool {
	if m.few == 0 || messages < m.few || now-m.last > laneBelief+laneSoon {
		m.since = now
	}
	m.few, m.last = messages, now
	return now-m.since < lanePatience
}

// LaneStep is what follows for a message.
type LaneStep uint8

// What may follow.
const (
	LaneRuns   LaneStep = iota // nothing of its lane is parked
	LaneAsks                   // the ledger is to be asked
	LaneBehind                 // it is to be parked behind the others, or held if that cannot be
	LaneHolds                  // it is to be held for a moment: those before it will soon be over
)

const (
	laneBelief   = time.Second      // an answer holds for so long, as far as it says that something is parked
	laneSoon     = time.Second      // a head that waits for longer keeps its lane
	laneFew      = 100              // so many are soon over
	lanePatience = 5 * time.Second  // for so long that is believed
	laneMarks    = 20_000           // marks from which on what ended is looked for
	laneReload   = 30 * time.Second // between two looks for all lanes of a log
)

// Share is for lanes of which others park at any time: of no lane anything is known, and the ledger is asked each time.
func (l *Lanes) Share() { l.loaded, l.all, l.shared, l.loadAt = true, true, true, math.MaxInt64 }

// Free says that nothing is parked of any lane.
func (l *Lanes) Free() bool { return l.loaded && !l.all && len(l.marks) == 0 }

// ToLoad says whether the ledger is to be asked for all lanes: nothing may begin before, or there may be fewer by now. It returns what is
// to be passed to Load.
func (l *Lanes) ToLoad(now time.Duration) (since uint64, is bool) {
	return l.changes, !l.loaded || (l.all || len(l.marks) > laneMarks) && now >= l.loadAt
}

// Loaded says that Load was called.
func (l *Lanes) Loaded() bool { return l.loaded }

// Load takes what the ledger has answered, after ToLoad; more: there are others.
func (l *Lanes) Load(now time.Duration, since uint64, lanes []uint64, more bool) {
	l.loaded, l.all, l.loadAt = true, more, now+laneReload
	for lane, m := range l.marks {
		if m.changed <= since && m.parking == 0 {
			delete(l.marks, lane)
		}
	}
	if more {
		return
	}
	for _, lane := range lanes {
		l.Mark(lane)
	}
}

// Mark notes that messages of a lane may be parked.
func (l *Lanes) Mark(lane uint64) { l.mark(lane) }

func (l *Lanes) mark(lane uint64) *laneMark {
	m := l.marks[lane]
	if m == nil {
		if l.marks == nil {
			l.marks = map[uint64]*laneMark{}
		}
		m = &laneMark{}
		l.marks[lane] = m
	}
	l.changes++
	m.changed = l.changes
	return m
}

// Parks is Mark for a message that is about to be parked: Parked is to follow when its item is let go of.
func (l *Lanes) Parks(lane uint64) { l.mark(lane).parking++ }

// Parked ends Parks. What was asked for before may not show the message.
func (l *Lanes) Parked(lane uint64) {
	if m := l.marks[lane]; m != nil && m.parking > 0 {
		l.mark(lane).parking--
	}
}

// Look says what follows for a message of a lane, as far as that is known. After LaneAsks it returns what is to be passed to Heard.
func (l *Lanes) Look(now time.Duration, lane uint64) (step LaneStep, headWait time.Duration, since uint64) {
	m := l.marks[lane]
	switch {
	case m == nil && !l.all:
		return LaneRuns, 0, 0
	case m != nil && m.behind && now < m.until:
		return LaneBehind, m.headWait, 0
	}
	return LaneAsks, 0, l.changes
}

// Heard takes the ledger's answer about a lane, and says what follows: how many messages of it are parked, and how long the first waits.
func (l *Lanes) Heard(now time.Duration, lane, since uint64, messages int, headWait time.Duration) LaneStep {
	m := l.marks[lane]
	switch {
	case messages == 0:
		if m != nil && m.changed <= since && m.parking == 0 {
			delete(l.marks, lane)
		}
		return LaneRuns
	case m == nil && !l.shared: // marks of shared lanes nobody would take back
		m = l.mark(lane)
	}
	if messages <= laneFew && headWait <= laneSoon && (m == nil || m.holds(now, messages)) {
		return LaneHolds
	}
	if m != nil {
		m.behind, m.until, m.headWait = true, now+laneBelief, headWait
	}
	return LaneBehind
}

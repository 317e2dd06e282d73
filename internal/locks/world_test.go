package locks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// world is a share group in time that is drawn from a seed: a broker with two partitions, members with a table each, a ledger, and
// faults. Requests take time, are lost on either way, and their answers come late; members crash, freeze and lose their sessions.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Duration
	calm    bool // no further faults
	records []*entry
	peers   []*peer
	way     []*request     // to the broker
	met     map[string]int // what came to pass
}

const (
	worldSpan  = 30 * time.Second
	worldLimit = 4
	worldStep  = 100 * time.Millisecond
	patience   = 5 * time.Second
)

// entry is a record, as the broker and the ledger have it.
type entry struct {
	id, place string
	state     entryState
	holder    handle
	until     time.Duration
	count     int32
	terminal  bool           // the ledger has decided it
	owner     *peer          // its handler runs there
	disturbed map[int32]bool // deliveries that met a fault
}

type entryState uint8

const (
	available entryState = iota
	acquired
	accepted
	givenUp
)

// handle is one delivery to one session of a member.
type handle struct {
	of      *entry
	peer    *peer
	session int
	count   int32
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), met: map[string]int{}}
	for i := range 30 {
		w.records = append(w.records, &entry{id: fmt.Sprintf("r%d", i), place: string("pq"[i%2]), disturbed: map[int32]bool{}})
	}
	for range 3 {
		w.peers = append(w.peers, newPeer(w))
	}
	return w
}

func (w *world) chance(oneIn int) bool { return w.rng.IntN(oneIn) == 0 }

// fault is chance while there are faults.
func (w *world) fault(name string, oneIn int) bool {
	if w.calm || !w.chance(oneIn) {
		return false
	}
	w.met[name]++
	return true
}

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rng.Int64N(int64(b-a)))
}

// step lets locks end, and everybody do what is due.
func (w *world) step() {
	w.now += worldStep
	for _, e := range w.records {
		if e.state == acquired && w.now >= e.until {
			w.putBack(e)
		}
	}
	w.way = slices.DeleteFunc(w.way, func(r *request) bool {
		if w.now >= r.arrives {
			w.arrive(r)
		}
		return w.now >= r.arrives
	})
	for i, p := range w.peers {
		switch {
		case w.fault("crash", 1000):
			p.crash()
			p = newPeer(w)
			w.peers[i] = p
		case w.fault("session lost", 1000):
			p.loseSession()
		case w.fault("freeze", 1000):
			p.disturb()
			p.frozen = w.now + w.between(time.Second, 2*worldSpan)
		}
		if w.now >= p.frozen {
			p.step()
		}
	}
}

// putBack makes a record available, or gives it up.
func (w *world) putBack(e *entry) {
	if e.state = available; e.count < worldLimit {
		return
	}
	if e.state = givenUp; !e.terminal && (!e.disturbed[e.count] || !e.disturbed[e.count-1]) {
		w.t.Errorf("at %s the broker gives %s up at delivery %d, it is not decided, and its last two deliveries met no fault: %v", w.now, e.id, e.count, e.disturbed)
	}
}

// fetch locks what is available of both partitions.
func (w *world) fetch(p *peer) (holds []*Hold) {
	for _, e := range w.records {
		if e.state != available || len(holds) >= 10 {
			continue
		}
		e.count++
		e.state, e.until, e.holder = acquired, w.now+worldSpan, handle{e, p, p.session, e.count}
		if e.count > 1 {
			w.met["again"]++
		}
		holds = append(holds, &Hold{ID: e.id, Place: e.place, Handle: e.holder, Count: e.count, Until: e.until, Span: worldSpan})
	}
	return holds
}

// request is one that was sent: renewals, or acceptances.
type request struct {
	handles  []handle
	accept   bool
	arrives  time.Duration // at the broker; 0: it has, or never does
	answered time.Duration // the client hears of it
	failed   bool          // of an error on the way
	refused  map[string]bool
}

func (w *world) send(handles []handle, accept bool) *request {
	r := &request{handles: handles, accept: accept, refused: map[string]bool{}}
	r.arrives = w.now + w.between(time.Millisecond, 300*time.Millisecond)
	r.answered = r.arrives + w.between(time.Millisecond, 300*time.Millisecond)
	lost, late := w.fault("request lost", 60), w.fault("answer late", 30)
	if r.failed = lost || w.fault("answer lost", 60); r.failed || late {
		r.answered += w.between(0, 3*patience)
		for _, h := range handles {
			h.of.disturbed[h.count] = true
		}
	}
	if !lost {
		w.way = append(w.way, r)
	}
	return r
}

// arrive does what is asked for: all of a partition, or nothing.
func (w *world) arrive(r *request) {
	for _, h := range r.handles {
		if h.of.state != acquired || h.of.holder != h {
			r.refused[h.of.place] = true
		}
	}
	for _, h := range r.handles {
		switch {
		case r.refused[h.of.place]:
			w.met["refused"]++
		case r.accept:
			if h.of.state = accepted; !h.of.terminal {
				w.t.Errorf("at %s %s is accepted, and not decided", w.now, h.of.id)
			}
		default:
			h.of.until = w.now + worldSpan
		}
	}
}

// TestWorlds plays worlds, each from its seed. In each of them:
//   - nothing is accepted that the ledger has not decided, by the client's next poll either;
//   - what the broker gives up is decided, unless a fault met both of its last deliveries;
//   - a handler starts on a lock that the broker holds for it, unless the broker has forgotten it;
//   - there is one request about a record at a time;
//   - when faults end, all is decided, and nothing is left in hand.
func TestWorlds(t *testing.T) {
	t.Parallel()
	met := map[string]int{}
	for seed := range worlds(t) {
		w := newWorld(t, seed)
		for w.now < 5*time.Minute {
			w.step()
		}
		for w.calm = true; w.now < 12*time.Minute; {
			w.step()
		}
		w.end()
		for name, n := range w.met {
			met[name] += n
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%v", met)
	for _, name := range []string{"crash", "session lost", "freeze", "request lost", "answer lost", "answer late", "again", "refused", "lock over", "reserved", "late", "accepted after", "in hand", "polled beside renewals", "moved"} {
		if met[name] == 0 {
			t.Errorf("never met: %s", name)
		}
	}
}

// worlds is how many are played.
func worlds(t *testing.T) uint64 {
	text := os.Getenv("ACKLEDGER_SIM")
	if text == "" {
		return 100
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("ACKLEDGER_SIM must be a number of worlds, is %q", text)
	}
	return n
}

func (w *world) end() {
	for _, e := range w.records {
		left := e.state == givenUp && (e.terminal || e.disturbed[worldLimit] && e.disturbed[worldLimit-1])
		if e.state != accepted && !left {
			w.t.Errorf("%s ends in state %d at delivery %d, decided %v", e.id, e.state, e.count, e.terminal)
		}
	}
	for _, p := range w.peers {
		if p.table.Held() != 0 || p.table.oldest != nil || len(p.table.holds) > 0 {
			w.t.Errorf("%d are left in hand", p.table.Held())
		}
	}
}

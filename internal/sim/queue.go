package sim

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// queue is a broker that is like SQS: a standard queue, or a FIFO queue where there are ordering keys, which are its message groups.
// Whoever receives a message has it for its visibility timeout.
type queue struct {
	*world
	limit   time.Duration // how long a message can be hidden after one receive
	groups  [][]*stored   // of a standard queue: one
	handles map[string]handle
	deleted int
}

// stored is a message of a queue.
type stored struct {
	delivery
	group    string
	until    time.Duration // it is hidden
	receipts []receipt
	deleted  bool
}

// handle is the name of the newest receive.
func (m *stored) handle() string { return fmt.Sprintf("%s#%d", m, len(m.receipts)-1) }

// handle names a receive.
type handle struct {
	*stored
	nth int
}

// receipt is one receive of a message.
type receipt struct {
	by    *receiver
	at    time.Duration
	until time.Duration // the message is hidden, as whoever received it may believe
	void  bool          // the queue ended that before its time: whoever received it can neither extend that nor delete a FIFO message
}

// received is what a receive brings of a message.
type received struct {
	*stored
	handle string
}

func newQueue(w *world) *queue {
	q := &queue{world: w, handles: map[string]handle{}}
	q.limit = w.cfg.Visibility + timeout + w.between(0, 4*w.cfg.Visibility)
	w.report.Messages = w.cfg.Partitions * w.cfg.Messages
	keys := min(max(w.cfg.Keys, 1), w.cfg.Messages)
	for part := range w.cfg.Partitions {
		groups := make([][]*stored, keys)
		for o := range w.cfg.Messages {
			before := message{part, int64(o - keys)}
			m := &stored{delivery: delivery{message: message{part, int64(o)}, before: before, first: !q.fifo() || before.offset < 0}}
			m.key = ledger.Key{Scope: scopeOf(m.message), ID: []byte(m.String())}
			if q.fifo() {
				m.group = fmt.Sprintf("%d/%d", part, o%keys)
			}
			groups[o%keys] = append(groups[o%keys], m)
		}
		q.groups = append(q.groups, groups...)
	}
	return q
}

func (q *queue) fifo() bool { return q.cfg.Keys > 0 }

func (q *queue) begin() { q.after(q.between(time.Second, 3*time.Second), q.expire) }

// expire ends a visibility timeout before its time, now and then: an operator does, or the queue forgets it.
func (q *queue) expire() {
	group := q.groups[q.rnd.IntN(len(q.groups))]
	if m := group[q.rnd.IntN(len(group))]; q.hidden(m) && q.trouble(revocation) {
		q.note(nil, "puts in sight", m.message, 0)
		m.until = q.now
		m.receipts[len(m.receipts)-1].void = true
	}
	if q.now < q.cfg.Calm {
		q.after(q.between(10*time.Millisecond, time.Second), q.expire)
	}
}

func (q *queue) join(p *process) source { return newReceiver(p, q) }

func (q *queue) gone(*process) {}

func (q *queue) done() bool { return q.deleted == q.cfg.Partitions*q.cfg.Messages }

func (q *queue) left() (text string) {
	for _, g := range q.groups {
		for _, m := range g {
			if !m.deleted {
				text += fmt.Sprintf("%s is not deleted after %d receives; ", m, len(m.receipts))
			}
		}
	}
	return text
}

// hidden says whether a message is in flight.
func (q *queue) hidden(m *stored) bool { return q.now < m.until }

// receive hands out at most n messages.
func (q *queue) receive(by *receiver, n int) (out []received) {
	for _, at := range q.rnd.Perm(len(q.groups)) {
		for _, m := range q.next(q.groups[at]) {
			for again := true; again && len(out) < n; again = !q.fifo() && q.trouble(copied) { // twice in one answer
				out = append(out, q.hand(m, by))
			}
		}
	}
	return out
}

// next are the messages of a group that may be handed out. In a FIFO queue there is none while one is in flight; a standard queue
// keeps its order more or less, and hands out what is in flight now and then.
func (q *queue) next(group []*stored) (out []*stored) {
	for _, m := range group {
		switch {
		case m.deleted:
		case q.fifo() && q.hidden(m):
			return nil
		case q.fifo() || !q.hidden(m) && q.rnd.IntN(3) > 0 || q.hidden(m) && q.trouble(copied):
			out = append(out, m)
		}
	}
	return out
}

// hand gives a message to whoever receives it.
func (q *queue) hand(m *stored, to *receiver) received {
	if n := len(m.receipts); n > 0 {
		q.mustHaveBeenKept(m, m.receipts[n-1])
	}
	m.until = q.now + q.cfg.Visibility
	m.receipts = append(m.receipts, receipt{by: to, at: q.now, until: m.until})
	name := m.handle()
	q.handles[name] = handle{m, len(m.receipts) - 1}
	q.note(to.process, "receives", m.message, int64(len(m.receipts)))
	return received{m, name}
}

// stale says whether a handle is not the newest, or its visibility timeout is over.
func (q *queue) stale(h handle) bool { return h.nth != len(h.receipts)-1 || !q.hidden(h.stored) }

// change sets a visibility timeout; false: the handle is of no use any more.
func (q *queue) change(name string, seconds int32) bool {
	h := q.handles[name]
	until := q.now + time.Duration(seconds)*time.Second
	if h.deleted || !q.hidden(h.stored) || q.fifo() && q.stale(h) || until > h.receipts[h.nth].at+q.limit {
		return false
	}
	q.note(h.receipts[h.nth].by.process, "changes the visibility to s", h.message, int64(seconds))
	h.until, h.receipts[h.nth].until = until, until
	return true
}

// delete deletes a message, as far as the handle is good for that. By an old one a standard queue may do it or not.
func (q *queue) delete(name string) {
	h := q.handles[name]
	if h.deleted || q.fifo() && q.stale(h) || h.nth != len(h.receipts)-1 && q.rnd.IntN(2) == 0 {
		return
	}
	q.mustBeTerminal(h.delivery, "what is deleted is finished")
	q.note(h.receipts[h.nth].by.process, "deletes", h.message, 0)
	h.deleted = true
	q.deleted++
}

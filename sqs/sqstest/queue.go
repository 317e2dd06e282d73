package sqstest

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// queue is the state of one queue. The server's lock guards it, and the time is
// a parameter of whatever needs it.
type queue struct {
	server  *Server
	serial  uint64
	name    string
	fifo    bool
	created time.Time
	config  config
	tags    map[string]string

	order    order
	waiting  timeline // delayed and in flight, by due
	retained timeline // all, by sent
	held     [gone]int

	dedup      map[dedupKey]*receipt
	dedupOrder []*receipt // oldest first

	polls   int           // long polls that wait
	changed chan struct{} // closed when a poll should look again
	tasks   []*moveTask   // newest first
	deleted bool
}

// dedupKey is an id within its scope: the queue, or (DeduplicationScope) one group.
type dedupKey struct{ group, id string }

// receipt is what a send is answered with, kept for repeats of it.
type receipt struct {
	key      dedupKey
	at       time.Time
	id       string
	sequence uint64
}

func newQueue(s *Server, name string, c config, now time.Time) *queue {
	q := &queue{
		server: s, serial: s.next(), name: name, fifo: c.fifo, created: now, config: c,
		tags: map[string]string{}, dedup: map[dedupKey]*receipt{}, changed: make(chan struct{}),
		waiting: timeline{
			at:    func(m *message) time.Time { return m.due },
			index: func(m *message) *int { return &m.dueAt },
		},
		retained: timeline{
			at:    func(m *message) time.Time { return m.sent },
			index: func(m *message) *int { return &m.retainsAt },
		},
		order: newFairOrder(s.clock.Now),
	}
	if q.fifo {
		q.order = newGroupOrder()
	}
	return q
}

func (q *queue) arn() string { return arnPrefix + q.name }

// advance brings the queue to the present: what is past its retention goes,
// what is due becomes visible.
func (q *queue) advance(now time.Time) {
	for {
		m, sent := q.retained.first()
		if m == nil || sent.Add(q.config.retention).After(now) {
			break
		}
		q.drop(m)
	}
	for {
		m, due := q.waiting.first()
		if m == nil || due.After(now) {
			break
		}
		q.show(m)
	}
	for len(q.dedupOrder) > 0 && !q.dedupOrder[0].at.Add(dedupWindow).After(now) {
		q.forget()
	}
}

// forget drops the oldest remembered deduplication id.
func (q *queue) forget() {
	delete(q.dedup, q.dedupOrder[0].key)
	q.dedupOrder[0] = nil
	q.dedupOrder = q.dedupOrder[1:]
	q.server.bytes -= dedupEntryBytes
}

// nextEvent is when advance will change something by itself; false if nothing
// is waiting.
func (q *queue) nextEvent() (time.Time, bool) {
	_, due := q.waiting.first()
	m, sent := q.retained.first()
	if m == nil {
		return time.Time{}, false
	}
	end := sent.Add(q.config.retention)
	if due.IsZero() || end.Before(due) {
		return end, true
	}
	return due, true
}

// insert puts a message in: visible, or delayed until due.
func (q *queue) insert(m *message, due, now time.Time) {
	m.queue = q
	m.here = 0
	m.state = visible
	if q.fifo {
		m.sequence = q.server.next()
	}
	if due.After(now) {
		m.state, m.due = delayed, due
		q.waiting.add(m)
	}
	q.held[m.state]++
	q.retained.add(m)
	q.order.enter(m)
}

// remove takes a message out of the queue; it lives on if it is moved.
func (q *queue) remove(m *message) {
	q.held[m.state]--
	q.order.leave(m)
	q.waiting.remove(m)
	q.retained.remove(m)
	m.state = gone
}

// drop removes a message for good.
func (q *queue) drop(m *message) {
	q.remove(m)
	q.server.release(m)
}

func (q *queue) setState(m *message, to state) {
	q.held[m.state]--
	q.held[to]++
	m.state = to
	q.order.changed(m)
}

// hold keeps a message invisible until due.
func (q *queue) hold(m *message, as state, due time.Time) {
	q.waiting.remove(m)
	m.due = due
	q.waiting.add(m)
	if m.state != as {
		q.setState(m, as)
	}
}

// show makes a waiting message visible.
func (q *queue) show(m *message) {
	q.waiting.remove(m)
	q.setState(m, visible)
}

// wake lets waiting polls look again.
func (q *queue) wake() {
	if q.polls > 0 {
		close(q.changed)
		q.changed = make(chan struct{})
	}
}

// send stores a message, or answers with the receipt of the one it repeats.
func (q *queue) send(c content, delaySeconds *int, now time.Time) (receipt, *apiError) {
	if limit := q.config.maxSize; c.size > limit {
		return receipt{}, fail("InvalidParameterValue",
			"One or more parameters are invalid. Reason: Message must be shorter than %d bytes, it has %d.", limit, c.size)
	}
	delay := q.config.delay
	if delaySeconds != nil && (!q.fifo || *delaySeconds != 0) {
		if q.fifo {
			return receipt{}, errValue("DelaySeconds", *delaySeconds, "The request include parameter that is not valid for this queue type.")
		}
		if *delaySeconds < 0 || *delaySeconds > maxDelaySeconds {
			return receipt{}, errValue("DelaySeconds", *delaySeconds, "DelaySeconds must be >= 0 and <= 900.")
		}
		delay = time.Duration(*delaySeconds) * time.Second
	}
	var key dedupKey
	if q.fifo {
		var err *apiError
		if key, err = q.dedupKey(&c); err != nil {
			return receipt{}, err
		}
		if earlier := q.dedup[key]; earlier != nil {
			return *earlier, nil
		}
	} else if c.dedup != "" {
		return receipt{}, errValue("MessageDeduplicationId", c.dedup, "The request include parameter that is not valid for this queue type.")
	}
	m := &message{serial: q.server.next(), id: newID(), content: c, sent: now}
	if err := q.server.reserve(m); err != nil {
		return receipt{}, err
	}
	q.insert(m, now.Add(delay), now)
	r := receipt{key: key, at: now, id: m.id, sequence: m.sequence}
	if q.fifo {
		q.dedup[key] = &r
		q.dedupOrder = append(q.dedupOrder, &r)
		q.server.bytes += dedupEntryBytes
	}
	return r, nil
}

// dedupKey checks and completes a FIFO message's ids.
func (q *queue) dedupKey(c *content) (dedupKey, *apiError) {
	if c.group == "" {
		return dedupKey{}, errMissing("MessageGroupId")
	}
	if c.dedup == "" {
		if !q.config.contentDedup {
			return dedupKey{}, fail("InvalidParameterValue",
				"The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
		}
		sum := sha256.Sum256([]byte(c.body))
		c.dedup = hex.EncodeToString(sum[:])
	}
	key := dedupKey{id: c.dedup}
	if q.config.dedupByGroup {
		key.group = c.group
	}
	return key, nil
}

// receive hands out up to limit messages for the given visibility timeout.
func (q *queue) receive(limit int, visibility time.Duration, now time.Time) []*message {
	var got []*message
	for len(got) < limit {
		room := q.server.options.MaxInFlight - q.held[inFlight]
		picked := q.order.pick(min(limit-len(got), room))
		if len(picked) == 0 {
			return got
		}
		for _, m := range picked {
			if target := q.exhausted(m); target != nil {
				q.deadLetter(m, target, now)
				continue
			}
			m.deliver(now)
			q.hold(m, inFlight, now.Add(visibility))
			got = append(got, m)
		}
	}
	return got
}

// deliver counts a receive and makes the handles before it stale.
func (m *message) deliver(now time.Time) {
	m.receives++
	m.here++
	m.generation++
	m.received = now
	if m.first.IsZero() {
		m.first = now
	}
}

func (m *message) handle() string {
	return handle{queue: m.queue.serial, message: m.serial, generation: m.generation}.String()
}

// exhausted is the dead-letter queue that a message goes to instead of being
// received once more; nil if it has receives left, or the queue has no redrive
// policy whose target exists.
func (q *queue) exhausted(m *message) *queue {
	policy := q.config.redrive
	if policy == nil || m.here < policy.maxReceives {
		return nil
	}
	target := q.server.queues[policy.target]
	if target == nil || target == q || !target.config.allow.permits(q.arn()) {
		return nil
	}
	return target
}

// deadLetter moves a message. Its id stays; the time it was sent stays on a
// standard queue and is renewed on a FIFO one, whose deduplication id becomes
// the message's id.
func (q *queue) deadLetter(m *message, target *queue, now time.Time) {
	q.remove(m)
	m.source = q.arn()
	if target.fifo {
		m.sent = now
		m.content.dedup = m.id
	}
	target.advance(now)
	target.insert(m, now, now)
	target.advance(now)
	target.wake()
}

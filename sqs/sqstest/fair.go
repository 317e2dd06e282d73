package sqstest

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// Thresholds of fair queues (developer guide, "How Amazon SQS fair queues work"). AWS calls them approximate.
const (
	noisyShare    = 0.1             // of what is in flight, or of processing time
	noisyInFlight = 30              // messages of a tenant, below which its share of what is in flight does not count
	quietAfter    = 5 * time.Minute // without a message sent
	recentTime    = time.Minute     // in which processing time loses two thirds of its weight; AWS says "recent", and no more
)

// tenant is what a standard queue has of one MessageGroupId.
type tenant struct {
	group    string
	visible  chain // in the order in which they became so
	delayed  int
	inFlight int
	sent     time.Time // the newest message
	used     float64   // processing time of late, as of the queue's epoch
	noisy    bool
	heapAt   int // position + 1 in fairOrder.quiet; 0: not in it
}

func (t *tenant) empty() bool { return t.visible.head == nil && t.delayed+t.inFlight == 0 }

// fairOrder is a standard queue: visible messages in the order in which they became visible, those of noisy tenants behind all
// others. Of noisy ones the tenant with the fewest messages in flight comes first.
type fairOrder struct {
	now      func() time.Time
	epoch    time.Time // used and usedAll are worth what they say at this time
	usedAll  float64
	inFlight int
	shown    uint64
	tenants  map[string]*tenant
	suspects map[*tenant]struct{} // with so much in flight, or so much processing time, that they may be noisy
	quiet    tenantHeap           // with a visible message, and not noisy
}

func newFairOrder(now func() time.Time) *fairOrder {
	return &fairOrder{now: now, epoch: now(), tenants: map[string]*tenant{}, suspects: map[*tenant]struct{}{}}
}

// of is a message's tenant. Messages without a group share one that is never noisy: to AWS each is a tenant of its own.
func (o *fairOrder) of(m *message) *tenant {
	t := o.tenants[m.content.group]
	if t == nil {
		t = &tenant{group: m.content.group}
		o.tenants[m.content.group] = t
	}
	return t
}

func (o *fairOrder) enter(m *message) {
	t := o.of(m)
	if m.sent.After(t.sent) {
		t.sent = m.sent
	}
	m.counted = gone
	o.changed(m)
}

// changed moves a message from what it was counted as to what it is.
func (o *fairOrder) changed(m *message) {
	t := o.of(m)
	o.discount(t, m)
	m.counted = m.state
	switch m.state {
	case visible:
		o.shown++
		m.shown = o.shown
		t.visible.push(m)
	case delayed:
		t.delayed++
	case inFlight:
		t.inFlight++
		o.inFlight++
		if t.group != "" && t.inFlight >= noisyInFlight {
			o.suspects[t] = struct{}{}
		}
	}
	o.place(t)
}

func (o *fairOrder) leave(m *message) {
	t := o.of(m)
	o.discount(t, m)
	m.counted = gone
	o.place(t)
	o.prune(t)
}

func (o *fairOrder) discount(t *tenant, m *message) {
	switch m.counted {
	case visible:
		t.visible.remove(m)
	case delayed:
		t.delayed--
	case inFlight:
		t.inFlight--
		o.inFlight--
		o.spend(t, m)
	}
}

// spend counts a message's time in flight, once it is over. How AWS measures processing time is not documented: this is the reading
// that a consumer must survive, which counts a message that waits in a consumer's hands.
func (o *fairOrder) spend(t *tenant, m *message) {
	now := o.now()
	o.renew(now)
	end := now
	if m.due.Before(end) {
		end = m.due
	}
	worth := end.Sub(m.received).Seconds() * math.Exp(now.Sub(o.epoch).Seconds()/recentTime.Seconds())
	o.usedAll += worth
	if t.group == "" {
		return
	}
	if t.used += worth; o.share(t) > noisyShare {
		o.suspects[t] = struct{}{}
	}
}

// renew brings the epoch to the present once numbers have grown.
func (o *fairOrder) renew(now time.Time) {
	age := now.Sub(o.epoch)
	if age < 10*recentTime {
		return
	}
	fade := math.Exp(-age.Seconds() / recentTime.Seconds())
	o.epoch = now
	o.usedAll *= fade
	for _, t := range o.tenants {
		t.used *= fade
	}
}

// share is a tenant's part of the processing time of late.
func (o *fairOrder) share(t *tenant) float64 {
	if o.usedAll <= 0 {
		return 0
	}
	return t.used / o.usedAll
}

// judge says of each suspect whether it is noisy now, and forgets those that cannot be.
func (o *fairOrder) judge() {
	now := o.now()
	for t := range o.suspects {
		crowds := t.inFlight >= noisyInFlight && float64(t.inFlight) > noisyShare*float64(o.inFlight)
		slow := o.share(t) > noisyShare
		t.noisy = (crowds || slow) && t.visible.head != nil && now.Sub(t.sent) < quietAfter
		o.place(t)
		if t.inFlight < noisyInFlight && !slow {
			delete(o.suspects, t)
			o.prune(t)
		}
	}
}

// prune forgets a tenant of which nothing is left.
func (o *fairOrder) prune(t *tenant) {
	if _, suspect := o.suspects[t]; !suspect && t.empty() && o.tenants[t.group] == t {
		delete(o.tenants, t.group)
	}
}

// place keeps the heap of quiet tenants.
func (o *fairOrder) place(t *tenant) {
	switch belongs := t.visible.head != nil && !t.noisy; {
	case belongs && t.heapAt > 0:
		heap.Fix(&o.quiet, t.heapAt-1)
	case belongs:
		heap.Push(&o.quiet, t)
	case t.heapAt > 0:
		heap.Remove(&o.quiet, t.heapAt-1)
	}
}

// pick is one message: what comes after it may depend on its being in flight.
func (o *fairOrder) pick(limit int) []*message {
	if limit <= 0 {
		return nil
	}
	o.judge()
	if len(o.quiet) > 0 {
		return []*message{o.quiet[0].visible.head}
	}
	var next *tenant
	for t := range o.suspects {
		if t.noisy && (next == nil || t.before(next)) {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	return []*message{next.visible.head}
}

// before is the order among noisy tenants.
func (t *tenant) before(u *tenant) bool {
	if t.inFlight != u.inFlight {
		return t.inFlight < u.inFlight
	}
	return t.visible.head.shown < u.visible.head.shown
}

// noisyGroups are the noisy tenants now, sorted.
func (o *fairOrder) noisyGroups() []string {
	o.judge()
	var names []string
	for t := range o.suspects {
		if t.noisy {
			names = append(names, t.group)
		}
	}
	slices.Sort(names)
	return names
}

// tenantHeap has the tenant first whose message became visible first.
type tenantHeap []*tenant

func (h tenantHeap) Len() int           { return len(h) }
func (h tenantHeap) Less(i, j int) bool { return h[i].visible.head.shown < h[j].visible.head.shown }
func (h tenantHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i+1, j+1
}
func (h *tenantHeap) Push(x any) {
	t := x.(*tenant)
	*h = append(*h, t)
	t.heapAt = len(*h)
}
func (h *tenantHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.heapAt = 0
	return t
}

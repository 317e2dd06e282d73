package sqstest

import "container/list"

// order decides which messages a queue hands out next: fairOrder for a standard
// queue, groupOrder for a FIFO one. The queue tells it when a message enters,
// changes its state or leaves.
type order interface {
	enter(*message)            // a new message, visible or delayed
	changed(m *message)        // m.state was set
	leave(*message)            // m is gone from the queue
	pick(limit int) []*message // the next deliverable messages, in order; none: there is none. They stay where they are
}

// groupOrder is a FIFO queue: each group in the order sent, and nothing of a
// group while one of its messages is in flight (API reference, ReceiveMessage:
// "While messages with a particular MessageGroupId are invisible, no more
// messages belonging to the same MessageGroupId are returned").
type groupOrder struct {
	groups map[string]*group
	ready  list.List // *group whose head may be handed out
}

type group struct {
	all      chain
	inFlight int
	place    *list.Element // in ready
}

func newGroupOrder() *groupOrder { return &groupOrder{groups: map[string]*group{}} }

func (o *groupOrder) enter(m *message) {
	g := o.groups[m.content.group]
	if g == nil {
		g = &group{}
		o.groups[m.content.group] = g
	}
	g.all.push(m)
	o.settle(g)
}

func (o *groupOrder) changed(m *message) {
	g := o.groups[m.content.group]
	if flying := m.state == inFlight; flying != m.flying {
		m.flying = flying
		if flying {
			g.inFlight++
		} else {
			g.inFlight--
		}
	}
	o.settle(g)
}

func (o *groupOrder) leave(m *message) {
	g := o.groups[m.content.group]
	if m.flying {
		m.flying = false
		g.inFlight--
	}
	g.all.remove(m)
	o.settle(g)
	if g.all.head == nil {
		delete(o.groups, m.content.group)
	}
}

// settle puts a group on the ready list, or takes it off, as its head says.
func (o *groupOrder) settle(g *group) {
	ready := g.inFlight == 0 && g.all.head != nil && g.all.head.state == visible
	switch {
	case ready && g.place == nil:
		g.place = o.ready.PushBack(g)
	case !ready && g.place != nil:
		o.ready.Remove(g.place)
		g.place = nil
	}
}

func (o *groupOrder) pick(limit int) []*message {
	var picked []*message
	for e := o.ready.Front(); e != nil; e = e.Next() {
		for m := e.Value.(*group).all.head; m != nil && m.state == visible; m = m.next {
			if len(picked) >= limit {
				return picked
			}
			picked = append(picked, m)
		}
	}
	return picked
}

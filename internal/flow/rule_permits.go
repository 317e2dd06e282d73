package flow

import (
	"maps"
	"slices"
)

// PermitsConfig is what a rule of permits is built of.
type PermitsConfig struct {
	// Places is how many permits of one key are in hand at most.
	Places int
	// Limit is the key of the item, and how many items with it may be in flight among all workers, from 1 on. It does not change for the
	// item. Where items of a key say different numbers, the newest of them counts. An item without a key is free.
	Limit func(*Item) (key string, most int)
}

// permits is a rule: an item with a key has a place as long as it has a permit, of which there are so many for all workers. The flow asks
// for permits of keys of which items wait, uses one for one item after the other, and gives it back when none waits, or when its turn is
// over. With their session all permits are lost.
type permits struct {
	PermitsConfig
	epoch   uint32 // of the permits in hand
	keys    map[string]*permitted
	wanting queue[*permitted] // of which more may be wanted
	sparing queue[*permitted] // of which some may be to be given back
	left    *permitted        // of which an item has left, or a permit has come, until Next has nobody more
}

// permitted is a key with items, or with permits, in hand.
type permitted struct {
	key    string
	most   int    // as the newest item says
	newest uint32 // its number
	held   int    // permits
	used   int    // of them, by items
	over   int    // of them, whose turn ends with their item
	giving int    // of them, to be given back
	lost   int    // places of items whose permits were lost
	asked  int    // permits that are being asked for
	yields bool   // one was given back while items wait: others are to have a chance
	wants  bool   // in wanting
	spares bool   // in sparing
	line   line
}

func newPermits(c PermitsConfig) *permits {
	return &permits{PermitsConfig: c, epoch: 1, keys: map[string]*permitted{}}
}

// Admit implements Rule.
func (r *permits) Admit(it *Item) bool {
	key, most := r.Limit(it)
	if key == "" {
		return true
	}
	p := r.keys[key]
	if p == nil {
		p = &permitted{key: key, line: newLine(), newest: it.number}
		r.keys[key] = p
	}
	p.says(it.number, most)
	if p.free() > 0 && p.line.len() == 0 {
		r.place(p, it)
		return true
	}
	p.line.push(it)
	r.note(p)
	return false
}

// says takes over what an item says of the limit, unless a newer one has spoken: it may have waited behind others, or for a retry. Under a
// lower limit than before permits may be held that are beyond it, so all are given back, those in use once their items have left.
func (p *permitted) says(number uint32, most int) {
	if int32(number-p.newest) < 0 { // numbers may begin anew
		return
	}
	if most < p.most {
		p.over, p.giving = p.used, p.held-p.used
	}
	p.newest, p.most = number, most
}

func (r *permits) place(p *permitted, it *Item) {
	p.used++
	it.permit = r.epoch
}

// free is how many permits the next items may use.
func (p *permitted) free() int { return p.held - p.used - p.giving }

// wanted is how many more permits make sense. An item whose permit was lost may still run here, so it counts.
func (r *permits) wanted(p *permitted) int {
	return min(p.line.len()-p.asked, min(p.most, r.Places)-p.held-p.lost-p.asked)
}

// spare is how many permits are to be given back.
func (p *permitted) spare() int {
	if p.line.len() == 0 {
		return p.held - p.used
	}
	return p.giving
}

// note lists a key of which permits are wanted or to be given back, and forgets one of which nothing is in hand.
func (r *permits) note(p *permitted) {
	if !p.wants && r.wanted(p) > 0 {
		p.wants = true
		r.wanting.push(p)
	}
	if !p.spares && p.spare() > 0 {
		p.spares = true
		r.sparing.push(p)
	}
	if p.line.len()+p.held+p.lost+p.asked == 0 && !p.wants && !p.spares {
		delete(r.keys, p.key)
	}
}

// Next implements Rule.
func (r *permits) Next() *Item {
	p := r.left
	if p == nil {
		return nil
	}
	if p.free() > 0 && p.line.len() > 0 {
		it := p.line.pop()
		r.place(p, it)
		return it
	}
	r.left = nil
	r.note(p)
	return nil
}

// Leave implements Rule.
func (r *permits) Leave(it *Item) {
	key, _ := r.Limit(it)
	if key == "" {
		return
	}
	p := r.keys[key]
	switch {
	case p.line.leave(it):
	case it.permit != r.epoch:
		p.lost--
	default:
		if p.used--; p.over > 0 {
			p.over--
			p.giving++
			p.yields = true
		}
	}
	r.left = p
}

// Empty implements Rule.
func (r *permits) Empty() bool { return len(r.keys) == 0 && r.left == nil }

// turn ends the turns of all permits of keys of which items wait: each is given back once its item has left.
func (r *permits) turn() {
	for _, p := range r.keys {
		if p.line.len() > 0 {
			p.over = p.used
		}
	}
}

// lose notes that all permits are lost.
func (r *permits) lose() {
	r.epoch++
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		p := r.keys[key]
		p.lost += p.used
		p.held, p.used, p.over, p.giving, p.asked = 0, 0, 0, 0, 0
		r.note(p)
	}
}

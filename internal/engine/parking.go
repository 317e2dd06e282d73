package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// How the ledger is asked for what is parked.
const (
	parkRest  = 10 * time.Second // between two counts of a scope
	parkShare = 20               // the rest is so many times as long as the counting took
	parkPart  = 10               // once this part of the room was used here, it is counted sooner: others use it as well
	parkBytes = 16 << 20         // of what one look returns
	parkAhead = 100              // that many messages of it are in hand at least, before more are asked for
	parkSoon  = time.Second      // what waits for less is never parked
	parkPlace = 10               // such a part of MaxHeld is always there for what is parked
)

// parking has retries wait in the ledger, and gets what is due from there. The ledger is a second broker to the engine: what it hands
// out is offered like any delivery, and claimed, and only the claim says whose it is.
type parking struct {
	*kernel
	life   *life
	cfg    *Config
	ledger ledger.Parking

	// The kernel's lock guards these.
	scopes map[string]*parkedScope
	inHand int  // of what it has offered
	waited bool // something of the broker's waits for what the ledger has
}

// parkedScope is what is known of one scope.
type parkedScope struct {
	ledger.ParkedStats // as of the last answer, and what was parked since
	known              bool
	countAt            time.Time // the next time
	lookAt             time.Time // the next time, as far as is known
	told               bool      // that it is full was logged

	turn   chan struct{}      // of whoever counts sooner
	until  ledger.ParkedStats // from there on it is counted sooner,
	soonAt time.Time          // but not before
}

// stale says that so much was parked here since the last count that it is time for another one.
func (s *parkedScope) stale() bool {
	return s.known && !s.Fits(s.until.Messages, s.until.Bytes) && !time.Now().Before(s.soonAt)
}

// newParking is nil where nothing is parked.
func newParking(k *kernel, l *life, cfg *Config) *parking {
	keeper, ok := cfg.Ledger.(ledger.Parking)
	if !ok || cfg.Shown.Revive == nil || cfg.Options.NoParking {
		return nil
	}
	p := &parking{kernel: k, life: l, cfg: cfg, ledger: keeper, scopes: map[string]*parkedScope{}}
	for _, scope := range cfg.Shown.Scopes {
		p.scopes[scope] = &parkedScope{turn: make(chan struct{}, 1)}
	}
	return p
}

// may says whether a message may wait in the ledger: it has no order that it would keep others from, or those are parked behind it, and is
// not of there.
func (p *parking) may(it *Item) bool {
	return p != nil && !it.Parked && (it.OrderingKey == "" || it.Lane.Of != nil) && it.Invalid == nil && p.ledger.Parks()
}

// takes says whether a retry of so many bytes waits there: it waits long, or what is in hand is half used up, or it must, and the scope has
// room.
func (p *parking) takes(scope string, after time.Duration, weight int64, must bool) bool {
	if after < parkSoon || after > ledger.MaxPark {
		return false
	}
	p.learn(scope, must || after >= p.cfg.Options.ParkAfter)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.scopes[scope]
	if s == nil || !s.known {
		return false
	}
	items, _, bytes := p.flow.Held()
	crowded := items > p.cfg.Options.MaxHeld/2 || bytes.Room() < p.cfg.Options.MaxHeldBytes/2
	if !must && after < p.cfg.Options.ParkAfter && !crowded {
		return false
	}
	return p.fits(s, scope, after, weight)
}

// learn asks how much of a scope is parked if much was parked since the last answer; or, where first says so, if none has come yet: what
// comes right after a start may wait for hours. An error the loop meets as well, and says.
func (p *parking) learn(scope string, first bool) {
	p.mu.Lock()
	s := p.scopes[scope]
	first = first && s != nil && s.countAt.IsZero()
	again := s != nil && s.stale()
	p.mu.Unlock()
	if again { // one asks, and the others wait
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
	}
	if first || again {
		_ = p.count(scope)
	}
}

// follows is takes for a message that is parked behind others of its lane. If these are over meanwhile it is due, and looked for.
func (p *parking) follows(scope string, weight int64) bool {
	p.learn(scope, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.scopes[scope]
	return s != nil && s.known && p.fits(s, scope, parkSoon, weight)
}

// fits says whether a scope has room for a message, which is looked for then. The kernel's lock is held.
func (p *parking) fits(s *parkedScope, scope string, after time.Duration, weight int64) bool {
	if !s.Fits(int64(p.cfg.Options.ParkedMost), p.cfg.Options.ParkedBytes) {
		if !s.told {
			s.told = true
			p.log.Warn("the ledger has as many parked messages as it may: retries wait in memory until there is room",
				zap.String("scope", scope), zap.Int64("messages", s.Messages), zap.Int64("bytes", s.Bytes))
		}
		return false
	}
	s.Messages, s.Bytes = s.Messages+1, s.Bytes+weight
	p.lookIn(s, after)
	return true
}

// isWaitedFor is told that something of the broker's waits for what the ledger has.
func (p *parking) isWaitedFor() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waited {
		p.waited = true
		signal(p.wait.due)
	}
}

// lookIn has a scope be looked at in so long at the latest. The kernel's lock is held.
func (p *parking) lookIn(s *parkedScope, after time.Duration) {
	if at := time.Now().Add(after); at.Before(s.lookAt) {
		s.lookAt = at
		signal(p.wait.due)
	}
}

// full says of which scopes no more may be parked. The kernel's lock is held.
func (p *parking) full() (texts []string) {
	if p == nil {
		return nil
	}
	for scope, s := range p.scopes {
		if s.known && !s.Fits(int64(p.cfg.Options.ParkedMost), p.cfg.Options.ParkedBytes) {
			texts = append(texts, fmt.Sprintf("%d messages of scope %q are parked in the ledger, %d bytes: Options.ParkedMost is %d, Options.ParkedBytes %d; "+
				"further retries wait in memory", s.Messages, scope, s.Bytes, p.cfg.Options.ParkedMost, p.cfg.Options.ParkedBytes))
		}
	}
	return texts
}

// counted is what is known of each scope. The kernel's lock is held.
func (p *parking) counted() map[string]ledger.ParkedStats {
	if p == nil {
		return nil
	}
	all := map[string]ledger.ParkedStats{}
	for scope, s := range p.scopes {
		if s.known {
			all[scope] = s.ParkedStats
		}
	}
	return all
}

// loop looks for what is due until the engine closes: when the next is, and at least once in a third of a lease, since others park as
// well.
func (p *parking) loop() {
	for failed := 0; ; {
		rest, err := p.round()
		if err != nil && p.life.gone.Err() == nil {
			if failed++; failed == 1 {
				p.log.Warn("what is parked cannot be read", zap.Error(err))
			}
			rest = outage(failed)
		} else {
			failed = 0
		}
		t := time.NewTimer(rest)
		select {
		case <-t.C:
		case <-p.wait.due:
		case <-p.life.gone.Done():
		}
		t.Stop()
		if p.life.gone.Err() != nil {
			return
		}
	}
}

// round looks once in each scope that it is time for, and says in how long to look again.
func (p *parking) round() (rest time.Duration, err error) {
	idle := p.cfg.Options.Lease / 3
	rest = idle
	if !p.ledger.Parks() {
		return rest, nil
	}
	for _, scope := range p.cfg.Shown.Scopes {
		if err := p.count(scope); err != nil {
			return 0, err
		}
		p.mu.Lock()
		wait := time.Until(p.scopes[scope].lookAt)
		p.mu.Unlock()
		if wait <= 0 {
			if wait, err = p.look(scope, idle); err != nil {
				return 0, err
			}
		}
		rest = min(rest, wait)
	}
	return rest, nil
}

// count asks how much of a scope is parked, now and then, and once much was parked here.
func (p *parking) count(scope string) error {
	s := p.scopes[scope]
	p.mu.Lock()
	due := !time.Now().Before(s.countAt) || s.stale()
	p.mu.Unlock()
	if !due {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(p.life.gone, callTimeout(&p.cfg.Options))
	defer cancel()
	stats, err := p.ledger.ParkedIn(ctx, scope)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard(s, stats, err, parkShare*time.Since(began))
	return err
}

// heard takes in a count, after which there is a rest. The kernel's lock is held.
func (p *parking) heard(s *parkedScope, stats ledger.ParkedStats, err error, rest time.Duration) {
	now := time.Now()
	sooner := now.Before(s.countAt)
	s.soonAt = now.Add(rest)
	if err != nil {
		s.known = s.known && sooner
		return
	}
	if sooner { // what was parked here is perhaps on its way
		stats.Messages, stats.Bytes = max(stats.Messages, s.Messages), max(stats.Bytes, s.Bytes)
	} else {
		s.countAt = now.Add(max(parkRest, rest))
	}
	most, bytes := int64(p.cfg.Options.ParkedMost), p.cfg.Options.ParkedBytes
	s.ParkedStats, s.known = stats, true
	s.until.Messages, s.until.Bytes = stats.Messages+max((most-stats.Messages)/parkPart, 1), stats.Bytes+max((bytes-stats.Bytes)/parkPart, 1)
	s.told = s.told && !s.Fits(most, bytes)
}

// most is how many messages of the ledger's own may be in hand.
func (p *parking) most() int {
	o := &p.cfg.Options
	n := max(2*o.Concurrency, parkAhead)
	if o.Park { // what is claimed is to begin at once
		n = o.Concurrency
	}
	return min(n, ledger.MaxDue)
}

// wanted is how many messages of the ledger's own can be taken in, and how many bytes. There is room for some always, beyond the bounds of what
// is in hand: a backlog takes all of these, and so do retries that wait in memory, for hours. While the breaker is open that is one to try, since
// nothing else may be left to try. The kernel's lock is held.
func (p *parking) wanted() (n int, size int64) {
	items, _, bytes := p.flow.Held()
	most, held := p.most(), p.cfg.Options.MaxHeld
	n, size = min(most, max(held-items+p.inHand, held/parkPlace, 1))-p.inHand, min(bytes.Room()/2, parkBytes) // a message counts two copies
	first := p.waited && p.inHand == 0
	if p.inHand == 0 {
		size = max(size, 1) // which brings one, however large
	}
	switch {
	case p.flow.MayStart():
		return n, size
	case p.flow.Hungry(p.now()) || first && p.flow.MayWork():
		return min(n, 1), size
	default:
		return 0, 0
	}
}

// look takes in what is due of a scope, and says when to look again.
func (p *parking) look(scope string, idle time.Duration) (time.Duration, error) {
	p.mu.Lock()
	n, size := p.wanted()
	s, was := p.scopes[scope], p.scopes[scope].lookAt
	if n > 0 && size > 0 {
		s.lookAt = time.Now().Add(idle) // what is parked, or ends, meanwhile has it be sooner
	}
	p.mu.Unlock()
	if n <= 0 || size <= 0 {
		return idle, nil // back wakes it when there is room, and what is paused goes on soon enough
	}
	ctx, cancel := context.WithTimeout(p.life.gone, callTimeout(&p.cfg.Options))
	defer cancel()
	reply, err := p.ledger.Due(ctx, ledger.DueRequest{Scope: scope, Most: n, Bytes: size, Hide: p.cfg.Options.Lease})
	if err != nil {
		p.mu.Lock()
		s.lookAt = was
		p.mu.Unlock()
		return 0, err
	}
	wait := idle
	if reply.Wait >= 0 {
		wait = min(reply.Wait, idle)
	}
	if wait == 0 && len(reply.Messages) == 0 { // others are at it
		wait = parkSoon / 10
	}
	p.mu.Lock()
	if at := time.Now().Add(wait); at.Before(s.lookAt) {
		s.lookAt = at
	}
	p.mu.Unlock()
	p.offer(reply.Messages)
	return wait, nil
}

// offer makes deliveries of what the ledger has handed out. What cannot be opened now is handed out again.
func (p *parking) offer(list []ledger.Parked) {
	items := make([]*Item, 0, len(list))
	for i := range list {
		if err := p.open(&list[i].Archive); err != nil {
			p.log.Error("a parked message cannot be opened: it is tried again", zap.String("message_id", string(list[i].Key.ID)), zap.Error(err))
			continue
		}
		items = append(items, p.revive(&list[i]))
	}
	if len(items) == 0 {
		return
	}
	p.do(func(f *flow.Flow, now time.Duration) {
		clock := p.at(now)
		p.inHand += len(items)
		for _, it := range items {
			it.came(clock)
			f.Offer(now, &it.Item)
		}
	})
}

// open has the user's cipher make a message readable.
func (p *parking) open(a *ledger.Archive) error {
	if !a.Sealed() {
		return nil
	}
	o := &p.cfg.Options
	if o.Cipher == nil {
		return fmt.Errorf("engine: it is sealed, and Options.Cipher is not set")
	}
	ctx, cancel := context.WithTimeout(p.life.gone, o.DeadLetterTimeout)
	defer cancel()
	sealed := *a
	opened, err := outcomeOf(ctx, "Options.Cipher", apart("Options.Cipher", func() (*ledger.Archive, error) {
		plain := sealed
		return &plain, plain.Open(ctx, o.Cipher)
	}), endsIn)
	if err == nil {
		*a = *opened
	}
	return err
}

// revive makes a delivery of a parked message. Its broker has it no more, so nothing of it ends there.
func (p *parking) revive(m *ledger.Parked) *Item {
	it := &Item{Delivery: m.Delivery, past: past{laned: m.Lane != nil}}
	empty := m.UnmarkEmptyKey()
	if it.Msg = p.cfg.Shown.Revive(m); empty {
		it.Msg.Key = []byte{}
	}
	content := Content{Key: it.Msg.Key, Body: m.Body, Headers: m.Headers}
	own := it.Msg.Clone()
	it.Msg = &own
	it.Original = func(*Item) Content { return content }
	it.Identity = Identity{Key: m.Key, Fingerprint: m.Fingerprint, Parked: true, Copy: true}
	it.Tenant, it.Nameless = tenantOf(&p.cfg.Options, it.Msg.Group, it.Msg)
	if o := &p.cfg.Options; o.Limit != nil {
		it.Limit, it.LimitMost, it.Invalid = limitOf(o, it.Msg)
	}
	it.Size = 2*int64(m.Size()) + reviveOverhead
	return it
}

// reviveOverhead is about what a message takes in memory beside its bytes.
const reviveOverhead = 2000

// back notes that items of its own are let go of. What ends was perhaps the first of a lane, and the next one is due; what was put off again
// is due when it says. The kernel's lock is not held.
func (p *parking) back(list []flow.Finished) {
	p.mu.Lock()
	p.inHand -= len(list)
	for i := range list {
		s := p.scopes[list[i].Item.Key.Scope]
		switch it, v := list[i].Item.Of.(*Item), list[i].Verdict; {
		case s == nil:
		case !v.Ack:
			p.lookIn(s, v.Again)
		case it.laned:
			p.lookIn(s, 0)
		}
	}
	low := p.inHand < p.most()/2
	p.mu.Unlock()
	if low {
		signal(p.wait.due)
	}
}

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

const (
	permitWindow  = 365 * 24 * time.Hour // of such a row
	permitTurn    = time.Second          // after which a permit goes to others
	permitYield   = 50 * time.Millisecond
	permitRestMin = 20 * time.Millisecond // before what was not to be had is asked for again, doubling
	permitRestMax = 250 * time.Millisecond
)

// permitPrint is the fingerprint of all permits: they have no body.
var permitPrint = ledger.BodyFingerprint(nil)

// permits asks the ledger for the permits that the flow wants, and gives them back. A key has as many rows as its limit says. A permit is
// ours as a message is: while its row names this worker's owner, which is live. So it is free once that has left, or was declared dead.
type permits struct {
	*kernel
	lease   *lease
	claimer *claimer

	sess *session            // of what is held; the kernel's lock guards both
	held map[string][]permit // by key
}

// permit is a row that is ours.
type permit struct {
	row    int
	ticket ledger.Ticket
}

// permitAsk is a row that is asked for: of which of the wanted, and its number.
type permitAsk struct{ of, row int }

// ask asks for permits until the engine closes.
func (p *permits) ask() {
	var wanted []flow.PermitCount
	var of *flow.Session
	rest := permitRestMin
	for p.await(p.wait.want, func() (any bool) { of, any = p.flow.NextWanted(&wanted); return any }) {
		for _, w := range wanted {
			if w.Yields {
				p.lease.nap(permitYield)
				break
			}
		}
		if p.askOnce(sessionOf(of), of, wanted) {
			rest = permitRestMin
			continue
		}
		p.lease.nap(rest + rand.N(rest))
		rest = min(2*rest, permitRestMax)
	}
}

// askOnce asks until the ledger has answered, or the session is lost. It says whether all that was wanted has come.
func (p *permits) askOnce(sess *session, of *flow.Session, wanted []flow.PermitCount) (all bool) {
	asks := p.choose(sess, wanted)
	got := make([][]permit, len(wanted))
	failed := false
	for n := 1; len(asks) > 0; n++ {
		entries := make([]ledger.Entry, len(asks))
		for i, a := range asks {
			entries[i] = ledger.Entry{
				Key: permitKey(wanted[a.of].Key, a.row), Fingerprint: permitPrint, Delivery: []byte("permit"), Window: permitWindow, Solo: true,
			}
		}
		var answers []ledger.Claim
		deadline, err := p.claimer.call(sess, func(ctx context.Context) (err error) {
			answers, err = sess.owner.Claim(ctx, entries)
			return err
		})
		if err == nil {
			asks = p.answered(wanted, asks, answers, got, n > 1)
			if len(asks) > 0 {
				p.lease.nap(permitRestMin)
			}
		} else if ledger.IsLost(err) || !ledger.Unknown(err) {
			failed, asks = true, nil
		} else {
			p.lease.nap(time.Until(deadline))
			p.lease.nap(outage(n))
		}
		if p.lease.over(sess) {
			break
		}
	}
	p.mu.Lock()
	defer p.unlock()
	all = !failed
	for i, w := range wanted {
		p.keep(sess, w.Key, got[i])
		p.flow.Permitted(of, w, len(got[i]))
		all = all && len(got[i]) >= w.N
	}
	return all
}

// answered takes in what the ledger has answered, and returns what is to be asked again: a row that may be ours, since the answer to an
// earlier call was lost, and of which nothing is said.
func (p *permits) answered(wanted []flow.PermitCount, asks []permitAsk, answers []ledger.Claim, got [][]permit, doubt bool) (again []permitAsk) {
	for i, a := range asks {
		switch c := &answers[i]; {
		case c.Answer == ledger.Run || c.Answer == ledger.Spent: // spent by crashes of its holders, it is ours all the same
			got[a.of] = append(got[a.of], permit{a.row, c.Ticket})
		case c.Err != nil:
			p.log.Error("the ledger refuses a permit", zap.String("key", wanted[a.of].Key), zap.Error(c.Err))
		case doubt && c.Answer == ledger.Busy && c.Wait <= 0:
			again = append(again, a)
		}
	}
	return again
}

func permitKey(key string, row int) ledger.Key {
	return ledger.Key{Scope: ledger.PermitScope, ID: fmt.Appendf(nil, "%s/%d", key, row)}
}

// mostRows is how many rows one call asks for at most, but for one of each key.
const mostRows = 1000

// choose draws rows to ask for that are not held: as many as are wanted, and as many again, since others may have some of them.
func (p *permits) choose(sess *session, wanted []flow.PermitCount) (asks []permitAsk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range wanted {
		mine := map[int]bool{}
		if p.sess == sess {
			for _, h := range p.held[w.Key] {
				mine[h.row] = true
			}
		}
		n := min(2*w.N, w.Most, max(mostRows-len(asks), 1))
		for _, row := range rand.Perm(w.Most) {
			if !mine[row] && n > 0 {
				asks = append(asks, permitAsk{i, row})
				n--
			}
		}
	}
	return asks
}

// keep notes permits as ours. The kernel's lock is held.
func (p *permits) keep(sess *session, key string, got []permit) {
	if p.sess != sess {
		p.sess, p.held = sess, map[string][]permit{}
	}
	if len(got) > 0 {
		p.held[key] = append(p.held[key], got...)
	}
}

// giveBack gives permits back until the engine closes.
func (p *permits) giveBack() {
	var spare []flow.PermitCount
	var sets []ledger.Settlement
	var of *flow.Session
	for p.await(p.wait.spare, func() (any bool) {
		if of, any = p.flow.NextSpare(&spare); any {
			sets = p.take(sessionOf(of), spare)
		}
		return any
	}) {
		p.release(sessionOf(of), sets)
	}
}

// take takes permits of a session out of what is held; those of one that was lost are free. The kernel's lock is held.
func (p *permits) take(sess *session, spare []flow.PermitCount) (sets []ledger.Settlement) {
	if p.sess != sess {
		return nil
	}
	for _, c := range spare {
		held := p.held[c.Key]
		for _, h := range held[:c.N] {
			sets = append(sets, ledger.Settlement{Ticket: h.ticket, Kind: ledger.Release})
		}
		if held = held[c.N:]; len(held) == 0 {
			delete(p.held, c.Key)
		} else {
			p.held[c.Key] = held
		}
	}
	return sets
}

// release tells the ledger that permits are free, until it has answered for each or the session is over, which frees them.
func (p *permits) release(sess *session, sets []ledger.Settlement) {
	for n := 1; len(sets) > 0 && !p.lease.over(sess); n++ {
		ctx, cancel := context.WithTimeout(p.lease.gone, callTimeout(p.lease.opt))
		errs, err := sess.owner.Settle(ctx, sets)
		cancel()
		if ledger.IsLost(err) {
			p.lease.lose(sess)
			return
		}
		if p.lease.note(err); err == nil {
			kept := sets[:0]
			for i, e := range errs {
				if e != nil && !ledger.IsLost(e) {
					kept = append(kept, sets[i])
				}
			}
			sets = kept
		}
		if len(sets) > 0 {
			p.lease.nap(outage(n))
		}
	}
}

// turns ends the turns of permits for which others may wait, until the engine closes.
func (p *permits) turns() {
	for p.lease.gone.Err() == nil {
		p.lease.nap(permitTurn)
		p.do(func(f *flow.Flow, _ time.Duration) { f.PermitTurn() })
	}
}

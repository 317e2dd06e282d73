package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// limitKept is the promise of limits.
const limitKept = "of a key with a limit so many messages run at most, of all workers that hold their leases"

// drawLimit draws how many messages of a tenant may run at once among all workers; 0: any number. It draws by itself, so that no other
// world changes.
func drawLimit(seed uint64) int {
	rnd := rand.New(rand.NewPCG(seed, mix(0x401e, 0x9e)))
	if rnd.IntN(100) < 20 {
		return 1 + rnd.IntN(3)
	}
	return 0
}

// limits is the flow's part of it. Of callers none has a limit, and where the ledger has no clock it is the stores' tests that say so.
func (w *world) limits() flow.PermitsConfig {
	if w.cfg.Limit == 0 || w.cfg.Watched || w.cfg.Callers > 0 {
		return flow.PermitsConfig{}
	}
	return flow.PermitsConfig{Places: 4, Limit: func(it *flow.Item) (string, int) { return of(it).tenant(), w.cfg.Limit }}
}

// permit is a row of the ledger that is ours.
type permit struct {
	row    string
	ticket ledger.Ticket
}

// want asks for permits.
func (p *process) want() bool {
	if p.wanting {
		return false
	}
	var wanted []flow.PermitCount
	s, any := p.flow.NextWanted(&wanted)
	if !any {
		return false
	}
	p.wanting = true
	sess, rows := sessionOf(s), [][]string{}
	for _, w := range wanted {
		var free []string
		for i := range w.Most {
			if row := fmt.Sprintf("%s/%d", w.Key, i); !p.hasPermit(sess, w.Key, row) {
				free = append(free, row)
			}
		}
		p.rnd.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
		rows = append(rows, free[:min(w.N+p.rnd.IntN(2), len(free))])
	}
	p.askPermits(s, wanted, rows, func(missing bool) {
		rest := time.Duration(0)
		if missing {
			rest = p.between(20*time.Millisecond, 250*time.Millisecond)
		}
		p.after(rest, func() { p.wanting = false })
	})
	return true
}

func (p *process) hasPermit(sess *session, key, row string) bool {
	for _, t := range sess.permits[key] {
		if t.row == row {
			return true
		}
	}
	return false
}

// askPermits claims rows until the ledger has answered, or the session is lost.
func (p *process) askPermits(s *flow.Session, wanted []flow.PermitCount, rows [][]string, then func(missing bool)) {
	sess, sent := sessionOf(s), p.now
	var entries []ledger.Entry
	for _, some := range rows {
		for _, row := range some {
			entries = append(entries, ledger.Entry{
				Key: ledger.Key{Scope: ledger.PermitScope, ID: []byte(row)}, Fingerprint: ledger.BodyFingerprint(nil), Delivery: []byte("permit"),
				Window: p.hours(window), Solo: true,
			})
		}
	}
	var answers []ledger.Claim
	p.call("a claim of permits", func() (err error) {
		if answers, err = sess.owner.Claim(context.Background(), entries); err == nil {
			p.answers.claims(answers)
		}
		return err
	}, func(err error) {
		switch {
		case ledger.IsLost(err):
			p.lose(sess)
			then(false)
		case err != nil && ledger.Unknown(err):
			p.reachable(false)
			p.after(sent+timeout-p.now+p.outage(), func() {
				if s.Lost() || p.flow.Closed() {
					then(false)
				} else {
					p.askPermits(s, wanted, rows, then)
				}
			})
		default:
			p.reachable(err == nil)
			then(p.permitted(s, wanted, rows, answers) || err != nil)
		}
	})
}

// permitted hands what the ledger has answered to the flow. It says whether some are missing.
func (p *process) permitted(s *flow.Session, wanted []flow.PermitCount, rows [][]string, answers []ledger.Claim) (missing bool) {
	sess := sessionOf(s)
	for i, w := range wanted {
		got := 0
		for _, row := range rows[i] {
			if len(answers) == 0 {
				break
			}
			a := answers[0]
			answers = answers[1:]
			if a.Answer == ledger.Run || a.Answer == ledger.Spent {
				got++
				sess.permits[w.Key] = append(sess.permits[w.Key], permit{row, a.Ticket})
			}
		}
		p.report.Permits += got
		missing = missing || got < w.N
		p.flow.Permitted(s, w, got)
	}
	return missing
}

// spare gives permits back.
func (p *process) spare() bool {
	var spare []flow.PermitCount
	s, any := p.flow.NextSpare(&spare)
	if !any {
		return false
	}
	sess := sessionOf(s)
	var sets []ledger.Settlement
	for _, c := range spare {
		of := sess.permits[c.Key]
		for _, t := range of[:c.N] {
			sets = append(sets, ledger.Settlement{Ticket: t.ticket, Kind: ledger.Release})
		}
		sess.permits[c.Key] = of[c.N:]
	}
	p.givePermits(s, sets)
	return true
}

// givePermits releases rows until the ledger has answered.
func (p *process) givePermits(s *flow.Session, sets []ledger.Settlement) {
	sess := sessionOf(s)
	p.call("a release of permits", func() error {
		_, err := sess.owner.Settle(context.Background(), sets)
		return err
	}, func(err error) {
		switch {
		case ledger.IsLost(err):
			p.lose(sess)
		case err != nil && !s.Lost():
			p.reachable(false)
			p.after(p.outage(), func() { p.givePermits(s, sets) })
		}
	})
}

// yieldPermits ends the turns of permits now and then.
func (p *process) yieldPermits() {
	p.flow.PermitTurn()
	p.after(p.between(50*time.Millisecond, time.Second), p.yieldPermits)
}

// mustKeepLimit checks a handler that begins against all that run, of whatever process, and whose lease is not over.
func (w *world) mustKeepLimit(r *running) {
	if w.limits().Limit == nil {
		return
	}
	n := 1
	for _, k := range w.workers {
		if p := k.process; p != nil {
			n += p.runs(func(o *running) bool {
				return o != r && of(o.it).tenant() == of(r.it).tenant() && o.sess == p.sess && w.now <= o.sess.until
			})
		}
	}
	if n > w.cfg.Limit {
		w.breaks(of(r.it).message, limitKept+": %s begins %s, the %d. of %d", r.by, of(r.it), n, w.cfg.Limit)
	}
}

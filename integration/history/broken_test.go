package history_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// broken is a ledger that breaks one rule. Its owners call the real ones.
type broken struct {
	*memory.Ledger
	claim  func(o *brokenOwner, ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error)
	settle func(o *brokenOwner, ctx context.Context, settlements []ledger.Settlement) ([]error, error)
	beat   func(o *brokenOwner, ctx context.Context) (time.Duration, error)

	mu      sync.Mutex
	owners  []ledger.Owner
	holders map[[ledger.KeySize]byte]holder
	settled int
}

// holder is who was answered Run last, and with which ticket.
type holder struct {
	owner  ledger.Owner
	ticket ledger.Ticket
}

type brokenOwner struct {
	ledger.Owner
	of *broken
}

func (b *broken) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := b.Ledger.Join(ctx, lease)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owners = append(b.owners, o)
	return &brokenOwner{o, b}, nil
}

func (o *brokenOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	claim := o.of.claim
	if claim == nil {
		return o.Owner.Claim(ctx, entries)
	}
	return claim(o, ctx, entries)
}

func (o *brokenOwner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	settle := o.of.settle
	if settle == nil {
		return o.Owner.Settle(ctx, settlements)
	}
	return settle(o, ctx, settlements)
}

func (o *brokenOwner) Beat(ctx context.Context) (time.Duration, error) {
	if beat := o.of.beat; beat != nil {
		return beat(o, ctx)
	}
	return o.Owner.Beat(ctx)
}

// asking changes the entries before they are asked.
func asking(change func(e *ledger.Entry)) func(*brokenOwner, context.Context, []ledger.Entry) ([]ledger.Claim, error) {
	return func(o *brokenOwner, ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
		entries = slices.Clone(entries)
		for i := range entries {
			change(&entries[i])
		}
		return o.Owner.Claim(ctx, entries)
	}
}

// answering changes the answers.
func answering(change func(c *ledger.Claim)) func(*brokenOwner, context.Context, []ledger.Entry) ([]ledger.Claim, error) {
	return func(o *brokenOwner, ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
		claims, err := o.Owner.Claim(ctx, entries)
		for i := range claims {
			change(&claims[i])
		}
		return claims, err
	}
}

// settling changes the settlements before they are sent.
func settling(change func(s *ledger.Settlement)) func(*brokenOwner, context.Context, []ledger.Settlement) ([]error, error) {
	return func(o *brokenOwner, ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
		settlements = slices.Clone(settlements)
		for i := range settlements {
			change(&settlements[i])
		}
		return o.Owner.Settle(ctx, settlements)
	}
}

// brokenStores break one rule each.
var brokenStores = map[string]func(b *broken){
	"a settle without a look at the token": func(b *broken) {
		b.holders = map[[ledger.KeySize]byte]holder{}
		b.claim = func(o *brokenOwner, ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
			claims, err := o.Owner.Claim(ctx, entries)
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, c := range claims {
				if c.Token > 0 {
					b.holders[c.Ticket.Sum()] = holder{o.Owner, c.Ticket}
				}
			}
			return claims, err
		}
		b.settle = func(o *brokenOwner, ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
			errs := make([]error, len(settlements))
			for i, s := range settlements {
				b.mu.Lock()
				h, there := b.holders[s.Ticket.Sum()]
				b.mu.Unlock()
				if !there || s.Ticket.IsMismatch() {
					h = holder{o.Owner, s.Ticket}
				}
				s.Ticket = h.ticket
				one, err := h.owner.Settle(ctx, []ledger.Settlement{s})
				if err != nil {
					return nil, ledger.MarkUnknown(err)
				}
				errs[i] = one[0]
			}
			return errs, nil
		}
	},
	"a settle that is lost": func(b *broken) {
		b.settle = func(o *brokenOwner, ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
			b.mu.Lock()
			b.settled++
			lose := b.settled%7 == 0
			b.mu.Unlock()
			if lose {
				return make([]error, len(settlements)), nil
			}
			return o.Owner.Settle(ctx, settlements)
		}
	},
	"a refused settle that is written": func(b *broken) {
		b.settle = func(o *brokenOwner, ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
			errs, err := o.Owner.Settle(ctx, settlements)
			if ledger.Unknown(err) {
				err = errors.New("nothing happened")
			}
			return errs, err
		}
	},
	"done instead of busy": func(b *broken) {
		b.claim = answering(func(c *ledger.Claim) {
			if c.Answer == ledger.Busy && c.Wait > 0 {
				*c = ledger.Claim{Answer: ledger.Done, Outcome: ledger.Outcome{State: ledger.Succeeded}}
			}
		})
	},
	"busy for no reason": func(b *broken) {
		b.claim = answering(func(c *ledger.Claim) {
			if c.Answer == ledger.Done {
				*c = ledger.Claim{}
			}
		})
	},
	"a token that does not grow": func(b *broken) {
		b.claim = answering(func(c *ledger.Claim) { c.Token = min(c.Token, 1) })
	},
	"a live owner's message taken": func(b *broken) {
		b.claim = func(o *brokenOwner, ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
			claims, err := o.Owner.Claim(ctx, entries)
			b.mu.Lock()
			defer b.mu.Unlock()
			for i := range claims {
				for _, other := range b.owners {
					if err != nil || claims[i].Answer != ledger.Busy || claims[i].Wait == 0 {
						break
					}
					if c, wrong := other.Claim(ctx, entries[i:i+1]); wrong == nil && c[0].Token > 0 {
						claims[i] = c[0]
					}
				}
			}
			return claims, err
		}
	},
	"a dead owner that claims": func(b *broken) {
		b.claim = func(o *brokenOwner, ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
			claims, err := o.Owner.Claim(ctx, entries)
			b.mu.Lock()
			defer b.mu.Unlock()
			for i := 0; i < len(b.owners) && ledger.IsLost(err); i++ {
				claims, err = b.owners[i].Claim(ctx, entries)
			}
			return claims, err
		}
	},
	"a dead owner that beats": func(b *broken) {
		b.beat = func(o *brokenOwner, ctx context.Context) (time.Duration, error) {
			left, err := o.Owner.Beat(ctx)
			if ledger.IsLost(err) {
				return time.Minute, nil
			}
			return left, err
		}
	},
	"a failed delivery that is forgotten": func(b *broken) {
		b.claim = asking(func(e *ledger.Entry) { e.Delivery = append([]byte("another "), e.Delivery...) })
	},
	"a copy of an older failure that runs": func(b *broken) {
		b.claim = asking(func(e *ledger.Entry) { e.StampToken = 0 })
	},
	"another body that is taken for the same": func(b *broken) {
		b.claim = asking(func(e *ledger.Entry) { e.Fingerprint = prints[0] })
	},
	"a suspect that runs beside others": func(b *broken) {
		b.claim = asking(func(e *ledger.Entry) { e.Solo = true })
	},
	"an attempt that is not counted": func(b *broken) {
		b.settle = settling(func(s *ledger.Settlement) { s.Count = false })
	},
	"a backoff that is not kept": func(b *broken) {
		b.settle = settling(func(s *ledger.Settlement) { s.After = 0 })
	},
	"a result that is not kept": func(b *broken) {
		b.settle = settling(func(s *ledger.Settlement) { s.Result = nil })
	},
	"a message handled again though parked": func(b *broken) {
		b.claim = asking(func(e *ledger.Entry) { e.Park = false })
	},
}

// unseen are rules that have no form for messages in ranges: those have no fingerprint.
var unseen = map[string]bool{"another body that is taken for the same": true}

// TestBrokenStores: what the histories are for. A store that breaks a rule is found, with rows and with ranges.
func TestBrokenStores(t *testing.T) {
	t.Parallel()
	for name, breakIt := range brokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testBroken(t, name, breakIt, false)
		})
		if !unseen[name] {
			t.Run(name+", ranged", func(t *testing.T) {
				t.Parallel()
				testBroken(t, name+", ranged", breakIt, true)
			})
		}
	}
}

// TestUnbrokenStore: what is found is the broken rule, not the way in which it is broken.
func TestUnbrokenStore(t *testing.T) {
	t.Parallel()
	for name, ranged := range map[string]bool{"rows": false, "ranged": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if number := firstFound(t, "unbroken "+name, func(*broken) {}, ranged, 200); number >= 0 {
				t.Errorf("found by history %d", number)
			}
		})
	}
}

func testBroken(t *testing.T, name string, breakIt func(*broken), ranged bool) {
	const most = 3000
	if firstFound(t, name, breakIt, ranged, most) < 0 {
		t.Errorf("not found by %d histories", most)
	}
}

// firstFound makes up to most histories of a store that is broken so, and returns the first that shows it; -1: none does.
func firstFound(t *testing.T, name string, breakIt func(*broken), ranged bool, most int) int {
	t.Helper()
	s := &site{name: name, ranged: ranged, pieces: ranged, open: func(p plan) (trouble, calm door) {
		trouble, calm = openMemory(p)
		b := &broken{Ledger: trouble.ledger.(*memory.Ledger)}
		breakIt(b)
		trouble.ledger, calm.ledger = b, b
		return trouble, calm
	}}
	base := seed(t)
	for number := range most {
		r, err := s.run(t.Context(), draw(base, number, "broken "+name, ranged, false))
		if err != nil {
			t.Logf("found by history %d of seed %d: %v", number, base, err)
			return number
		}
		if wrong, _ := r.check(); wrong != nil {
			t.Logf("found by history %d of seed %d:\n%s", number, base, text(wrong.part, wrong.info))
			return number
		}
	}
	return -1
}

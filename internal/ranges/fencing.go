package ranges

import (
	"context"
	"time"
)

// fencing is what a range of ours says to transactions that go by how it was opened: they need not read its sets.
type fencing struct {
	done    []byte        // Done as it was opened, as it is stored
	altered bool          // the stored sets are others by now, or may be
	under   int           // transactions that go by done, and are at their end
	none    chan struct{} // closed when there are none any more; nil: nobody waits for that
	waited  bool          // for as long as anybody waits for them
}

// openOf is a range of ours that is new.
func openOf(r Range) *open {
	return &open{Range: r, opened: fencing{done: r.Done.Encode(r.From), altered: !r.Back.Empty()}}
}

// BeginFence says whether a transaction may go by how the range was opened: that it is still this owner's, and its stored sets are done and
// nothing, means that none of the offsets has left it. It is to be followed by EndFence, once the transaction is over.
func (o *Owner) BeginFence(f *Fenced) (done []byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.of.opened.altered {
		return nil, false
	}
	f.of.opened.under++
	return f.of.opened.done, true
}

// EndFence notes that the transaction is over, and whether its fence met the range as it was opened: if not, no later one goes by that.
// altered: the range's sets have changed meanwhile, so that the fence may have failed for that alone.
func (o *Owner) EndFence(f *Fenced, met bool) (altered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := &f.of.opened
	defer func() { at.altered = at.altered || !met }()
	if at.under--; at.under == 0 && at.none != nil {
		close(at.none)
		at.none = nil
	}
	return at.altered
}

// quietLimit is how long settlements wait for transactions that fence in their ranges. After that they fail.
const quietLimit = time.Second

// quiet waits until no transaction goes by how the ranges were opened that are about to be written.
func (o *Owner) quiet(ctx context.Context, logs []*logSave) {
	limit := time.NewTimer(quietLimit)
	defer limit.Stop()
	for _, l := range logs {
		for _, token := range l.tokens {
			if none := o.none(l, token); none != nil {
				select {
				case <-none:
				case <-ctx.Done():
					return
				case <-limit.C:
					o.waited(logs)
					return
				}
			}
		}
	}
}

// waited notes that nobody is to wait any more for who goes by how these ranges were opened: no more will.
func (o *Owner) waited(logs []*logSave) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range logs {
		for _, token := range l.tokens {
			if r := l.open[token]; r != nil {
				r.opened.waited = true
			}
		}
	}
}

// none is closed when no transaction goes by how a range was opened; nil: none does.
func (o *Owner) none(l *logSave, token uint64) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := l.open[token]
	if r == nil || r.opened.under == 0 || r.opened.waited {
		return nil
	}
	if r.opened.none == nil {
		r.opened.none = make(chan struct{})
	}
	return r.opened.none
}

package engine

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// deaf is a sink that hears nothing.
type deaf struct{}

func (deaf) Finish([]Finished) {}

// idle is an engine that was not started: the test does what its goroutines would.
func idle(t *testing.T, o consumer.Options) *Engine {
	t.Helper()
	handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
	e, err := New(Config{Options: o, Ledger: memory.New(), Handler: handler, Sink: deaf{}, System: "test", Source: "source"})
	if err != nil {
		t.Fatal(err)
	}
	e.life.base = t.Context()
	e.pool.handlers.calling.base = t.Context()
	return e
}

func watched(t *testing.T, change ...func(*consumer.Options)) (*Engine, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	o := consumer.Options{Name: "n", Logger: zap.New(core)}
	for _, c := range change {
		c(&o)
	}
	o, err := o.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return idle(t, o), logs
}

func plainItem(id string) *Item {
	it := &Item{Msg: &consumer.Message{ID: id}}
	it.Key = ledger.Key{Scope: "s", ID: []byte(id)}
	it.Of = it
	return it
}

// newSession is one of which the engine knows nothing yet.
func newSession(o ledger.Owner) *session {
	sess := &session{owner: o, ended: make(chan struct{})}
	sess.ranges, _ = o.(ledger.StretchOwner)
	sess.flow = flow.Session{Ranges: sess.ranges != nil, Of: sess}
	return sess
}

// joins has the engine hold a session.
func (e *Engine) joins(o ledger.Owner) *session {
	sess := newSession(o)
	e.do(func(f *flow.Flow, now time.Duration) {
		sess.extend(e.born, e.at(now).Add(time.Hour))
		f.Joined(&sess.flow)
	})
	return sess
}

// claims has the flow claim what it wants claimed, with the same answer for each item; it returns how many there were.
func (e *Engine) claims(a ledger.Claim) (n int) {
	e.do(func(f *flow.Flow, now time.Duration) {
		var c flow.Claim
		for f.NextClaim(now, &c) {
			answers, dead := make([]ledger.Claim, len(c.Items)), make([]*ledger.Archive, len(c.Items))
			for i, it := range c.Items {
				answers[i], dead[i] = a, &ledger.Archive{Key: it.Key, Body: []byte("body")}
			}
			n += len(c.Items)
			f.Claimed(now, &c, answers, dead)
			f.ClaimOver(&c)
		}
	})
	return n
}

// dispatches has a goroutine take what is next of items.
func (e *Engine) dispatches() *chunk {
	e.mu.Lock()
	defer e.unlock()
	d, _ := e.flow.Next(e.now(), 0)
	return e.pool.register(d, e.now())
}

// runs has an item run, and end so.
func (e *Engine) runs(it *Item, o flow.Outcome) {
	e.Offer([]*Item{it})
	e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1})
	e.do(func(f *flow.Flow, now time.Duration) {
		d, _ := f.Next(now, 0)
		f.Took(d, 1, false) // handlers are fast
		f.Ran(0, d, o)
		f.Free(d)
	})
}

// settles has the ledger answer so for all that is to be settled, at that time.
func (e *Engine) settles(at time.Duration, err error) {
	e.do(func(f *flow.Flow, _ time.Duration) {
		var b flow.Batch
		for f.NextSettle(0, &b) {
			errs := make([]error, len(b.Items))
			for i := range errs {
				errs[i] = err
			}
			f.Settled(at, &b, errs, nil)
			f.SettleOver(0, &b)
		}
	})
}

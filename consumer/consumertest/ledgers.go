package consumertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// spy remembers the ledger's last answer for each message.
type spy struct {
	ledger.Ledger
	mu   sync.Mutex
	last map[[ledger.KeySize]byte]ledger.Claim
}

// Join implements ledger.Ledger.
func (s *spy) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := s.Ledger.Join(ctx, lease)
	if err != nil {
		return nil, err
	}
	return &spyOwner{o, s}, nil
}

func (s *spy) answer(sum [ledger.KeySize]byte) ledger.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[sum]
}

type spyOwner struct {
	ledger.Owner
	spy *spy
}

// Unwrap lets InTx find the store's own owner.
func (o *spyOwner) Unwrap() ledger.Owner { return o.Owner }

// Claim implements ledger.Owner.
func (o *spyOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	claims, err := o.Owner.Claim(ctx, entries)
	o.spy.mu.Lock()
	defer o.spy.mu.Unlock()
	for i := range claims {
		o.spy.last[entries[i].Key.Sum()] = claims[i]
	}
	return claims, err
}

var errDead = errors.New("consumertest: this worker has crashed")

// mortal is a ledger to which the worker's process loses every connection when it is killed.
type mortal struct {
	ledger.Ledger
	mu    sync.Mutex
	owner string
	done  chan struct{}
}

func (m *mortal) dead() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done == nil {
		m.done = make(chan struct{})
	}
	return m.done
}

func (m *mortal) kill() {
	done := m.dead()
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-done:
	default:
		close(done)
	}
}

func (m *mortal) id() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owner
}

func (m *mortal) alive() error {
	select {
	case <-m.dead():
		return errDead
	default:
		return nil
	}
}

// Join implements ledger.Ledger.
func (m *mortal) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	o, err := m.Ledger.Join(ctx, lease)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.owner = o.ID()
	m.mu.Unlock()
	return &mortalOwner{o, m}, nil
}

type mortalOwner struct {
	ledger.Owner
	m *mortal
}

// Unwrap lets InTx find the store's own owner.
func (o *mortalOwner) Unwrap() ledger.Owner { return o.Owner }

// Claim implements ledger.Owner.
func (o *mortalOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	if err := o.m.alive(); err != nil {
		return nil, err
	}
	return o.Owner.Claim(ctx, entries)
}

// Settle implements ledger.Owner.
func (o *mortalOwner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	if err := o.m.alive(); err != nil {
		return nil, err
	}
	return o.Owner.Settle(ctx, settlements)
}

// Beat implements ledger.Owner.
func (o *mortalOwner) Beat(ctx context.Context) (time.Duration, error) {
	if err := o.m.alive(); err != nil {
		return 0, err
	}
	return o.Owner.Beat(ctx)
}

// Leave implements ledger.Owner.
func (o *mortalOwner) Leave(ctx context.Context) error {
	if err := o.m.alive(); err != nil {
		return err
	}
	return o.Owner.Leave(ctx)
}

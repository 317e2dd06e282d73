package chaos_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/services"
)

// fault is one kind of fault, with how often it is drawn beside the others.
type fault struct {
	weight int
	strike func(s *storm, ctx context.Context, a *arm, m *member)
}

// faults are what is drawn from.
var faults = []fault{
	{100, (*storm).killMember},
	{25, (*storm).freezeMember},
	{25, (*storm).replaceMember},
	{220, cutLink(0)}, {180, cutLink(1)},
	{70, lastingFault(0, "delays")}, {120, lastingFault(0, "answers lost")}, {60, lastingFault(0, "half-open")},
	{50, lastingFault(1, "delays")}, {80, lastingFault(1, "answers lost")}, {60, lastingFault(1, "half-open")},
}

// serverFaults are drawn beside them in long storms: what they take is more than a short one lasts. They do not look at the
// arm or the member.
var serverFaults = []fault{
	{6, (*storm).restartPostgres},
	{2, (*storm).restartKafka},
	{3, (*storm).restartSQS},
}

// Faults of processes, as they are counted.
const (
	killedKind = "process: SIGKILL"
	frozenKind = "process: frozen for longer than its lease (SIGSTOP, SIGCONT)"
	leavesKind = "process: leaves, another joins (SIGTERM)"
	stepKind   = "process: killed at a named step (SIGKILL)"
)

// longShare: one of so many lasting faults of a connection is longer than the lease.
const longShare = 6

// strike draws a fault and its victim.
func (s *storm) strike(ctx context.Context) {
	all := 0
	for _, f := range s.faults {
		all += f.weight
	}
	draw := s.rng.IntN(all)
	a, m := s.victim()
	if m == nil {
		return
	}
	for _, f := range s.faults {
		if draw -= f.weight; draw < 0 {
			f.strike(s, ctx, a, m)
			return
		}
	}
}

// victim draws a process, one with handlers that run if there is any.
func (s *storm) victim() (*arm, *member) {
	first, pick := s.rng.IntN(len(s.arms)), s.rng.Uint64()
	for _, running := range []bool{true, false} {
		for i := range s.arms {
			a := s.arms[(first+i)%len(s.arms)]
			if m := a.crew.take(pick, running); m != nil {
				return a, m
			}
		}
	}
	return nil, nil
}

// killMember kills a process with SIGKILL; another takes its place.
func (s *storm) killMember(_ context.Context, a *arm, m *member) {
	if a.crew.tell(m) {
		s.count(killedKind, a.crew.kill(m))
		s.hire(a)
	}
}

func (s *storm) hire(a *arm) {
	if _, err := a.crew.tryStart("", 0); err != nil {
		s.t.Error(err)
	}
}

// freezeMember stops a process for longer than its lease, and lets it go on.
func (s *storm) freezeMember(_ context.Context, a *arm, m *member) {
	if m.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		a.crew.letGo(m)
		return // it has ended
	}
	s.count(frozenKind, m.page.Get(plan.Running) > 0)
	lasts := lease + time.Second + time.Duration(s.rng.Int64N(int64(3*time.Second)))
	s.under.Go(func() {
		s.while(lasts, m)
		_ = m.cmd.Process.Signal(syscall.SIGCONT) // it may have been killed
		a.crew.letGo(m)
	})
}

// replaceMember lets a process leave with SIGTERM, and another join.
func (s *storm) replaceMember(_ context.Context, a *arm, m *member) {
	s.count(leavesKind, m.page.Get(plan.Running) > 0)
	if !a.crew.tell(m) {
		return
	}
	s.hire(a)
	s.under.Go(func() { a.crew.dismiss(m) }) // whether it drains cleanly depends on the other faults
}

// while waits for d, less if the member ends.
func (s *storm) while(d time.Duration, m *member) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.done:
	}
}

// cutLink cuts all connections of a process to one of its servers: the store (0) or the broker (1).
func cutLink(which int) func(*storm, context.Context, *arm, *member) {
	return func(s *storm, _ context.Context, a *arm, m *member) {
		defer a.crew.letGo(m)
		if l := linkOf(m, which); l != nil {
			hit := m.page.Get(plan.Running) > 0
			l.cut()
			s.count("network: "+l.to+": connections cut", hit)
		}
	}
}

func linkOf(m *member, which int) *link {
	if len(m.network) == 1 { // SQLite: the broker alone
		which--
	}
	if which < 0 {
		return nil
	}
	return m.network[which]
}

// lastingFault is one of linkFaults, for a while; in long storms for one of longShare longer than the lease, and than a Kafka
// session may be.
func lastingFault(which int, kind string) func(*storm, context.Context, *arm, *member) {
	return func(s *storm, _ context.Context, a *arm, m *member) {
		l := linkOf(m, which)
		if l == nil {
			a.crew.letGo(m)
			return
		}
		hit := m.page.Get(plan.Running) > 0
		l.poison(kind)
		s.count("network: "+l.to+": "+kind, hit)
		lasts := 200*time.Millisecond + time.Duration(s.rng.Int64N(int64(1500*time.Millisecond)))
		if long() && s.rng.IntN(longShare) == 0 {
			lasts += lease + time.Duration(s.rng.Int64N(int64(5*time.Second)))
		}
		s.under.Go(func() {
			s.while(lasts, m)
			l.heal()
			a.crew.letGo(m)
		})
	}
}

// restartPostgres stops the database for all, cleanly or as a crash does, and starts it again after a while.
func (s *storm) restartPostgres(ctx context.Context, a *arm, m *member) {
	a.crew.letGo(m)
	s.restart("PostgreSQL", s.pg.Server, new(sync.Mutex), func(a *arm) bool { return a.store.kind == "postgres" })
}

// restartKafka does so with the broker.
func (s *storm) restartKafka(ctx context.Context, a *arm, m *member) {
	a.crew.letGo(m)
	s.restart("Kafka", s.kafka.Broker(0), new(sync.Mutex), func(a *arm) bool { _, ok := a.broker.(*log); return ok })
}

// restartSQS does so with the server of the standard queues. Nothing is sent meanwhile.
func (s *storm) restartSQS(ctx context.Context, a *arm, m *member) {
	a.crew.letGo(m)
	s.restart("ElasticMQ", s.sqs.Server, &s.sends, func(a *arm) bool { q, ok := a.broker.(*queue); return ok && !q.fifo })
}

// restart leaves the other faults going on meanwhile. One server is away at a time, and the lock is held for as long.
func (s *storm) restart(name string, server *services.Server, lock sync.Locker, uses func(*arm) bool) {
	end, how, away := server.Stop, "stopped and started", time.Duration(s.rng.Int64N(int64(4*time.Second)))
	if s.rng.IntN(2) == 0 {
		end, how = server.Kill, "crashed and started"
	}
	if !s.away.CompareAndSwap(false, true) {
		return
	}
	s.under.Go(func() {
		defer s.away.Store(false)
		lock.Lock()
		defer lock.Unlock()
		hit := slices.ContainsFunc(s.arms, func(a *arm) bool { return uses(a) && a.crew.running() })
		if err := end(); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
		s.count("server: "+name+": "+how, hit)
		down := time.NewTimer(away)
		defer down.Stop()
		<-down.C
		startAgain(s.t, name, server)
		for _, a := range s.arms {
			if uses(a) {
				s.awaitBroker(a)
			}
		}
	})
}

// awaitBroker waits until an arm's broker serves it: ElasticMQ answers before its queues are back.
func (s *storm) awaitBroker(a *arm) {
	const patience = time.Minute
	deadline := time.Now().Add(patience)
	for {
		err := a.broker.answers(s.t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%s: after %s: %v", a.name, patience, err)
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

// startTries is how often a server is started that does not answer.
const startTries = 5

// startAgain starts a server that was stopped. A busy machine may need longer for it than one start is given.
func startAgain(t *testing.T, name string, server *services.Server) {
	t.Helper()
	for n := 1; ; n++ {
		err := server.Start(t.Context())
		if err == nil {
			return
		}
		if n == startTries {
			t.Errorf("%s did not start: %v", name, err)
			return
		}
		t.Logf("%s: start %d: %.300s", name, n, err.Error())
	}
}

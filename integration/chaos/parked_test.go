package chaos_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/services"
)

// Processes are killed with SIGKILL while handlers run, whose retries all wait in the ledger: on Kafka in ranges and in rows, and on SQS.
// Nothing is lost, no effect InTx is there twice, and no committed offset has passed what is neither done nor parked. In `make test` 10
// are killed, in the long run 500.
func TestKilledWhileParked(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	killedWhileParked(t, func(s *storm) {
		s.addParked("ranges", newLog(t, services.Name(t), services.Kafka(t)), plan.Orders{})
		s.addParked("rows", newLog(t, services.Name(t), services.Kafka(t)), plan.Orders{Rows: true})
		s.addParked("sqs", newQueue(t, services.Name(t), services.ElasticMQ(t), false), plan.Orders{})
	})
}

// TestKilledWhileKeysAreParked is the same of records whose order by key is kept, and of FIFO groups: the effects of a key come in the order of its messages.
func TestKilledWhileKeysAreParked(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	killedWhileParked(t, func(s *storm) {
		s.addParked("keys", newLog(t, services.Name(t), services.Kafka(t)), plan.Orders{Keyed: true})
		s.addParked("keys-rows", newLog(t, services.Name(t), services.Kafka(t)), plan.Orders{Keyed: true, Rows: true})
		s.addParked("groups", newQueue(t, services.Name(t), services.ElasticMQ(t), true), plan.Orders{Keyed: true})
	})
}

// killedWhileParked plays a storm of kills with the arms that are added.
func killedWhileParked(t *testing.T, add func(*storm)) {
	t.Helper()
	kills := 10
	if long() {
		kills = 500
	}
	s := &storm{t: t, seed: 1, began: time.Now(), rng: rand.New(rand.NewPCG(1, 7)), hits: map[string]int{}, vain: map[string]int{}}
	s.body = func(i int) string {
		switch {
		case i%50 == 7:
			return plan.Of(plan.Bad, i)
		case i%5 == 4:
			return plan.Of(plan.Plain, i)
		}
		return plan.Of(plan.Fine, i)
	}
	add(s)
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	s.faults = []fault{{1, func(s *storm, ctx context.Context, a *arm, m *member) {
		if m.page.Get(plan.Running) == 0 {
			a.crew.letGo(m)
			return
		}
		s.killMember(ctx, a, m)
		if a.aimed++; s.hits[killedKind] >= kills {
			enough()
		}
	}}}
	s.rage(ctx)
	for _, a := range s.arms {
		a.expect(3*time.Minute, a.progress)
		a.expect(time.Minute, a.left)
		a.crew.dismissAll()
		a.verify()
		t.Logf("%s: %d messages, %d processes killed, %d offset samples, lost %d, of %d InTx done twice %d, of %d without %d",
			a.name, len(a.bodies), a.aimed, a.samples, a.found.lost, a.found.fine, a.found.twice, a.found.plain, a.found.repeated)
	}
	s.wereParked()
}

// addParked adds an arm whose retries are parked, on a database of its own.
func (s *storm) addParked(name string, b broker, o plan.Orders) {
	o.Seed, o.Faults, o.Refuse, o.Parks, o.Lease, o.Window = s.seed, true, 20, true, time.Second, 6*time.Second
	a := newArm(s.t, name, newPostgres(s.t, services.Postgres(s.t).URL), b, o)
	a.crew.keep = true
	a.crew.start("", 0)
	a.crew.start("", 0)
	s.arms = append(s.arms, a)
}

// wereParked checks that messages were parked where that was ordered, and that none is at the end.
func (s *storm) wereParked() {
	s.t.Helper()
	for _, a := range s.arms {
		if !a.crew.orders.Parks {
			continue
		}
		var ever, still int
		err := a.store.rows(s.t.Context(), "SELECT pg_stat_get_tuples_inserted('ackledger.parked'::regclass), (SELECT count(*) FROM ackledger.parked)",
			func() {}, &ever, &still)
		if err != nil || ever == 0 || still > 0 {
			s.t.Errorf("%s: %d messages were parked, %d are still, %v", a.name, ever, still, err)
		}
		s.t.Logf("%s: %d messages were parked", a.name, ever)
	}
}

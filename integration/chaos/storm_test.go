package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/reliability"
	"github.com/ackledger/ackledger/internal/services"
)

// What `make chaos` says.
const (
	durationVariable = "ACKLEDGER_CHAOS"      // how long the storm lasts
	seedVariable     = "ACKLEDGER_CHAOS_SEED" // what is drawn, default 1
)

// shortStorm is how long the storm of `make test` lasts.
const shortStorm = 8 * time.Second

// backlog is how many messages of each arm are sent and not finished during a storm: work is always in flight.
const backlog = 500

// storm is what the faults are drawn for.
type storm struct {
	t      *testing.T
	rng    *rand.Rand // of the one goroutine that draws
	seed   uint64
	began  time.Time
	faults []fault
	arms   []*arm
	pg     *services.PostgresServer
	kafka  *services.KafkaCluster
	sqs    *services.ElasticMQServer // of the standard queues of a long storm
	sends  sync.RWMutex              // held for writing while it is away: what is sent to it then, nobody knows
	body   func(int) string          // of a message

	under sync.WaitGroup // faults that last
	away  atomic.Bool    // a server is
	mu    sync.Mutex
	hits  map[string]int // faults by kind, while work was in flight
	vain  map[string]int // those that hit nothing
}

// TestStorm runs every kind of worker on every durable store under faults of processes, networks, servers and handlers
// that are drawn from a seed, and asks the oracle at the end.
func TestStorm(t *testing.T) {
	services.NeedServers(t)
	lasts, seed := shortStorm, uint64(1)
	var err error
	if text := os.Getenv(durationVariable); text != "" {
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", durationVariable, err)
		}
	}
	if text := os.Getenv(seedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run it again with SEED=%d", seed)
		}
	})
	s := newStorm(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	s.rage(ctx)
	cancel()
	s.calm()
	s.wereParked()
	s.report(lasts)
}

// newStorm starts the servers and the arms, two processes each.
func newStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	s := &storm{t: t, seed: seed, began: time.Now(), rng: rand.New(rand.NewPCG(seed, 7)), hits: map[string]int{}, vain: map[string]int{}, faults: faults}
	s.body = func(i int) string { return plan.Body(seed, i) }
	var err error
	s.pg, err = services.StartPostgres(t.Context(), services.PostgresOptions{Conf: map[string]string{"max_connections": "500"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.pg.Close() })
	s.kafka, err = services.StartKafka(t.Context(), services.KafkaOptions{Properties: map[string]string{
		"group.consumer.session.timeout.ms": "6000", "group.consumer.min.session.timeout.ms": "6000",
		"group.consumer.heartbeat.interval.ms": "1000", "group.consumer.min.heartbeat.interval.ms": "1000",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.kafka.Close() })
	mq := services.ElasticMQ(t)
	standard := mq
	if long() {
		if s.sqs, err = services.StartDurableElasticMQ(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.sqs.Close() })
		standard = s.sqs.Endpoint()
	}
	log := func(name string) broker { return newLog(t, services.Name(t)+"_"+name, s.kafka.Brokers()) }
	queue := func() broker { return newQueue(t, services.Name(t), standard, false) }
	s.add("rows", s.database("rows"), log("rows"), plan.Orders{Rows: true})
	s.add("ranges", s.database("ranges"), log("ranges"), plan.Orders{})
	s.add("ranges848", s.database("ranges848"), log("ranges848"), plan.Orders{KIP848: true})
	s.add("parked", s.database("parked"), log("parked"), plan.Orders{Parks: true})
	s.add("sqs", s.database("sqs"), queue(), plan.Orders{})
	if long() {
		s.faults = slices.Concat(faults, serverFaults)
		s.add("rows848", s.database("rows848"), log("rows848"), plan.Orders{Rows: true, KIP848: true})
		s.add("fifo", s.database("fifo"), newQueue(t, services.Name(t), mq, true), plan.Orders{})
		s.add("sqlite", newSQLite(t, t.TempDir()), queue(), plan.Orders{})
	}
	return s
}

// database is one of its own on the storm's server.
func (s *storm) database(name string) *database {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.pg.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // it has done its work
	if _, err := conn.Exec(s.t.Context(), "CREATE DATABASE "+name); err != nil {
		s.t.Fatal(err)
	}
	u, err := url.Parse(s.pg.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	u.Path = "/" + name
	return newPostgres(s.t, u.String())
}

func (s *storm) add(name string, d *database, b broker, o plan.Orders) {
	o.Seed, o.Faults, o.Refuse = s.seed, true, 20
	a := newArm(s.t, name, d, b, o)
	a.crew.keep, a.crew.wire = true, s.wire
	if long() && d.kind == "postgres" { // SQLite has no clock but its processes' own, which are one machine's
		a.crew.clocks = aroundTheClock
	}
	if long() {
		a.crew.orders.Deaf, a.crew.orders.DeafFor = 2, 12*time.Second // longer than the drain
	}
	a.crew.start("", 0)
	a.crew.start("", 0)
	s.arms = append(s.arms, a)
}

// wire puts a proxy between a new process and each of its servers.
func (s *storm) wire(o *plan.Orders) (network []*link, err error) {
	proxy := func(to, upstream string) (string, error) {
		l, err := newLink(to, upstream)
		if err != nil {
			return "", err
		}
		network = append(network, l)
		return l.addr(), nil
	}
	if o.Store == "postgres" {
		u, err := url.Parse(o.Database)
		if err != nil {
			return nil, err
		}
		if u.Host, err = proxy("PostgreSQL", u.Host); err != nil {
			return nil, err
		}
		o.Database = u.String()
	}
	if o.Topic != "" {
		o.Dial, err = proxy("Kafka", o.Brokers[0])
		return network, err
	}
	u, err := url.Parse(o.Client)
	if err != nil {
		return nil, err
	}
	u.Host, err = proxy("SQS", u.Host)
	o.Client = u.String()
	return network, err
}

// rage sends messages and draws faults until ctx is done, and then undoes all faults.
func (s *storm) rage(ctx context.Context) {
	var beside sync.WaitGroup
	for _, a := range s.arms {
		beside.Go(func() { s.feed(ctx, a) })
		beside.Go(func() { a.sample(ctx) })
	}
	for ctx.Err() == nil {
		wait := time.NewTimer(time.Duration(s.rng.IntN(220)) * time.Millisecond)
		select {
		case <-wait.C:
			s.strike(ctx)
		case <-ctx.Done():
		}
		wait.Stop()
	}
	s.under.Wait()
	beside.Wait()
	for _, a := range s.arms {
		if _, ok := a.broker.(*log); ok && a.samples == 0 {
			s.t.Errorf("%s: no sample of committed offsets was taken", a.name)
		}
	}
}

// feed keeps an arm busy.
func (s *storm) feed(ctx context.Context, a *arm) {
	const batch = 100
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		n, err := a.finished(ctx)
		for err == nil && len(a.bodies)-len(a.doubt)-n < backlog && ctx.Err() == nil {
			// Not on ctx: what is sent in part, nobody knows.
			s.sends.RLock()
			err := a.send(context.WithoutCancel(ctx), batch, s.body)
			s.sends.RUnlock()
			if err != nil {
				s.t.Errorf("%s: send: %v", a.name, err)
				return
			}
		}
	}
}

// calm waits until all that was sent is done, lets the workers drain, and asks the oracle.
func (s *storm) calm() {
	const patience = 6 * time.Minute
	for _, a := range s.arms {
		a.expect(patience, a.progress)
		a.expect(patience, a.left)
	}
	for _, a := range s.arms {
		a.expect(time.Minute, a.idle) // a deaf handler may still run whose message others have done
		a.crew.dismissAll()
	}
	for _, a := range s.arms {
		a.verify()
		if a.found.givenBack == 0 {
			s.t.Errorf("%s: no recorded step was given back: nothing is shown of them", a.name)
		}
		if l, ok := a.broker.(*log); ok {
			if err := a.sampleOnce(s.t.Context(), l); err != nil { // all is well again
				s.t.Errorf("%s: committed offsets: %v", a.name, err)
			}
		}
		a.checkClocks(s.began, time.Now())
	}
}

// count notes a fault.
func (s *storm) count(kind string, hit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hit {
		s.hits[kind]++
	} else {
		s.vain[kind]++
	}
}

// gauges are the faults that processes count themselves.
var gauges = map[plan.Gauge]string{
	plan.Errors: "handler: error", plan.Panics: "handler: panic", plan.Goexits: "handler: Goexit",
	plan.Slows: "handler: slow", plan.Hangs: "handler: hangs until its time limit",
	plan.AfterEffects: "handler: fails after its effect", plan.Poisons: "process: killed by its message (SIGKILL)",
	plan.Refused: "dead letter refused by its target", plan.Deafs: "handler: goes on after its context has ended",
}

// floorAfter is how long a storm lasts in which each kind of fault hits.
const floorAfter = 20 * time.Minute

// kindsOfFaults are those that a long storm draws, wrong clocks left out.
func kindsOfFaults() []string {
	kinds := append(slices.Collect(maps.Values(gauges)), killedKind, frozenKind, leavesKind, stepKind)
	for _, to := range []string{"PostgreSQL", "Kafka", "SQS"} {
		for _, what := range append(slices.Collect(maps.Keys(linkFaults)), "connections cut") {
			kinds = append(kinds, "network: "+to+": "+what)
		}
	}
	for _, server := range []string{"PostgreSQL", "Kafka", "ElasticMQ"} {
		kinds = append(kinds, "server: "+server+": stopped and started", "server: "+server+": crashed and started")
	}
	return kinds
}

// totals are the faults that hit, by kind.
func (s *storm) totals() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.hits)
	if n := int(killed.Load()); n > 0 {
		all[stepKind] = n
	}
	for _, a := range s.arms {
		for g, kind := range gauges {
			n, _ := a.crew.sum(g)
			all[kind] += int(n)
		}
		for _, m := range a.crew.shifted() {
			if m.page.Get(plan.Begun) > 0 {
				all[fmt.Sprintf("process: works with a clock that is %s off", m.clock)]++
			}
		}
	}
	return all
}

func (s *storm) report(lasts time.Duration) {
	r := report{seed: s.seed, began: s.began, lasts: lasts, took: time.Since(s.began), faults: s.totals(), vain: s.vain}
	for _, a := range s.arms {
		row := armReport{name: a.name, messages: len(a.bodies), doubt: len(a.doubt), processes: a.crew.started, gaveUp: a.crew.gaveUp,
			samples: a.samples, away: a.away, found: a.found}
		begun, _ := a.crew.sum(plan.Begun)
		_, heap := a.crew.sum(plan.Memory)
		row.begun, row.heap = int(begun), int(heap>>20)
		r.arms = append(r.arms, row)
	}
	s.t.Log("\n" + r.text())
	if lasts >= floorAfter {
		for _, kind := range kindsOfFaults() {
			if r.faults[kind] == 0 {
				s.t.Errorf("in %s no fault of this kind has hit: %s", lasts, kind)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(s.vain)) {
		s.t.Logf("hit nothing, not counted: %s: %d", kind, s.vain[kind])
	}
	if page := reliability.Page(); page != "" && !s.t.Failed() {
		if err := reliability.Section(page, "chaos", r.text()); err != nil {
			s.t.Error(fmt.Errorf("write the totals: %w", err))
		}
	}
}

package kafka

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
)

func TestHandlesAndCommits(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 3)
	values := numbers("a", 300)
	for p := range int32(3) {
		s.send(p, values[p*100:(p+1)*100]...)
	}
	b := newBook()
	r := s.start(b.handle, nil)
	eventually(t, "all are handled", func() bool { return b.len() == 300 })
	s.caughtUp()
	r.end()
	b.once(t, values)
}

// partingLedger says whether an owner has left.
type partingLedger struct {
	ledger.Ledger
	left atomic.Bool
}

func (p *partingLedger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := p.Ledger.Join(ctx, lease)
	return partingOwner{o, p}, err
}

type partingOwner struct {
	ledger.Owner
	of *partingLedger
}

func (p partingOwner) Leave(ctx context.Context) error {
	err := p.Owner.Leave(ctx)
	p.of.left.Store(err == nil)
	return err
}

// The brokers take requests and answer none any more, while a deaf handler outlives the drain. The ledger was left last,
// behind all calls to them: Kubernetes was faster, and the message counted a crash at each deploy.
func TestAClusterThatHangsDoesNotKeepUsInTheLedger(t *testing.T) {
	t.Parallel()
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangingCluster(fakeSite(t, 1), opts)
		})
	}
}

func hangingCluster(s *site, opts []kgo.Opt) {
	t := s.t
	b, g, deaf := newBook(), newGate(t), make(chan struct{})
	l := &partingLedger{Ledger: s.ledger}
	c := quick()
	c.CommitInterval = time.Minute // the only commit is the last one
	var commits atomic.Int64       // that had no answer
	c.Logger = zaptest.NewLogger(t, zaptest.WrapOptions(zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "offsets are not committed yet" {
			commits.Add(1)
			if !l.left.Load() {
				t.Error("the ledger is not left before the last commit has ended")
			}
		}
		return nil
	})))
	s.send(0, "done", "deaf")
	w := s.worker(func(ctx context.Context, m *consumer.Message) error {
		if m.Offset == 1 {
			close(deaf)
			<-g.open
		}
		return b.handle(ctx, m)
	}, c, opts...)
	w.ledger = l
	r := runWorker(t, w)
	<-deaf
	eventually(t, "the other one is handled", func() bool { return b.len() == 1 })
	s.fake.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		return nil, nil, true
	})
	stopped := time.Now()
	r.stop()
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "still in hand") {
		t.Errorf("Run: %v, want an error that names the message", err)
	}
	if took := time.Since(stopped); took > 25*time.Second {
		t.Errorf("Run has ended after %s", took)
	}
	if commits.Load() != 1 || !l.left.Load() {
		t.Errorf("%d commits had no answer, want 1; the ledger is left: %v", commits.Load(), l.left.Load())
	}
}

// A KeyFunc that ended its goroutine (a helper called t.FailNow) ended the one that polls: nothing was consumed any more,
// and Health was fine.
func TestKeyFuncThatEndsItsGoroutine(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s, b := fakeSite(t, 1).with(audit), newBook()
		c := quick()
		c.KeyFunc = func(m *consumer.Message) (string, error) {
			if string(m.Body) == "bad" {
				runtime.Goexit()
			}
			return m.ID, nil
		}
		before, after := numbers("before", 20), numbers("after", 20)
		s.send(0, append([]string{"bad"}, before...)...)
		r := s.start(b.handle, c)
		s.caughtUp()
		s.send(0, after...)
		s.caughtUp()
		r.end()
		b.once(t, append(before, after...))
		dead := 0
		for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
			if dead++; err != nil || d.Kind != ledger.KindInvalid || string(d.Body) != "bad" {
				t.Errorf("dead letter %+v, %v", d, err)
			}
		}
		if dead != 1 {
			t.Errorf("%d dead letters, want 1", dead)
		}
	})
}

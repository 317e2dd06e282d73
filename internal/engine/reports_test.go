package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// Whoever reads the log learns of which message it speaks, which attempt that was, and why, in each case that needs somebody.
func TestOutcomesAreReported(t *testing.T) {
	boom := errors.New("boom")
	for text, c := range map[string]struct {
		o  outcome
		st step
	}{
		"handler failed after its transaction had committed: the message succeeded":   {outcome{err: boom, kind: ledger.KindError}, step{ack: true}},
		"the attempt's transaction was lost or is unknown: the ledger is asked again": {outcome{err: boom, txErr: boom}, step{ask: true}},
		"attempt failed":   {outcome{err: boom, kind: ledger.KindError}, step{count: true, after: time.Second}},
		"handler panicked": {outcome{err: boom, kind: ledger.KindPanic}, step{}},
		"":                 {outcome{}, step{ack: true}}, // a success is nobody's business
	} {
		e, logs := watched(t)
		it := plainItem("order 17")
		e.joins(nil)
		e.Offer([]*Item{it})
		e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 3, Ticket: ledger.NewTicket(it.Key.Sum(), 7)})
		e.pool.handlers.report(it, c.o, c.st)
		if text == "" {
			if logs.Len() != 0 {
				t.Errorf("a success is logged: %+v", logs.All())
			}
			continue
		}
		if logs.Len() != 1 || logs.All()[0].Message != text {
			t.Errorf("%s: %+v", text, logs.All())
			continue
		}
		fields := logs.All()[0].ContextMap()
		if fields["message_id"] != "order 17" || fields["attempt"] != int64(3) || fields["token"] != uint64(7) || fields["error"] != "boom" {
			t.Errorf("%s: %v", text, fields)
		}
	}
}

// Abandoned messages are named with their scope: they are all that is left of what no broker brings any more.
func TestAbandonedMessagesAreNamed(t *testing.T) {
	e, logs := watched(t)
	e.notes.swept(ledger.SweepReport{Rows: 7})
	e.notes.swept(ledger.SweepReport{Rows: 7, Abandoned: 1, Oldest: []ledger.Abandoned{{Scope: "orders", ID: []byte("17")}}})
	all := logs.All()
	if len(all) != 2 || all[0].Level != zap.DebugLevel || all[1].Level != zap.WarnLevel {
		t.Fatalf("%+v", all)
	}
	if names, ok := all[1].ContextMap()["oldest"].([]any); !ok || len(names) != 1 || names[0] != "orders/17" {
		t.Errorf("%v", all[1].ContextMap())
	}
}

// A handler that cannot be called is refused before anything is claimed for it.
func TestCheckHandler(t *testing.T) {
	one := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
	many := func(context.Context, []*consumer.Message) []error { return nil }
	for name, c := range map[string]struct {
		h    consumer.Handler
		want string
	}{
		"one":        {one, ""},
		"nil":        {nil, "must not be nil"},
		"nil func":   {consumer.HandlerFunc(nil), "must not be nil"},
		"smallest":   {sized{one, 1}, ""},
		"largest":    {sized{one, consumer.MaxBatch}, ""},
		"none":       {sized{one, 0}, "must be 1 to"},
		"too many":   {sized{one, consumer.MaxBatch + 1}, "must be 1 to"},
		"as is made": {consumer.Batch(2, many), ""},
	} {
		if err := CheckHandler(c.h); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// sized is a batch handler of any size.
type sized struct {
	consumer.Handler
	n int
}

func (s sized) BatchSize() int                                           { return s.n }
func (s sized) HandleBatch(context.Context, []*consumer.Message) []error { return nil }

// keeping is a target that says how long it keeps dead letters, when it is asked for the n-th time.
type keeping struct {
	consumer.DeadLetterer
	asked int
	says  func(n int) (time.Duration, error)
}

func (k *keeping) Retention(context.Context) (time.Duration, error) {
	k.asked++
	return k.says(k.asked)
}

// A target that does not answer is asked three times, and one that keeps things for ever is asked once.
func TestTargetIsAskedForItsRetention(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		says  func(n int) (time.Duration, error)
		keeps time.Duration
		err   error
		asked int
	}{
		"at once":           {func(int) (time.Duration, error) { return time.Hour, nil }, time.Hour, nil, 1},
		"the third time":    {func(n int) (time.Duration, error) { return time.Hour, []error{away, away, nil}[n-1] }, time.Hour, nil, 3},
		"never":             {func(int) (time.Duration, error) { return 0, away }, 0, away, 3},
		"for ever":          {func(int) (time.Duration, error) { return 0, consumer.ErrUnbounded }, 0, consumer.ErrUnbounded, 1},
		"nearly for ever":   {func(int) (time.Duration, error) { return ledger.MaxWindow/2 + 1, nil }, 0, consumer.ErrUnbounded, 1},
		"as long as can be": {func(int) (time.Duration, error) { return ledger.MaxWindow / 2, nil }, ledger.MaxWindow / 2, nil, 1},
		"less than nothing": {func(int) (time.Duration, error) { return -1, nil }, 0, nil, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &keeping{says: c.says}
			o := consumer.Options{DeadLetter: k, DeadLetterTimeout: time.Second}
			began := time.Now()
			keeps, err := TargetRetention(t.Context(), &o)
			if keeps != c.keeps || !errors.Is(err, c.err) || k.asked != c.asked {
				t.Errorf("%s: %s, %v, asked %d times; want %s, %v, %d", name, keeps, err, k.asked, c.keeps, c.err, c.asked)
			}
			if waited := time.Since(began); c.asked == 3 && waited != 1500*time.Millisecond {
				t.Errorf("%s: waited %s between the tries", name, waited)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	k := &keeping{says: func(int) (time.Duration, error) { return 0, away }}
	if _, err := TargetRetention(ended, &consumer.Options{DeadLetter: k, DeadLetterTimeout: time.Second}); !errors.Is(err, away) || k.asked != 1 {
		t.Errorf("with a context that ended: %v, asked %d times", err, k.asked)
	}
}

// A record that may be identified later is, if nobody looks into it: no stamp, and none of the user's functions.
func TestIdentityIsLeftForLater(t *testing.T) {
	stamp := consumer.NewStamp("source", "id", []byte("b"))
	stamped := []consumer.Header{{Name: consumer.StampName, Value: []byte(stamp.String())}}
	for name, c := range map[string]struct {
		later   bool
		o       consumer.Options
		headers []consumer.Header
		want    bool
	}{
		"plain":            {later: true, want: true},
		"not to be":        {},
		"with a stamp":     {later: true, headers: stamped},
		"with KeyFunc":     {later: true, o: consumer.Options{KeyFunc: func(*consumer.Message) (string, error) { return "k", nil }}},
		"with Fingerprint": {later: true, o: consumer.Options{FingerprintFunc: func(*consumer.Message) ([]byte, error) { return []byte("f"), nil }}},
	} {
		m := &consumer.Message{ID: "t-0-7", Body: []byte("b"), Headers: c.headers}
		id := Identify(&c.o, Origin{Source: "source", Scope: "s", Later: c.later}, m)
		if id.Later != c.want || id.Fingerprint.IsZero() != c.want {
			t.Errorf("%s: later %v, fingerprint %v", name, id.Later, id.Fingerprint)
		}
	}
}

// Stamps that are refused are warned of, one of many, and not for each message: whoever forges them must not fill the log.
func TestRefusedStampsAreWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, logs := watched(t)
		defer e.life.giveUp()
		offer := func(ids ...string) {
			var items []*Item
			for _, id := range ids {
				it := plainItem(id)
				it.Refused = errors.New("forged")
				items = append(items, it)
			}
			e.Offer(append(items, plainItem("honest "+ids[0])))
		}
		offer("a", "b")
		offer("c")
		warned := func() []observer.LoggedEntry { return logs.FilterMessageSnippet("a stamp was refused").All() }
		if all := warned(); len(all) != 1 || all[0].ContextMap()["message_id"] != "b" {
			t.Errorf("%+v", all)
		}
		time.Sleep(sayPause + time.Second)
		e.Offer([]*Item{plainItem("honest")})
		offer("d")
		if all := warned(); len(all) != 2 || all[1].ContextMap()["message_id"] != "d" {
			t.Errorf("a while later: %+v", all)
		}
	})
}

// Whoever waits for room hears when the ledger answers again, and nothing when it goes on answering.
func TestLedgerThatIsBackIsTold(t *testing.T) {
	e, _ := watched(t)
	e.joins(nil)
	closed := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	e.lease.note(errors.New("away"))
	waits := e.Changed()
	if e.lease.note(errors.New("away")); closed(waits) {
		t.Error("told while the ledger is away")
	}
	if e.lease.note(nil); !closed(waits) {
		t.Error("not told that it is back")
	}
	waits = e.Changed()
	if e.lease.note(nil); closed(waits) {
		t.Error("told that nothing has changed")
	}
}

// A ledger that answers and refuses is no outage of the network: the log and Health say what it refuses, the log once in an
// outage, and the worker starts nothing all the while.
func TestLedgerThatRefusesIsNotUnreachable(t *testing.T) {
	const unreachable, refuses = "ledger unreachable: nothing starts until it answers", "the ledger refuses: nothing starts until somebody mends that"
	away, invalid := errors.New("connection reset"), ledger.MarkRefused(errors.New("ValidationException: two SETs"))
	e, logs := watched(t)
	e.joins(nil)
	for _, c := range []struct {
		err          error
		says, health string
	}{
		{away, unreachable, "connection reset"},
		{invalid, refuses, "the ledger refuses: ValidationException: two SETs"},
		{away, "", "connection reset"},
		{invalid, "", "the ledger refuses: ValidationException: two SETs"},
		{nil, "", ""},
		{ledger.MarkUnusable(errors.New("no rights")), refuses, "the ledger refuses: no rights"},
		{nil, "", ""},
		{away, unreachable, "connection reset"},
	} {
		e.lease.note(c.err)
		said := ""
		for _, entry := range logs.TakeAll() {
			said += entry.Message
		}
		if h := e.Health(); said != c.says || h.LastError != c.health || h.Ready != (c.err == nil) || e.flow.MayStart() != (c.err == nil) {
			t.Errorf("%v: logged %q, want %q; health %q, want %q, ready %t", c.err, said, c.says, h.LastError, c.health, h.Ready)
		}
	}
}

// Whoever waits for room hears that the worker is resumed.
func TestResumeIsTold(t *testing.T) {
	e, _ := watched(t)
	e.Pause()
	waits := e.Changed()
	e.Resume()
	select {
	case <-waits:
	default:
		t.Error("nobody is told")
	}
}

// A transaction that broke off with the database says that the ledger is away: nothing else starts until it answers.
func TestBrokenTransactionStopsTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		err error
		up  bool
	}{"its own failure": {errors.New("constraint"), true}, "the database's": {ledger.MarkUnavailable(errors.New("refused")), false}} {
		e, _ := watched(t)
		e.joins(nil)
		r := &newChunk(&e.pool.handlers.calling, make([]consumer.Message, 1)).runs[0]
		r.item = plainItem("a")
		e.pool.handlers.decide(r, outcome{err: c.err, kind: ledger.KindError, state: ledger.AttemptOpen, txErr: c.err})
		if e.flow.Up() != c.up || e.flow.MayStart() != c.up {
			t.Errorf("%s: the ledger is taken to be reachable: %v, and work may start: %v", name, e.flow.Up(), e.flow.MayStart())
		}
	}
}

// The dead letter of a mismatch is published once it is archived, and counts as held until then, as any other.
func TestFiledLettersAreHeld(t *testing.T) {
	target := &fickle{}
	e, _ := watched(t, func(o *consumer.Options) { o.DeadLetter = target })
	e.joins(nil)
	it := plainItem("a")
	e.Offer([]*Item{it})
	e.claims(ledger.Claim{Answer: ledger.Mismatch, Ticket: ledger.MismatchTicket(it.Key.Sum())})
	if n := e.Load().Waiting; n != 0 || target.asked != 0 {
		t.Fatalf("%d held, %d published before it is archived", n, target.asked)
	}
	e.settles(0, nil)
	letter, ok := e.flow.NextLetter()
	if n := e.Load().Waiting; n != 1 || !ok || !letter.Filed {
		t.Fatalf("%d held, to be published %v, filed %v", n, ok, letter.Filed)
	}
	if e.publisher.publish(&letter); e.Load() != (Load{}) || target.asked != 1 {
		t.Errorf("%+v in hand, published %d times", e.Load(), target.asked)
	}
}

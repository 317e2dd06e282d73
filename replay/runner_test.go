package replay

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/marks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.uber.org/zap"
)

const (
	aQueue    = "arn:aws:sqs:us-east-1:000000000000:orders"
	aConsumer = "shop"
)

var tester = ledger.By{Actor: "tester"}

// answers is a ledger that answers what a test says.
type answers struct {
	ledger.Operator
	status ledger.Status
	record ledger.Record
	err    error // of each call
	asked  int   // calls of Get

	mu    sync.Mutex
	audit []ledger.AuditRecord
}

func (a *answers) Scopes(context.Context) ([]string, error) {
	return []string{Scope(aQueue, aConsumer)}, nil
}
func (a *answers) Status(_ context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	out := make([]ledger.Status, len(keys))
	for i := range out {
		out[i] = a.status
	}
	return out, a.err
}
func (a *answers) Get(context.Context, ledger.Key) (ledger.Record, error) {
	a.asked++
	return a.record, a.err
}
func (a *answers) Audit(_ context.Context, list []ledger.AuditRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.audit = append(a.audit, list...)
	return nil
}

// list is a source that has letters, as a queue has.
type list struct {
	letters []*Letter
	unread  int64
	kept    int
	done    int
	mu      sync.Mutex
}

func (s *list) String() string                          { return "a list" }
func (s *list) Address(context.Context) (string, error) { return "", nil }
func (s *list) Count(context.Context, *ledger.Filter) (int64, error) {
	return int64(len(s.letters)), nil
}
func (s *list) Removes() bool          { return true }
func (s *list) Warnings() []string     { return nil }
func (s *list) Unread() int64          { return s.unread }
func (s *list) Keep(letters []*Letter) { s.mu.Lock(); s.kept += len(letters); s.mu.Unlock() }
func (s *list) Done(_ context.Context, letters []*Letter) error {
	s.mu.Lock()
	s.done += len(letters)
	s.mu.Unlock()
	return nil
}
func (s *list) Letters(context.Context, *ledger.Filter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		for _, l := range s.letters {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// taking is a target that takes all.
type taking struct {
	end    error
	cancel func() // called by Send, if it is not nil
}

func (*taking) String() string                     { return "a target" }
func (*taking) Begin(context.Context, Begin) error { return nil }
func (*taking) Accept(*Letter) error               { return nil }
func (*taking) Most() int                          { return 10 }
func (t *taking) End(context.Context) error        { return t.end }
func (t *taking) Send(_ context.Context, letters []*Letter) []Result {
	if t.cancel != nil {
		t.cancel()
	}
	out := make([]Result, len(letters))
	for i := range out {
		out[i].Outcome = Sent
	}
	return out
}

func aLetter(body string) *Letter {
	l := &Letter{Identified: true, Moved: true}
	l.Consumer, l.Kind = aConsumer, ledger.KindExhausted
	l.Message = consumer.Message{Source: aQueue, ID: "m", Body: []byte(body)}
	l.Key, l.Fingerprint = ledger.Key{Scope: Scope(aQueue, aConsumer), ID: []byte("m")}, ledger.BodyFingerprint([]byte(body))
	return l
}

// TestSucceededWithWhichBody: a message that succeeded and whose body is not known any more is dropped only if the archive has a
// failure with this body, and is not asked of the archive where the ledger knows.
func TestSucceededWithWhichBody(t *testing.T) {
	body, other := ledger.BodyFingerprint([]byte("body")), ledger.BodyFingerprint([]byte("another"))
	archived := func(f ledger.Fingerprint, kind ledger.FailureKind) ledger.ArchiveRecord {
		return ledger.ArchiveRecord{Archive: ledger.Archive{Fingerprint: f, Kind: kind}}
	}
	drop, leave := Decision{Step: Drop, Reason: Succeeded}, Decision{Step: Leave, Reason: Unproved}
	for name, c := range map[string]struct {
		known    ledger.Fingerprint
		archived []ledger.ArchiveRecord
		want     Decision
		asked    int
	}{
		"known":                        {known: body, want: drop},
		"proved":                       {archived: []ledger.ArchiveRecord{archived(body, ledger.KindError)}, want: drop, asked: 1},
		"proved by the first":          {archived: []ledger.ArchiveRecord{archived(body, ledger.KindError), archived(other, ledger.KindError)}, want: drop, asked: 1},
		"another body":                 {archived: []ledger.ArchiveRecord{archived(other, ledger.KindError)}, want: leave, asked: 1},
		"a body that was no copy":      {archived: []ledger.ArchiveRecord{archived(body, ledger.KindMismatch)}, want: leave, asked: 1},
		"nothing is archived any more": {want: leave, asked: 1},
	} {
		op := &answers{record: ledger.Record{Archived: c.archived}}
		r := &runner{op: op, src: &list{}, dst: &taking{}}
		l := aLetter("body")
		l.status = ledger.Status{State: ledger.Succeeded, Token: 1, Fingerprint: c.known}
		if err := r.plan(t.Context(), l); err != nil || l.decision != c.want || op.asked != c.asked {
			t.Errorf("%s: %+v, asked %d times, %v; want %+v, %d", name, l.decision, op.asked, err, c.want, c.asked)
		}
	}
}

// TestLedgerThatDoesNotAnswer: nothing is decided without the ledger's answer; that it has nothing is an answer.
func TestLedgerThatDoesNotAnswer(t *testing.T) {
	broken := errors.New("the ledger is away")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"away": {t.Context(), broken, broken}, "nothing": {t.Context(), ledger.ErrNotFound, nil}, "cancelled": {gone, nil, broken},
	} {
		r := &runner{op: &answers{err: c.err}, src: &list{}, dst: &taking{}}
		l := aLetter("body")
		l.status = ledger.Status{State: ledger.Succeeded, Token: 1}
		if err := r.plan(c.ctx, l); !errors.Is(err, c.want) {
			t.Errorf("%s, proof: %v", name, err)
		}
		l.status = ledger.Status{State: ledger.Failed, Token: 2, Generation: 1, Fingerprint: l.Fingerprint}
		if err := r.plan(c.ctx, l); !errors.Is(err, c.want) {
			t.Errorf("%s, renewal: %v", name, err)
		}
		if err := r.ask(c.ctx, []*Letter{l}); errors.Is(c.err, broken) && !errors.Is(err, broken) {
			t.Errorf("%s, status: %v", name, err)
		}
	}
	r := &runner{op: &answers{err: broken}, src: &list{}, dst: &taking{}}
	if _, err := r.decide(t.Context(), []*Letter{aLetter("body")}); !errors.Is(err, broken) {
		t.Errorf("decided: %v", err)
	}
	if _, err := (&archive{op: &answers{err: broken}}).complete(t.Context(), ledger.Key{}); !errors.Is(err, broken) {
		t.Errorf("its place: %v", err)
	}
}

// TestOnlyFailedOnesAreRenewed: fresh keys, or another body, are for a message that has failed.
func TestOnlyFailedOnesAreRenewed(t *testing.T) {
	for state, want := range map[ledger.State]Decision{
		ledger.Failed: {Step: Send, Reason: Failed, Token: 3}, ledger.Pending: {Step: Refuse, Reason: notFailed},
		ledger.Succeeded: {Step: Drop, Reason: Succeeded},
	} {
		for _, c := range []Config{{FreshKeys: true}, {Mend: true}} {
			r := &runner{c: c, op: &answers{}, src: &list{}, dst: &taking{}}
			l := aLetter("body")
			l.status = ledger.Status{State: state, Token: 3, Fingerprint: l.Fingerprint}
			if err := r.plan(t.Context(), l); err != nil || l.decision != want {
				t.Errorf("state %d: %+v, %v, want %+v", state, l.decision, err, want)
			}
		}
	}
}

// TestTheArchiveFilters: what comes from the ledger's archive was selected by it, by what a letter does not say any more.
func TestTheArchiveFilters(t *testing.T) {
	r := &runner{c: Config{Filter: ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindTerminal}}}}
	for archived, want := range map[bool]bool{true: true, false: false} {
		l := aLetter("body")
		l.Archived = archived
		if got, err := r.selects(t.Context(), l); err != nil || got != want {
			t.Errorf("archived %v: %v, %v, want %v", archived, got, err, want)
		}
	}
}

// runList replays letters that failed to a target.
func runList(ctx context.Context, t *testing.T, src *list, dst *taking, c Config) (Report, *answers, error) {
	t.Helper()
	op := &answers{status: ledger.Status{State: ledger.Failed, Token: 1, Delivery: []byte("last")}}
	c.By = tester
	report, err := Run(ctx, op, src, dst, c)
	return report, op, err
}

// TestLettersInHandAreBounded: letters of more bytes than a run may hold go through it one after the other.
func TestLettersInHandAreBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	body := bytes.Repeat([]byte("x"), 1<<20)
	src := &list{unread: 7}
	for range maxBytes/len(body) + 10 {
		l := aLetter("")
		l.Message.Body, l.Identified = body, false // one body is enough: nobody's copy is looked at
		src.letters = append(src.letters, l)
	}
	report, _, err := runList(ctx, t, src, &taking{}, Config{})
	if err != nil || report.Mismatched != int64(len(src.letters)) || report.Unread != 7 || src.kept != len(src.letters) {
		t.Errorf("%v, %d are kept: %s", err, src.kept, report.Text())
	}
}

// TestAuditOfASend: it says to where, and names the delivery that failed last.
func TestAuditOfASend(t *testing.T) {
	src := &list{letters: []*Letter{aLetter("body")}}
	src.letters[0].Delivery = []byte("first")
	report, op, err := runList(t.Context(), t, src, &taking{}, Config{})
	if err != nil || report.Replayed != 1 || src.done != 1 || len(op.audit) != 1 {
		t.Fatalf("%v, %d are done, audit %+v: %s", err, src.done, op.audit, report.Text())
	}
	if a := op.audit[0]; a.Detail != "to a target" || string(a.Delivery) != "last" || a.Action != ledger.ActionReplay || a.By.Actor != "tester" {
		t.Errorf("%+v", a)
	}
}

// TestTargetThatDoesNotEnd: its error is the run's, also where the run has sent as many as it was asked for.
func TestTargetThatDoesNotEnd(t *testing.T) {
	broken := errors.New("it does not end")
	src := &list{letters: []*Letter{aLetter("one"), aLetter("two")}}
	report, _, err := runList(t.Context(), t, src, &taking{end: broken}, Config{Filter: ledger.Filter{Limit: 1}})
	if !errors.Is(err, broken) || errors.Is(err, errLimit) || report.Replayed != 1 {
		t.Errorf("%v: %s", err, report.Text())
	}
}

// TestCancelledBetweenTwo: a run that is cancelled says that letters are left, and the next call sends them.
func TestCancelledBetweenTwo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	src := &list{}
	for range 25 {
		src.letters = append(src.letters, aLetter("body"))
	}
	report, _, err := runList(ctx, t, src, &taking{cancel: cancel}, Config{Concurrency: 1})
	if !errors.Is(err, ErrStopped) || !errors.Is(err, context.Canceled) || report.Stopped == "" || report.Complete() || report.Replayed >= 25 {
		t.Errorf("%v: %s", err, report.Text())
	}
	if src.done != int(report.Replayed) {
		t.Errorf("%d are done, %d replayed", src.done, report.Replayed)
	}
}

// TestInPlaceOptionsAreTheCallers: they are not changed, and a ledger that has no owners is refused.
func TestInPlaceOptionsAreTheCallers(t *testing.T) {
	o := &InPlaceOptions{Options: consumer.Options{Name: aConsumer}}
	target, err := InPlace(consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil }), o)
	if err != nil || o.Window != 0 || o.NoMaintenance {
		t.Fatalf("%v; the caller's have window %s", err, o.Window)
	}
	dst := target.(*inPlace)
	if dst.opt.Window != DefaultWindow || !dst.opt.NoMaintenance {
		t.Errorf("%+v", dst.opt)
	}
	if err := dst.Begin(t.Context(), Begin{Operator: &answers{}}); err == nil || !strings.Contains(err.Error(), "must be a ledger.Ledger") {
		t.Errorf("no ledger: %v", err)
	}
	if err := dst.Begin(t.Context(), Begin{Operator: memory.New(), Concurrency: 3}); err != nil || dst.opt.Concurrency != 3 {
		t.Errorf("%d at once, %v", dst.opt.Concurrency, err)
	}
	for range 2 { // the second has nothing to end
		if err := dst.End(t.Context()); err != nil || dst.eng != nil {
			t.Errorf("end: %v", err)
		}
	}
}

// TestHandlerHasItsOwnCopy: what a handler changes in a message is changed in no letter.
func TestHandlerHasItsOwnCopy(t *testing.T) {
	dst := &inPlace{}
	l := aLetter("body")
	l.Message.Key, l.Message.Headers = []byte("key"), []ledger.Header{{Name: "n", Value: []byte("value")}}
	l.Message.Received = 5
	m := dst.item(l, &place{}).Msg
	for _, b := range [][]byte{m.Key, m.Body, m.Headers[0].Value} {
		copy(b, bytes.Repeat([]byte("x"), len(b)))
	}
	if got := string(l.Message.Key) + " " + string(l.Message.Body) + " " + string(l.Message.Headers[0].Value); got != "key body value" {
		t.Errorf("the letter has %s", got)
	}
	if m.Received != 0 {
		t.Errorf("it was received %d times, want that this is not known", m.Received)
	}
}

// turned is a cipher for tests: it turns the bits around.
type turned struct{ err error }

func (c turned) Seal(_ context.Context, plain []byte) ([]byte, error) {
	out := bytes.Clone(plain)
	for i := range out {
		out[i] ^= 0xff
	}
	return out, c.err
}
func (c turned) Open(ctx context.Context, sealed []byte) ([]byte, error) { return c.Seal(ctx, sealed) }

// TestMendedBodyIsSealed: where the failed delivery is sealed, the body that takes its place is; else it is stored as it is.
func TestMendedBodyIsSealed(t *testing.T) {
	broken := errors.New("no key")
	sealed := ledger.Archive{Delivery: []byte("last"), Body: []byte("body")}
	if err := sealed.Seal(t.Context(), turned{}); err != nil {
		t.Fatal(err)
	}
	bare := ledger.Archive{Delivery: []byte("last"), Body: []byte("body")}
	for name, c := range map[string]struct {
		archived ledger.Archive
		cipher   ledger.Cipher
		sealed   bool
		err      error
	}{
		"sealed":             {sealed, turned{}, true, nil},
		"not sealed":         {bare, turned{}, false, nil},
		"no cipher":          {sealed, nil, false, nil},
		"a broken cipher":    {sealed, turned{broken}, false, broken},
		"another delivery's": {ledger.Archive{Delivery: []byte("first"), Headers: sealed.Headers}, turned{}, false, nil},
	} {
		r := &runner{c: Config{Mend: true, Body: []byte("mended"), Filter: ledger.Filter{Cipher: c.cipher}, Logger: zap.NewNop()},
			op: &answers{record: ledger.Record{Archived: []ledger.ArchiveRecord{{Archive: c.archived}}}}}
		l, renewal := aLetter("body"), ledger.Renewal{}
		l.status.Delivery = []byte("last")
		err := r.mend(t.Context(), l, &renewal)
		if !errors.Is(err, c.err) || err == nil && bytes.Equal(renewal.Body, r.c.Body) == c.sealed {
			t.Errorf("%s: %v, the ledger gets %q", name, err, renewal.Body)
		}
		if !renewal.Mended || string(l.Message.Body) != "mended" || renewal.Fingerprint != ledger.BodyFingerprint([]byte("mended")) {
			t.Errorf("%s: %+v", name, renewal)
		}
	}
}

// TestMarkOfWhatIsLeftOut: a letter whose body is not archived is unreadable, and has no mark of ours among its headers.
func TestMarkOfWhatIsLeftOut(t *testing.T) {
	d := &ledger.DeadLetter{}
	d.Key = ledger.Key{Scope: Scope("cluster/orders", aConsumer), ID: []byte("orders-0-7")}
	d.Headers = []ledger.Header{marks.LeftOutBatch(7, 9)}
	l, err := (&archive{op: &answers{}}).letter(t.Context(), d)
	if err != nil || len(l.Message.Headers) != 0 || l.Unreadable == nil || !strings.Contains(l.Unreadable.Error(), "7..9") {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestPlaceOfAnArchivedLetter: it is looked for among all failures of a message that may be sent, and nobody is asked about
// another.
func TestPlaceOfAnArchivedLetter(t *testing.T) {
	whole := ledger.Key{Scope: Scope("cluster/orders", aConsumer), ID: []byte("orders-0-7"), Pos: &ledger.Position{Log: "c/t/0", Epoch: 2, Offset: 7, Prev: -1}}
	stored := whole.Known()
	stored.Pos = nil
	for name, c := range map[string]struct {
		state      ledger.State
		superseded bool
		err        error
		asked      int
		found      bool
	}{
		"failed": {state: ledger.Failed, asked: 1, found: true}, "pending": {state: ledger.Pending, asked: 1, found: true},
		"succeeded": {state: ledger.Succeeded}, "no row": {}, "superseded": {state: ledger.Failed, superseded: true},
		"the row went meanwhile": {state: ledger.Failed, err: ledger.ErrNotFound, asked: 1, found: true},
	} {
		op := &answers{err: c.err, record: ledger.Record{Archived: []ledger.ArchiveRecord{{}, {Archive: ledger.Archive{Delivery: []byte("c/t/0/2/7")}}}}}
		d := &ledger.DeadLetter{Superseded: c.superseded}
		d.Key, d.Status.State = stored, c.state
		l, err := (&archive{op: op}).letter(t.Context(), d)
		if err != nil || op.asked != c.asked || (l.Key.Pos != nil) != c.found || l.Key.Sum() != whole.Sum() {
			t.Errorf("%s: asked %d times, place %v, %v", name, op.asked, l.Key.Pos, err)
		}
	}
	op := &answers{}
	d := &ledger.DeadLetter{}
	d.Key, d.Status.State = stored, ledger.Failed
	if l, err := (&archive{op: op}).letter(t.Context(), d); err != nil || l.Key.Sum() != whole.Sum() { // it can be handled in place
		t.Errorf("a place that nothing names: %+v, %v", l, err)
	}
	op.err = errors.New("the ledger is away")
	if _, err := (&archive{op: op}).letter(t.Context(), d); !errors.Is(err, op.err) {
		t.Errorf("a ledger that is away: %v", err)
	}
}

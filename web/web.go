package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// Action is what somebody wants to do, for [Options.Authorize].
type Action string

// The actions. All but Read and Body need [Options.Write].
const (
	Read   Action = "read"    // see a scope's counts, messages, error texts and audit
	Body   Action = "body"    // see a message's body and headers, which is audited
	Replay Action = "replay"  // send dead letters again
	Edit   Action = "edit"    // send another body in the place of the one that failed; goes with Body
	Reopen Action = "reopen"  // let what succeeded run again
	Purge  Action = "purge"   // empty dead letters for good
	Pause  Action = "pause"   // pause and resume workers
	RunNow Action = "run-now" // have retries that wait in the ledger run now
	Drop   Action = "drop"    // make dead letters of retries that wait in the ledger
)

// ActionBody is what the audit calls a look at a body.
const ActionBody ledger.Action = "body"

// Options say who may do what, and where dead letters go. The zero value is a page to read, without bodies.
type Options struct {
	// Authorize returns nil if the sender of a request may do something to a scope; the scope "" is all of them, and what is of
	// no scope. The text of its error is shown to that person. It is asked for each scope that a page shows, often: it should
	// answer from memory. Default: all may Read, and nobody may do anything else. It must be set with Write.
	Authorize func(r *http.Request, a Action, scope string) error
	// Actor is who the sender of a request is, for the audit: 1 to ledger.MaxActor bytes of UTF-8. It must be set with Authorize.
	Actor func(r *http.Request) string
	// Write allows acts, to those whom Authorize lets. Default: nothing can be changed. For operators' pages.
	Write bool
	// Mask changes a body before it is shown, such as one with personal data; what is stored and replayed stays whole. Values of
	// headers are not shown then, and what it changes cannot be edited. It must not change its argument. Default: none.
	Mask func(scope string, body []byte) []byte
	// Cipher opens bodies and headers that workers have sealed (consumer.Options.Cipher). Default: none, and such bodies are not
	// shown, nor replayed.
	Cipher ledger.Cipher

	// Target makes what a replay sends to, for the scope of its filter (empty: all), such as by kafka.NewReplayTarget; it is used
	// by one run. Default: dead letters cannot be replayed.
	Target func(ctx context.Context, scope string) (replay.Target, error)
	// Sources are the brokers' own dead-letter queues and topics that can be replayed from, beside the ledger's dead letters; Target must
	// be set with them. A replay from one needs Replay of its filter's scope, as one of the ledger's. Default: none.
	Sources []Source
	// StampKeys are those of the workers (replay.Config.StampKeys). For people whose workers have keys.
	StampKeys []consumer.StampKey
	// Doctor says what is wrong with the ledger and its brokers. Default: there is no such page. `ackledger web` has one.
	Doctor func(context.Context) ([]Finding, error)

	// Logger receives what went wrong, and each act that began; bodies never. Default: none.
	Logger *zap.Logger
}

// Finding is the answer to one check of [Options.Doctor].
type Finding struct {
	Grade  string // ok, note, warning, problem, or unknown
	Check  string // what was looked at
	Text   string
	Remedy string // empty: none is needed
}

// Bounds of what the pages ask and keep.
const (
	readTimeout = 2 * time.Second       // of the reads of one page
	lookTimeout = 50 * time.Millisecond // of what reads a table without an index, before it must be asked for
	maxReads    = 2                     // pages that read at once
	maxStreams  = 64                    // pages that are live at once
	maxJobs     = 4                     // jobs that run at once
	maxKept     = 50                    // jobs that ended and are kept
	maxForm     = 1 << 20               // bytes of a POST
	pageRows    = 50
	actsPerSec  = 1
	actsAtOnce  = 20
)

// UI is the pages. It is safe for concurrent use.
type UI struct {
	op    ledger.Operator
	board ledger.Board     // nil: workers do not report
	stats ledger.Inspector // nil: it cannot be counted
	o     Options

	protect http.CrossOriginProtection
	acts    *rate.Limiter
	reads   chan struct{}
	streams chan struct{}
	look    time.Duration
	sampler sampler
	audited atomic.Int64 // the id of some record near the audit's end
	jobs    jobs

	life context.Context
	end  context.CancelFunc
	runs sync.WaitGroup // of jobs
}

// Handler makes the pages of a ledger, which shows workers if it is a [ledger.Board], and counts if it is a [ledger.Inspector]. It
// asks the ledger nothing. Errors: a nil ledger, or options that do not go together. [UI.Close] ends it.
func Handler(l ledger.Operator, o Options) (*UI, error) {
	switch {
	case l == nil:
		return nil, errors.New("web: Handler: the ledger must not be nil")
	case o.Write && o.Authorize == nil:
		return nil, errors.New("web: Options.Authorize: must be set with Options.Write, is nil")
	case o.Authorize != nil && o.Actor == nil:
		return nil, errors.New("web: Options.Actor: must be set with Options.Authorize, is nil")
	}
	if err := o.checkSources(); err != nil {
		return nil, err
	}
	if err := consumer.CheckStampKeys(o.StampKeys); err != nil {
		return nil, errors.Join(errors.New("web: Options.StampKeys"), err)
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	u := &UI{op: l, o: o, acts: rate.NewLimiter(actsPerSec, actsAtOnce), reads: make(chan struct{}, maxReads),
		streams: make(chan struct{}, maxStreams), look: lookTimeout}
	u.board, _ = l.(ledger.Board)
	u.stats, _ = l.(ledger.Inspector)
	u.life, u.end = context.WithCancel(context.Background())
	return u, nil
}

// Close stops what runs (a replay between two messages) and ends live pages; it returns when that has ended, which takes some
// seconds at most. The ledger stays open. It may be called more than once.
func (u *UI) Close() error {
	u.jobs.mu.Lock()
	u.end() // no job begins any more
	u.jobs.mu.Unlock()
	u.runs.Wait()
	return nil
}

var errReadOnly = errors.New("these pages are for reading: nothing can be changed here")

// may says whether the sender of a request may do something.
func (u *UI) may(r *http.Request, a Action, scope string) error {
	switch {
	case a != Read && a != Body && !u.o.Write:
		return errReadOnly
	case u.o.Authorize != nil:
		return u.o.Authorize(r, a, scope)
	case a != Read:
		return errors.New("bodies are not shown here")
	}
	return nil
}

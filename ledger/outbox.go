package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Outgoing is a message for a broker that is written in the commit of InTx, and sent afterwards.
type Outgoing struct {
	// Target is the name under which relays know where the message goes, 1 to [MaxTarget] bytes.
	Target string
	// Key orders: messages of one target and key are sent in the order of their commits. At most [MaxOutgoingKey] bytes; empty: no order.
	Key []byte
	// Body is what is sent.
	Body []byte
	// Headers go along. The stamp's name is not among them. Body, key and headers have at most [MaxOutgoingBytes] together.
	Headers []Header
	// ID is the message's identity at its target, 1 to [MaxID] bytes, by which consumers of this module recognise what is sent twice.
	// Empty: a random one. For who publishes one thing in two commits.
	ID string
}

// Size is what counts against bounds, in bytes.
func (m *Outgoing) Size() int {
	n := len(m.Target) + len(m.Key) + len(m.Body) + len(m.ID)
	for i := range m.Headers {
		n += m.Headers[i].size()
	}
	return n
}

// Bounds of an outbox.
const (
	MaxTarget        = 100       // bytes of a target's name
	MaxOutgoingKey   = 1024      // bytes of a key
	MaxOutgoing      = 10_000    // messages of one commit
	MaxOutgoingBytes = 64 << 20  // of all messages of one commit
	MaxOutbox        = 1_000_000 // messages that wait: while there are more, nothing is published
	MaxOutboxBytes   = 4 << 30   // of their bodies; keys and headers are not counted
	Lanes            = 16        // of each target
)

var (
	// ErrNotInTx says that something was published where there is no transaction: outside of InTx, or once its function has returned.
	ErrNotInTx = errors.New("ledger: Publish is for the function of InTx, while it runs: there is no transaction here")
	// ErrNoOutbox says that the ledger's store has no outbox, or its tables are older than outboxes.
	ErrNoOutbox = errors.New("ledger: this ledger has no outbox")
	// ErrOutboxFull says that more waits in the outbox than it takes: relays are away, or too slow.
	ErrOutboxFull = errors.New("ledger: the outbox is full")
)

// outboxScope begins the scopes of messages of outboxes.
const outboxScope = "outbox:"

// OutboxScope is the scope under which messages for a target are archived that it refused for good.
func OutboxScope(target string) string { return outboxScope + target }

// IsOutboxScope says whether a scope is one of [OutboxScope].
func IsOutboxScope(scope string) bool { return strings.HasPrefix(scope, outboxScope) }

// Outbox is a ledger that keeps messages which were published inside of InTx until they are sent. PostgreSQL, SQLite and memory are. All
// methods may be called concurrently, by any number of processes; a context without a deadline gets one of 10 s. Who relays takes a lane,
// asks for what is next in it, sends that, and reports.
type Outbox interface {
	// TakeLane gives one lane of the targets in which a message waits, to nobody else until lease has passed or it is given back. False:
	// there is none now. [ErrNoOutbox] says that the store has none.
	TakeLane(ctx context.Context, targets []string, lease time.Duration) (Lane, bool, error)

	// NextOutgoing writes what was reported, extends the lease, and returns the messages of the lane that are to be sent next, in their
	// order: at most n of them, and not more once their bodies have size bytes. A message that is not due yet holds up the later ones of its key.
	// [ErrLost]: the lane is somebody else's. The report is written even so: what was sent is sent.
	NextOutgoing(ctx context.Context, lane Lane, lease time.Duration, report LaneReport, n, size int) ([]Queued, error)

	// LeaveLane writes what was reported and gives the lane back, for whoever asks when rest has passed.
	LeaveLane(ctx context.Context, lane Lane, report LaneReport, rest time.Duration) error

	// ListOutbox returns messages that wait, with a number above after, in the order of their numbers; at most n. Target empty: all. Without
	// bodies, Size says how large they are.
	ListOutbox(ctx context.Context, target string, after int64, n int, bodies bool) ([]Queued, error)

	// OutboxStats counts what waits, by target. It reads all of it: ask now and then.
	OutboxStats(ctx context.Context) ([]OutboxStats, error)
}

// Outboxed is an owner of an [Outbox].
type Outboxed interface {
	// Room says whether the outbox takes more messages: nil, an error that is [ErrOutboxFull] or [ErrNoOutbox], or one of a ledger that did
	// not answer. It goes by what was counted last, about a second ago.
	Room(ctx context.Context) error
}

// Lane is the right to send what lies in one lane.
type Lane struct {
	Target string
	Shard  int
	Token  uint64 // grows each time the lane is taken
}

// LaneReport is what became of messages of a lane.
type LaneReport struct {
	Done   []int64 // numbers of those that were sent, or archived: they are removed
	Failed []SendFailure
}

// SendFailure is a message that was refused, or could not be given to its target.
type SendFailure struct {
	Num       int64
	After     time.Duration // when it is due again, from now
	Error     string        // at most 2 KiB: what is longer is cut
	Uncounted bool          // its target did not refuse it: its tries stay as they are
}

// Queued is a message in an outbox.
type Queued struct {
	Outgoing
	Num   int64
	At    time.Time // when it was written, by the database's clock
	Tries int       // refusals that were counted
	Due   time.Time // zero: now
	Error string    // of the last refusal, or why it could not be given to its target
	Size  int       // of what is not here, with ListOutbox
}

// OutboxStats counts what waits for one target.
type OutboxStats struct {
	Target  string
	Waiting int64
	Bytes   int64         // of bodies
	Failing int64         // of these, refused at least once
	Oldest  time.Duration // for how long the oldest one waits
	// Untaken is for how long nobody took a lane in which something lies, of those that nobody has and that do not rest. With a relay it is
	// short.
	Untaken time.Duration
}

// Publish keeps messages for the attempt's transaction, which writes them in its commit. It refuses all of them if one cannot be stored
// ([*InvalidError]). [ErrNotInTx] outside of InTx's function. What is kept is copied where the store writes it: the caller changes nothing of
// it until InTx has returned.
func (a *Attempt) Publish(ctx context.Context, messages ...Outgoing) error {
	size := 0
	for i := range messages {
		if err := checkOutgoing(&messages[i]); err != nil {
			return err
		}
		size += messages[i].Size()
	}
	box, ok := Unwrap(a.owner).(Outboxed)
	if !ok {
		return ErrNoOutbox
	}
	if err := a.publishes(nil, 0); err != nil {
		return err
	}
	if err := box.Room(ctx); err != nil {
		if errors.Is(err, ErrNoOutbox) {
			return err
		}
		return MarkUnavailable(err)
	}
	return a.publishes(messages, size)
}

// publishes adds messages, if the transaction runs and has room.
func (a *Attempt) publishes(messages []Outgoing, size int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != AttemptRunning || a.ends {
		return ErrNotInTx
	}
	if len(messages) == 0 {
		return nil
	}
	r := a.rarely()
	if n := len(r.outgoing) + len(messages); n > MaxOutgoing {
		return &InvalidError{Field: "Publish: messages of one commit", Bound: fmt.Sprintf("at most %d", MaxOutgoing), Value: fmt.Sprint(n)}
	}
	if n := r.bytes + size; n > MaxOutgoingBytes {
		return &InvalidError{Field: "Publish: messages of one commit", Bound: fmt.Sprintf("at most %d bytes", MaxOutgoingBytes), Value: fmt.Sprintf("%d bytes", n)}
	}
	first := len(r.outgoing)
	r.outgoing, r.bytes = append(r.outgoing, messages...), r.bytes+size
	for i := range r.outgoing[first:] {
		if m := &r.outgoing[first+i]; m.ID == "" {
			m.ID = rand.Text()
		}
	}
	return nil
}

// Outgoing is called by InTx after [Attempt.Commits], before the fence: it returns what was published, for the commit. From then on nothing
// is published any more.
func (a *Attempt) Outgoing() []Outgoing {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends = true
	if a.rare == nil {
		return nil
	}
	return a.rare.outgoing
}

func checkOutgoing(m *Outgoing) error {
	switch n := len(m.ID); {
	case m.Target == "" || len(m.Target) > MaxTarget:
		return invalidLen("Outgoing.Target", 1, MaxTarget, len(m.Target))
	case len(m.Key) > MaxOutgoingKey:
		return invalidLen("Outgoing.Key", 0, MaxOutgoingKey, len(m.Key))
	case n > MaxID:
		return invalidLen("Outgoing.ID", 1, MaxID, n)
	}
	if !utf8.ValidString(m.Target) || strings.ContainsFunc(m.Target, unicode.IsControl) {
		return &InvalidError{Field: "Outgoing.Target", Bound: "UTF-8 without control characters", Value: fmt.Sprintf("%.100q", m.Target)}
	}
	return nil
}

package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// notes is what is said of messages as they come, and of the worker's settings.
type notes struct {
	log      *zap.Logger
	limit    int      // ledger.Limits.Archive
	retained bool     // messages that are acknowledged stay at their broker
	unwise   []string // what Options.Warnings says

	forgedSaid   atomic.Int64 // when a refused stamp was warned of last, in milliseconds since 1970
	namelessSaid atomic.Int64 // when a tenant that is not known was

	mu      sync.Mutex
	large   int    // messages that came and are larger than the archive's limit
	last    string // which was the last of them
	unswept error  // why the ledger is not maintained by this worker
}

// sayPause lies between two warnings of one kind: whoever may produce can be the cause of any number.
const sayPause = time.Minute

// may says whether to warn again.
func may(said *atomic.Int64) bool {
	now, last := time.Now(), said.Load()
	return now.Sub(time.UnixMilli(last)) > sayPause && said.CompareAndSwap(last, now.UnixMilli())
}

// look counts the copies whose stamps are refused, and warns now and then of the latest, and of the latest whose tenant is not known.
func (n *notes) look(t *telemetry, items []*Item) {
	refused, last, nameless := int64(0), (*Item)(nil), (*Item)(nil)
	for _, it := range items {
		if it.Refused != nil {
			refused, last = refused+1, it
		}
		if it.Nameless != nil {
			nameless = it
		}
	}
	if nameless != nil && may(&n.namelessSaid) {
		n.log.Warn("FairBy has failed: the message is nobody's, and waits for no turn", zap.String("message_id", nameless.Msg.ID), zap.Error(nameless.Nameless))
	}
	if refused == 0 {
		return
	}
	t.forgedStamps(refused)
	if may(&n.forgedSaid) {
		n.log.Warn("a stamp was refused: the copy is a message of its own", zap.String("message_id", last.Msg.ID), zap.Error(last.Refused))
	}
}

// sizeOf is what a message counts against the archive's limit.
func sizeOf(m *consumer.Message) int {
	n := len(m.Body) + len(m.Key) + len(m.Group)
	for i := range m.Headers {
		h := &m.Headers[i]
		n += len(h.Name) + len(h.Value) + len(h.Type)
	}
	return n
}

// measure notes a message that is larger than the ledger archives, when it is received.
func (n *notes) measure(it *Item) {
	size := sizeOf(it.Msg)
	if size <= n.limit {
		return
	}
	n.mu.Lock()
	n.large++
	n.last = fmt.Sprintf("%s of %d bytes", it.Msg.ID, size)
	n.mu.Unlock()
	n.log.Warn("message is larger than the ledger archives: if it fails for good, its body is not archived", zap.String("message_id", it.Msg.ID),
		zap.Int("bytes", size), zap.Int("limit", n.limit))
}

// notSwept notes why the ledger is not maintained by this worker.
func (n *notes) notSwept(err error) {
	n.mu.Lock()
	n.unswept = fmt.Errorf("the ledger is not maintained by this worker: %w", err)
	n.mu.Unlock()
}

// warnings are what Health says of all that.
func (n *notes) warnings() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := append([]string(nil), n.unwise...)
	if n.unswept != nil {
		all = append(all, n.unswept.Error())
	}
	if n.large == 0 {
		return all
	}
	what := "it is kept, and holds its place, if it fails for good"
	if n.retained {
		what = "if it fails for good, its body stays in the log alone"
	}
	return append(all, fmt.Sprintf("%d messages are larger than the ledger archives (Limits.Archive, %d bytes), the last is %s: %s",
		n.large, n.limit, n.last, what))
}

// swept reports what one pass of the sweep found.
func (n *notes) swept(r ledger.SweepReport) {
	fields := []zap.Field{
		zap.Int64("rows", r.Rows), zap.Int64("removed", r.Removed()), zap.Int64("abandoned", r.Abandoned),
		zap.Duration("took", r.Took), zap.Duration("longest_transaction", r.Longest),
	}
	if r.Abandoned == 0 {
		n.log.Debug("ledger swept", fields...)
		return
	}
	ids := make([]string, len(r.Oldest))
	for i, a := range r.Oldest {
		ids[i] = a.Scope + "/" + string(a.ID)
	}
	n.log.Warn("messages are abandoned: pending past their window, and no broker brings them any more",
		append(fields, zap.Strings("oldest", ids))...)
}

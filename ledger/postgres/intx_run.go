package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// run is one call of InTx.
type run struct {
	attempt  *ledger.Attempt
	owner    *owner
	ledger   *Ledger
	session  session
	mark     mark              // nothing, if the transaction has not begun
	rows     []int             // the tickets whose rows are fenced
	fences   []ranges.Fenced   // the ranges of the others
	outgoing []ledger.Outgoing // what was published
	// late says that the fence was sent with its COMMIT, and not answered: it may come late, and commits if its rows are still as they were.
	late     bool
	settling bool // fence and COMMIT are under way, or have not returned
}

func (r *run) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if r.settling { // it may be in the midst of them
		r.session.leave(ctx)
	}
	if err := r.session.close(ctx); err != nil {
		r.ledger.log.Warn("rolling back a transaction of InTx; its connection is closed", r.fields(err)...)
	}
}

func (r *run) fields(err error) []zap.Field {
	sum := r.attempt.Ticket().Sum() // of a batch: the first, for people to find the others by
	return []zap.Field{zap.Binary("key", sum[:]), zap.Uint64("token", r.attempt.Ticket().Token()),
		zap.Int("messages", len(r.attempt.Tickets())), zap.String("owner", r.owner.ID()), zap.Error(err)}
}

// broken marks an error of the transaction's own statements after which its connection is gone, or was never there: an
// outage, and not the handler's failure.
func (r *run) broken(ctx context.Context, err error) error {
	if code(err) == readOnly && r.session != nil {
		if m := r.session.mark(); m.at() == nil || m.readOnly { // since a failover: the caller's pool must not give it to the next attempt
			r.session.leave(ctx)
			return ledger.MarkUnavailable(err)
		}
	}
	if ctx.Err() != nil || rolledBack(err) || unencoded(err) || r.session != nil && r.session.alive(ctx) {
		return err
	}
	return ledger.MarkUnavailable(err)
}

// unencoded says that an argument in a batch was not what its statement takes, after which pgx v5 closes the connection by itself. Only its
// text tells that from a connection that broke.
func unencoded(err error) bool {
	batch, ok := errors.AsType[pgx.ErrPreprocessingBatch](err)
	return ok && strings.HasPrefix(batch.Error(), "error preprocessing batch (build)")
}

// unanswered is broken for what is asked in InTx's own time, until last ends. While the handler's context goes on, the end of
// that time is an outage as well: it may be all that is noticed of one. The clock tells it, since the transaction of
// database/sql has a timer of its own, which is due just then too.
func (r *run) unanswered(ctx, last context.Context, err error) error {
	if end, _ := last.Deadline(); ctx.Err() == nil && !rolledBack(err) && !time.Now().Before(end) {
		return ledger.MarkUnavailable(err)
	}
	return r.broken(last, err)
}

// lost is the error of an attempt that has lost some of its messages.
func (r *run) lost(messages int) error {
	t := r.attempt.Ticket()
	if n := len(r.attempt.Tickets()); n > 1 {
		return fmt.Errorf("%w: at least %d of a batch of %d messages; its first is %x, token %d", ledger.ErrLost, messages, n,
			t.Sum(), t.Token())
	}
	return fmt.Errorf("%w: message %x, token %d", ledger.ErrLost, t.Sum(), t.Token())
}

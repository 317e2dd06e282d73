package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
	"github.com/twmb/franz-go/pkg/kerr"
)

// checkLedger refuses a group in which a worker of another ledger has committed, before this one joins it.
func (w *Worker) checkLedger(ctx context.Context) error {
	ours, err := w.askLedger(ctx)
	if err == nil {
		w.locked(func() { w.ours = ours })
		err = w.lookAround(ctx)
	}
	switch {
	case err == nil:
		return nil
	case ledger.Unusable(err):
		return fmt.Errorf("kafka: %w", err)
	}
	return &retryError{err}
}

// askLedger returns the ledger's id; empty: it has none.
func (w *Worker) askLedger(ctx context.Context) (string, error) {
	l, ok := w.ledger.(ledger.Identified)
	if !ok {
		return "", nil
	}
	id, err := l.ID(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the ledger for its id: %w", err)
	}
	if id != "" && !storage.IsLedgerID(id) {
		return "", ledger.MarkUnusable(fmt.Errorf("the ledger's id must be 1 to %d letters, digits, \"-\" and \"_\", is %q",
			storage.MaxLedgerID, id))
	}
	return id, nil
}

// lookAround reads what the whole group has committed of the topics, and refuses commits of another ledger.
func (w *Worker) lookAround(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := w.adm.FetchOffsets(ask, w.set.group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil // nobody has committed
	}
	if err != nil {
		return fmt.Errorf("fetch the group's offsets: %w", err)
	}
	for _, topic := range w.set.topics {
		for partition, o := range all[topic] {
			if o.Err != nil {
				return fmt.Errorf("the group's offset of topic %q partition %d: %w", topic, partition, o.Err)
			}
			if err := w.checkNote(ctx, place{Topic: topic, Partition: partition}, o.Metadata); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNote refuses the commit of another ledger. A ledger without an id is asked once more: its tables may have been migrated
// since this worker began.
func (w *Worker) checkNote(ctx context.Context, at place, note string) error {
	ours := w.signature()
	theirs := anotherLedger(note, w.cluster, ours, w.set.MovedFrom)
	if theirs != "" && ours == "" {
		var err error
		if ours, err = w.askLedger(ctx); err != nil {
			return err
		}
	}
	if theirs == "" || theirs == ours {
		return nil
	}
	if old, _ := storage.EpochOf(theirs); ours != "" {
		if root, _ := storage.EpochOf(ours); root == old {
			return fmt.Errorf("topic %q partition %d: %w, %s; the id of this worker's ledger is %q, which is the same ledger before or after "+
				"it was restored from a backup: stop all workers, and run `ackledger recover`", at.Topic, at.Partition, ErrOtherLedger, theirs, ours)
		}
	}
	return fmt.Errorf("topic %q partition %d: %w, %s; the id of this worker's ledger is %q: let all workers of the group share one "+
		"ledger, or, to move to this one on purpose, stop the others and name the old one's id in Config.MovedFrom",
		at.Topic, at.Partition, ErrOtherLedger, theirs, ours)
}

// sign commits positions that do not name our ledger yet, if there are any.
//
// Two workers of two ledgers that begin in a new group at once see no commit of each other's. So each looks around once more
// behind its own: whichever was later sees the other's. It takes its name back from what it has just committed, or the other
// one would be refused for it as well, and leaves with nothing handled.
func (w *Worker) sign(ctx context.Context, points []point) error {
	if len(points) == 0 {
		return nil
	}
	if err := w.sendOwning(ctx, points); err != nil || w.signature() == "" {
		return err
	}
	err := w.lookAround(ctx)
	if errors.Is(err, ErrOtherLedger) {
		w.locked(func() { w.ours = "" })
		for n := 1; w.sendOwning(ctx, points) != nil && n < adjustTries && engine.Sleep(ctx, retryDelay(n)); {
			n++ // what keeps the name is refused to the other ledger's workers
		}
	}
	return err
}

// sendOwning is send for what is not assigned yet.
func (w *Worker) sendOwning(ctx context.Context, points []point) error {
	w.owning.Lock()
	defer w.owning.Unlock()
	return w.send(ctx, points)
}

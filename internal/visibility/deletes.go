package visibility

import "slices"

// deleteTries is how often a delete is sent that SQS refuses by itself.
const deleteTries = 10

// Deletion is one entry of a batch of deletes.
type Deletion struct {
	Hold   *Hold
	Handle string
}

// queueDelete puts a message in the delete queue, unless a request is under way that has to end first.
func (t *Table) queueDelete(h *Hold) {
	if h.stage != deleting || h.busy || h.queued {
		return
	}
	h.queued = true
	t.deletes = append(t.deletes, h)
}

// Deletes counts what is ready to be deleted.
func (t *Table) Deletes() int { return len(t.deletes) }

// TakeDeletes takes the next batch out of the delete queue.
func (t *Table) TakeDeletes() []Deletion {
	n := min(len(t.deletes), MaxBatch)
	batch := make([]Deletion, n)
	for i, h := range t.deletes[:n] {
		h.queued, h.busy = false, true
		batch[i] = Deletion{h, h.Handle}
	}
	t.deletes = slices.Delete(t.deletes, 0, n)
	return batch
}

// Deleted is told that a delete has succeeded, or is given up: the message will then be delivered again, and the ledger
// knows it. A copy that came meanwhile is deleted too.
func (t *Table) Deleted(d Deletion) {
	d.Hold.busy = false
	if d.Hold.Handle != d.Handle {
		t.queueDelete(d.Hold)
		return
	}
	t.remove(d.Hold)
}

// DeleteFailed is told that a delete has failed, and whether it was refused by itself. It returns how often it has failed, and
// whether it is given up; else [Table.RetryDelete] is to follow.
func (t *Table) DeleteFailed(d Deletion, refused bool) (tries int, givenUp bool) {
	d.Hold.busy = false
	d.Hold.tries++
	if refused {
		d.Hold.refusals++
	}
	if givenUp = d.Hold.refusals >= deleteTries; givenUp {
		t.Deleted(d)
	}
	return d.Hold.tries, givenUp
}

// RetryDelete puts a message whose delete has failed in the delete queue again.
func (t *Table) RetryDelete(h *Hold) { t.queueDelete(h) }

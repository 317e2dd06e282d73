package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/storage"
)

// A recovery was killed when the ledger had its new epoch and the groups had not been set back: workers that began then went on at their
// commits, and what was handled after the backup was lost. They are refused, and the same command goes on where it was killed.
func TestPitfall216_KilledBeforeTheSeek(t *testing.T) {
	t.Parallel()
	for name, audit := range map[string]kafka.Audit{"Ranges": kafka.AuditRanges, "Rows": kafka.AuditRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestoring(t, audit)
			one, two := r.topic+"_a", r.topic+"_b" // in the order in which they are set back
			was := r.database()
			r.produce(0, 0, 10)
			r.produce(1, 0, 10) // nothing of this partition is missing afterwards
			must(t, r.work(was, one, 19, "0/5"))
			must(t, r.work(was, two, 19, "0/5"))
			url := r.backup(was)
			r.produce(0, 10, 20)
			r.release(was)
			must(t, r.work(was, one, 30, ""))
			must(t, r.work(was, two, 30, ""))

			r.killed(url, 1)
			r.inEpoch(url, 1)
			r.isRefused(url, one)
			r.isRefused(url, two)
			r.killed(url, 2)
			r.inEpoch(url, 1)
			r.isRefused(url, two)
			r.release(url)
			must(t, r.work(url, one, 30, "")) // it is set back, both of its partitions

			out := r.recover(url, "--yes")
			if out.code != exitDone || strings.Contains(out.out, "epoch") || !strings.Contains(out.out, "2 partitions are signed anew, and set back by 15 offsets") {
				t.Fatalf("code %d, %s%s", out.code, out.out, out.errors)
			}
			must(t, r.work(url, two, 30, ""))
			r.exactly(url, one, 30)
			r.exactly(url, two, 30)
			if out := r.recover(url, "--yes"); out.code != exitDone || !strings.Contains(out.out, "nothing is to be done") {
				t.Errorf("once more: code %d, %s%s", out.code, out.out, out.errors)
			}
		})
	}
}

// killed runs a recovery that dies before it sets back the n-th group.
func (r *restoring) killed(url string, n int) {
	r.Helper()
	cmd := commandOf(r.T, killable, "recover", "--ledger", url, "--brokers", strings.Join(r.brokers, ","), "--yes")
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s@%d", killpoint.Variable, killpoint.BeforeAck, n))
	out := finish(r.T, cmd)
	if !diedBySIGKILL(cmd.ProcessState) {
		r.Fatalf("the recovery ended with %s: %s%s", cmd.ProcessState, out.out, out.errors)
	}
}

func diedBySIGKILL(s *os.ProcessState) bool {
	w, ok := s.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

// inEpoch fails unless the ledger is in that epoch.
func (r *restoring) inEpoch(url string, want int) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), url)
	if err != nil {
		r.Fatal(err)
	}
	var id string
	if err := errors.Join(conn.QueryRow(r.Context(), "SELECT ledger::text FROM ackledger.meta").Scan(&id), conn.Close(r.Context())); err != nil {
		r.Fatal(err)
	}
	if _, epoch := storage.EpochOf(id); epoch != want {
		r.Errorf("the ledger %s is in epoch %d, want %d", id, epoch, want)
	}
}

// isRefused fails unless a worker of the group ends at once, and has done nothing.
func (r *restoring) isRefused(url, group string) {
	r.Helper()
	if err := r.work(url, group, 30, ""); !errors.Is(err, kafka.ErrOtherLedger) || !strings.Contains(err.Error(), "ackledger recover") {
		r.Errorf("group %s, which was not set back: %v", group, err)
	}
	r.exactly(url, group, 19)
}

// A ledger was restored a second time, from a backup of before its first recovery: with the epoch that follows its own it had an id, and
// tokens, that it had had before.
func TestPitfall217_EpochsThatWere(t *testing.T) {
	t.Parallel()
	const root = "one"
	drawn := func(epoch int, drawn uint32) string {
		if epoch == 0 {
			return root
		}
		return storage.InEpoch(root, epoch, drawn)
	}
	at := func(group string, epoch int, offset, back int64) kafka.Committed {
		return kafka.Committed{Group: group, State: "Empty", Topic: "orders", LedgerID: drawn(epoch, 1), Offset: offset, Back: back}
	}
	for name, c := range map[string]struct {
		epoch int // of the ledger
		list  []kafka.Committed
		raise bool
		want  int // its epoch in the end
		parts int // that are set back
	}{
		"in order":               {0, []kafka.Committed{at("a", 0, 9, 9)}, false, 0, 0},
		"restored":               {0, []kafka.Committed{at("a", 0, 9, 5), at("b", 0, 9, 9)}, true, 1, 2},
		"restored to before":     {0, []kafka.Committed{at("a", 3, 9, 9), at("b", 0, 9, 9)}, true, 4, 2},
		"killed before the seek": {1, []kafka.Committed{at("a", 0, 9, 9), at("b", 0, 9, 5)}, false, 1, 2},
		"killed in the middle":   {1, []kafka.Committed{at("a", 1, 9, 9), at("b", 0, 9, 9)}, false, 1, 1},
	} {
		p := new(recovering).plan(c.list, drawn(c.epoch, 1))
		if p.raise != c.raise || p.epoch != c.want || len(p.list) != c.parts || len(p.refused) > 0 {
			t.Errorf("%s: raise %t, epoch %d, %d partitions, refused %q", name, p.raise, p.epoch, len(p.list), p.refused)
		}
	}
}

// A ledger of two clusters was restored twice, to before its first recovery, of which the second cluster knew nothing and was recovered first:
// the ledger had the first cluster's epoch again. Its workers went on from where they were, past what the restore had lost.
func TestPitfall219_TheSameEpochTwice(t *testing.T) {
	t.Parallel()
	first, second := storage.InEpoch("one", 1, 1), storage.InEpoch("one", 1, 2)
	list := []kafka.Committed{{Group: "a", State: "Empty", Topic: "orders", LedgerID: first, Offset: 9, Back: 9}}
	if p := new(recovering).plan(list, second); !p.raise || p.epoch != 2 || len(p.list) != 1 {
		t.Errorf("raise %t, epoch %d, %d partitions: want an epoch that neither has had", p.raise, p.epoch, len(p.list))
	}
	if p := new(recovering).plan(list, first); p.raise || len(p.list) != 0 {
		t.Errorf("raise %t, %d partitions of the ledger that it was recovered with", p.raise, len(p.list))
	}
}

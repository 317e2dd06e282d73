package acts_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/ledger"
)

// at is the key of a record in a log.
func at(log string, epoch int32, offset int64) ledger.Key {
	return ledger.Key{Scope: "s", ID: []byte("id"), Pos: &ledger.Position{Log: log, Epoch: epoch, Offset: offset, Prev: offset - 1}}
}

// A reopening that breaks off says how far it came.
func TestRunReopenSaysHowFarItCame(t *testing.T) {
	away := errors.New("away")
	list := func(yield func(ledger.Listed, error) bool) {
		for range 1200 {
			if !yield(ledger.Listed{}, nil) {
				return
			}
		}
	}
	batches := 0
	report, err := acts.Reopen(t.Context(), ledger.ReopenRequest{}, time.Now(), list, func(_ context.Context, batch []ledger.Listed) (int64, error) {
		if batches++; batches == 3 {
			return 0, away
		}
		return int64(len(batch)) - 1, nil
	})
	if !errors.Is(err, away) || err.Error() != "after 998 reopened messages: away" || report.Matched != 1000 || report.Reopened != 998 || report.Skipped != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}

// While more is parked than is dropped a drop comes to its end all the same, and says what is left.
func TestDropLeavesWhatIsParkedMeanwhile(t *testing.T) {
	began := time.Unix(1700000000, 0)
	passes := 0
	c := acts.ParkedChange{
		Request: ledger.ParkedRequest{Action: ledger.ActionDrop}, Began: began,
		List: func(context.Context, ledger.Filter) iter.Seq2[ledger.ParkedMessage, error] {
			passes++
			return func(yield func(ledger.ParkedMessage, error) bool) {
				for _, at := range []time.Time{began, began.Add(time.Second)} {
					if passes == 3 && at.Equal(began) { // two were there when it began
						continue
					}
					m := ledger.ParkedMessage{Parked: ledger.Parked{At: at, Lane: &ledger.ParkLane{}}, Status: ledger.Status{State: ledger.Pending}}
					if !yield(m, nil) {
						return
					}
				}
			}
		},
		Write: func(_ context.Context, batch []ledger.ParkedMessage) (int64, error) { return int64(len(batch)), nil },
	}
	report, err := c.Run(t.Context())
	if want := (ledger.ParkedReport{Matched: 4, Changed: 3, Left: 1}); err != nil || report != want || passes != 3 {
		t.Errorf("%+v, %v after %d passes; want %+v", report, err, passes, want)
	}
}

// The audit tells a mended body from a run with fresh keys.
func TestDetailsSayWhatWasAskedFor(t *testing.T) {
	got := []string{
		acts.RenewalDetail(&ledger.Renewal{Mended: true}), acts.RenewalDetail(&ledger.Renewal{}),
		acts.ReopenDetail(&ledger.ReopenRequest{FreshKeys: true}), acts.ReopenDetail(&ledger.ReopenRequest{}),
	}
	if want := []string{"mended body", "fresh keys", "fresh keys", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// finderOf answers with errors for its one message.
type finderOf struct {
	ledger.Operator
	scope  string
	err    error // of Get
	status error
}

func (f finderOf) Get(context.Context, ledger.Key) (ledger.Record, error) {
	return ledger.Record{}, f.err
}
func (f finderOf) Scopes(context.Context) ([]string, error) { return []string{f.scope}, nil }
func (f finderOf) Status(_ context.Context, keys []ledger.Key) ([]ledger.Status, error) {
	out := make([]ledger.Status, len(keys))
	for i := range out {
		out[i].State = ledger.Failed
	}
	return out, f.status
}

// A record that cannot be read is an error, not a record that is not there: an operator would take it for gone.
func TestFindRecordsSaysWhatItCannotRead(t *testing.T) {
	broken := errors.New("connection reset")
	if found, err := acts.Find(t.Context(), finderOf{scope: "s", err: broken}, nil, "", []byte("a")); !errors.Is(err, broken) {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := acts.Find(t.Context(), finderOf{scope: "s", status: broken}, nil, "", []byte("a")); !errors.Is(err, broken) {
		t.Errorf("no states: %+v, %v", found, err)
	}
	if _, err := acts.Find(t.Context(), finderOf{scope: "s", err: ledger.ErrNotFound}, nil, "", []byte("a")); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("one that went meanwhile: %v", err)
	}
}

// The name of a reopened delivery is no delivery's own, and differs for each time that it is reopened.
func TestReopenedDeliveryIsNamedAnew(t *testing.T) {
	if got := string(acts.ReopenedDelivery(7, []byte("d"))); got != "reopened:7:d" {
		t.Error(got)
	}
}

// Names of mended bodies differ for each time that one is mended.
func TestRenewedDeliveryIsNamedAnew(t *testing.T) {
	if got := string(acts.RenewedDelivery(7)); got != "renewed:7" {
		t.Error(got)
	}
}

// A span of n is about n offsets of its own log, from its key's on, and of no other log.
func TestAuditFilterMatchesASpan(t *testing.T) {
	r := ledger.AuditRecord{Key: at("log", 0, 100), Span: 10}
	for _, c := range []struct {
		key  ledger.Key
		want bool
	}{
		{at("log", 0, 99), false}, {at("log", 0, 100), true}, {at("log", 0, 109), true}, {at("log", 0, 110), false},
		{at("other", 0, 105), false}, {at("log", 1, 105), false},
	} {
		if got := acts.AuditMatches(&ledger.AuditFilter{Key: &c.key}, &r); got != c.want {
			t.Errorf("offset %d of %s, epoch %d: %v", c.key.Pos.Offset, c.key.Pos.Log, c.key.Pos.Epoch, got)
		}
	}
}

package driver_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
)

// mute is a store whose views fail, or hang, while it is told to.
type mute struct {
	driver.Store
	fails, hangs atomic.Bool
}

var errMute = errors.New("no answer")

func (m *mute) View(ctx context.Context, call driver.Call, fn func(driver.Reader) error) error {
	if m.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.fails.Load() {
		return errMute
	}
	return m.Store.View(ctx, call, fn)
}

// A beat is confirmed though the pauses cannot be read with it, and those that were known hold. Somebody is told.
func TestPitfall200_PausesNotRead(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	m := &mute{Store: memory.NewStore()}
	l := driver.New(m, driver.Config{Limits: ledger.DefaultLimits, Warn: func(string, error) { told.Add(1) }})
	if err := l.Pause(t.Context(), "s", ledger.By{Actor: "x"}); err != nil {
		t.Fatal(err)
	}
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, silent := range []*atomic.Bool{&m.fails, &m.hangs} {
		silent.Store(true)
		began := time.Now()
		if lasts, err := o.Beat(t.Context()); err != nil || lasts != time.Minute || time.Since(began) > 30*time.Second {
			t.Errorf("a beat without the pauses: %s, %v, after %s", lasts, err, time.Since(began))
		}
		if hold := ledger.BoardedOf(o).Pauses(); len(hold) != 1 || hold[0].Scope != "s" {
			t.Errorf("the pauses are %+v", hold)
		}
		silent.Store(false)
	}
	if told.Load() != 2 {
		t.Errorf("told %d times", told.Load())
	}
	if _, err := l.Resume(t.Context(), "s", ledger.By{Actor: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Beat(t.Context()); err != nil || len(ledger.BoardedOf(o).Pauses()) != 0 {
		t.Errorf("%v: %+v", err, ledger.BoardedOf(o).Pauses())
	}
	m.fails.Store(true)
	if _, err := l.Join(t.Context(), time.Minute); !errors.Is(err, errMute) { // it would not know whether it may begin
		t.Errorf("a join without the pauses: %v", err)
	}
	m.fails.Store(false)
	if n, err := m.CountOwners(t.Context()); err != nil || n.Live != 1 {
		t.Errorf("%d live owners, %v", n.Live, err)
	}
}

// What was stored and cannot be read is an error, and no panic; what was stored whole comes back.
func TestPausesAreStored(t *testing.T) {
	t.Parallel()
	hold := []ledger.Pause{{Scope: "\xff\x00", By: ledger.By{Actor: "a", Reason: "\u2028<"}, Since: time.Unix(1, 2).UTC()}, {}}
	b, err := driver.EncodePauses(hold)
	if err != nil {
		t.Fatal(err)
	}
	got, err := driver.DecodePauses(b)
	if err != nil || len(got) != 2 || got[0] != hold[0] || got[1] != hold[1] {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := driver.DecodePauses([]byte("{")); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
	if got, err := driver.DecodePauses(nil); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

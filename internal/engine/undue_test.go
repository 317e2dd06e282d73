package engine

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func TestUndue(t *testing.T) {
	t.Parallel()
	now, second := time.Now(), time.Second
	put := func(after ...time.Duration) (list []ledger.SendFailure) {
		for _, d := range after {
			list = append(list, ledger.SendFailure{After: d})
		}
		return list
	}
	for name, c := range map[string]struct {
		was  undue
		put  []ledger.SendFailure
		want time.Duration
	}{
		"others put it off":          {want: second},
		"sent to its end":            {was: undue{sent: true}, want: second / 10},
		"the first is due soon":      {was: undue{sent: true}, put: put(5*second, second/4), want: second / 4},
		"it is due at once":          {was: undue{sent: true}, put: put(1), want: second / 10},
		"it is due late":             {was: undue{sent: true}, put: put(5 * second), want: second},
		"of an earlier turn":         {was: undue{next: now.Add(second / 2)}, put: put(5 * second), want: second / 2},
		"an earlier one was due":     {was: undue{sent: true, next: now}, put: put(second / 3), want: second / 3},
		"it was due, and is no more": {was: undue{sent: true, next: now}, want: second / 10},
	} {
		if c.was.put(c.put, now); c.was.rest(second/10, now) != c.want {
			t.Errorf("%s: %s, want %s", name, c.was.rest(second/10, now), c.want)
		}
	}
	if late := (&undue{}); late.rest(time.Minute, now) != time.Minute {
		t.Errorf("a longer interval: %s", late.rest(time.Minute, now))
	}
}

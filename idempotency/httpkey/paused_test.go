package httpkey_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
)

// A paused runner runs nothing, also where requests are to run while the ledger is away: the ledger is there.
func TestPaused(t *testing.T) {
	for _, pass := range []bool{false, true} {
		t.Run(strconv.FormatBool(pass), func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				h, runs := counted(http.StatusCreated)
				e := serve(t, idempotency.Options{}, httpkey.Options{WithoutLedger: pass}, h, http2)
				e.runner.Pause()
				a := e.ask(asked{key: "k"})
				if a.status != http.StatusServiceUnavailable || a.problem() != httpkey.Unavailable || a.header.Get("Retry-After") != "5" || runs.Load() != 0 {
					t.Errorf("in the pause: %+v after %d runs", a, runs.Load())
				}
				e.runner.Resume()
				if a := e.ask(asked{key: "k"}); a.status != http.StatusCreated || a.replayed() {
					t.Errorf("after the pause: %+v", a)
				}
			})
		})
	}
}

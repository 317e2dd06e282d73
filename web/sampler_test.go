package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestRates: rates are differences of counts, over the last rateOver; a worker that begins anew, or just came, adds none.
func TestRates(t *testing.T) {
	t.Parallel()
	var s sampler
	start := time.Unix(1_800_000_000, 0)
	at := func(seconds int, workers ...ledger.WorkerStatus) *sample {
		next := &sample{At: start.Add(time.Duration(seconds) * time.Second), Workers: workers}
		s.add(next)
		return next
	}
	worker := func(owner, scope string, ended, failed int64) ledger.WorkerStatus {
		return ledger.WorkerStatus{Owner: owner, Report: ledger.WorkerReport{Scope: scope, Succeeded: ended, Failed: failed}}
	}
	if first := at(0, worker("a", "s", 1000, 0)); len(first.Rates) != 0 {
		t.Errorf("one sample has rates: %v", first.Rates)
	}
	got := at(10, worker("a", "s", 1100, 10), worker("b", "s", 7000, 0), worker("c", "t", 1, 0))
	if r := got.Rates["s"]; r.Ended != 11 || r.Failed != 1 || got.Rates["t"].Ended != 0 {
		t.Errorf("rates: %+v", got.Rates)
	}
	if got := at(20, worker("a", "s", 5, 0), worker("b", "s", 7000, 0)); got.Rates["s"].Ended != 0 {
		t.Errorf("counts that fell have rates: %+v", got.Rates)
	}
	got = at(41, worker("b", "s", 7210, 0))
	if r := got.Rates["s"]; r.Ended != 10 { // over the 21 s since the sample at 20
		t.Errorf("rates: %+v", got.Rates)
	}
	for i := range 2 * maxSamples {
		got = at(100+2*i, worker("b", "s", 7210+int64(i), 0))
	}
	if len(s.past) > maxSamples || len(got.Charts["s"]) > maxSamples {
		t.Errorf("%d samples and %d points are kept, want at most %d", len(s.past), len(got.Charts["s"]), maxSamples)
	}
}

// TestViewersShareALook: a second viewer within sampleEvery asks nothing of the ledger, also when it did not answer the first.
func TestViewersShareALook(t *testing.T) {
	t.Parallel()
	ui, err := Handler(slow{memory.New()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 5 {
		w := httptest.NewRecorder()
		if ui.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d", w.Code)
		}
	}
	if took := time.Since(began); took > 3*readTimeout {
		t.Errorf("five viewers waited for %s in turn", took)
	}
}

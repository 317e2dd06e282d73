package cases

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/web"
)

const pageGroup = "web pages, a large ledger"

// shown are the pages that are measured, by name.
var shown = []struct{ name, path string }{
	{"now", ""}, {"stuck", "stuck"}, {"dead letters", "dead"}, {"dead letters, the oldest first", "dead?order=oldest"},
	{"dead letters of a scope", "dead?scope=" + pageScope}, {"dead letters by error", "dead?error=no+such+SKU"},
	{"errors", "errors"}, {"errors, of what is nowhere", "errors?error=no+such+error"}, {"a message", "message?scope=" + pageScope + "&id=dead-77"}, {"audit", "audit"},
}

const pageScope = "pages"

// pageCases are rows about the operators' pages beside many messages.
func pageCases() []suite.Case {
	var out []suite.Case
	for _, s := range shown {
		out = append(out, suite.Case{Group: pageGroup, Name: s.name, Main: suite.P99, N: suite.Size{Full: 100, Quick: 10, Smoke: 3}, Limit: 40 * time.Minute,
			Note: "20 million succeeded messages and 1 million dead letters (quick: 200,000 and 10,000); one GET at a time, at most two connections", Run: shows(s.path)})
	}
	return out
}

// slowestPage is the largest p99 of the pages, in ms.
func slowestPage(r suite.Round) float64 {
	slowest := 0.0
	for _, s := range shown {
		slowest = max(slowest, r.Of(pageGroup+"/"+s.name, suite.P99))
	}
	return slowest
}

// shows measures one page's answers.
func shows(path string) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		ui, err := suite.Once(r.Of, "a large ledger for the pages", func() (*web.UI, func() error, error) { return openPages(ctx, r) })
		if err != nil {
			return nil, err
		}
		took := make([]time.Duration, 0, r.N)
		for range r.N {
			w := httptest.NewRecorder()
			begin := time.Now()
			ui.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+path, nil))
			took = append(took, time.Since(begin))
			if w.Code != http.StatusOK {
				return nil, fmt.Errorf("GET /%s: %d, %.300s", path, w.Code, w.Body)
			}
		}
		return suite.Result{suite.P50: suite.Quantile(took, 0.5) / ms, suite.P99: suite.Quantile(took, 0.99) / ms}, nil
	}
}

// openPages fills a ledger and opens its pages.
func openPages(ctx context.Context, r *suite.Run) (*web.UI, func() error, error) {
	f, undo, err := fill(ctx, r, r.Mode.Of(suite.Size{Full: 20_000_000, Quick: 200_000, Smoke: 2000}), 2)
	if err != nil {
		return nil, nil, err
	}
	ui, err := web.Handler(f.rows, web.Options{})
	if err == nil {
		err = f.fail(ctx, r.Mode.Of(suite.Size{Full: 1_000_000, Quick: 10_000, Smoke: 200}))
	}
	if err == nil {
		err = f.db.checkpoint(ctx, r)
	}
	if err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	return ui, func() error { return errors.Join(ui.Close(), undo()) }, nil
}

// fail has n messages fail for good, of ten errors.
func (f *filled) fail(ctx context.Context, n int) error {
	_, err := batchesOf(ctx, 500, n, func(ctx context.Context, partition, from, n int) error {
		entries := make([]ledger.Entry, n)
		for i := range entries {
			id := fmt.Appendf(nil, "dead-%d", (from+i)*batchers+partition)
			entries[i] = ledger.Entry{Key: ledger.Key{Scope: pageScope, ID: id}, Fingerprint: ledger.BodyFingerprint(id), Delivery: id, Window: time.Hour}
		}
		claims, err := f.owner.Claim(ctx, entries)
		if err != nil {
			return err
		}
		sets := make([]ledger.Settlement, n)
		for i, c := range claims {
			e := &entries[i]
			sets[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Fingerprint: e.Fingerprint, Dead: &ledger.Archive{
				Key: e.Key, Fingerprint: e.Fingerprint, Delivery: e.Delivery, Kind: ledger.KindExhausted, Body: e.Key.ID, Source: pageScope, Attempts: 10,
				Errors: []ledger.AttemptError{{Attempt: 10, At: time.Now(), Error: fmt.Sprint("no such SKU: ", i%10)}}, Keep: time.Hour,
			}}
		}
		errs, err := f.owner.Settle(ctx, sets)
		return errors.Join(append(errs, err)...)
	})
	return err
}

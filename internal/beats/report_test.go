package beats_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/ledger"
)

// A report of whatever size is stored in its bytes, and what comes back is a report that comes back as it is.
func TestReportsFit(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string {
		b := make([]byte, rnd.IntN(most))
		for i := range b {
			b[i] = [...]byte{'a', '<', 0, 0xff, 0xc3, 0xbc, '"', '\\', '\n'}[rnd.IntN(9)]
		}
		return string(b)
	}
	list := func() (all []string) {
		for range rnd.IntN(30) {
			all = append(all, text(600))
		}
		return all
	}
	for range 150 {
		r := ledger.WorkerReport{Scope: text(700), Scopes: list(), Host: text(600), Version: text(600), Started: time.Unix(rnd.Int64N(1e12), rnd.Int64N(1e9)),
			Held: rnd.Int(), Oldest: time.Duration(rnd.Int64()), Succeeded: rnd.Int64(), Paused: text(900), Stalled: list(), Warnings: list(), Error: text(3000)}
		for range rnd.IntN(300) {
			r.Lag = append(r.Lag, ledger.Lag{Source: text(300), Waiting: rnd.Int64()})
		}
		b := beats.EncodeReport(&r)
		got := beats.DecodeReport(b)
		if len(b) > ledger.MaxReport || !json.Valid(b) || got.Held != r.Held || got.Succeeded != r.Succeeded || !strings.HasPrefix(r.Scope, got.Scope) {
			t.Fatalf("%d bytes of %+v: %+v", len(b), r, got)
		}
		if again := beats.DecodeReport(beats.EncodeReport(&got)); !reflect.DeepEqual(again, got) {
			t.Fatalf("stored again\n%+v\nwas\n%+v", again, got)
		}
	}
}

// What is no report hides nobody else's.
func TestWhatIsNoReport(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "null", "[]", `{"held":"many"}`, `{"started":"never"}`, `{"scope":"not base64!"}`, "\xff\x00", strings.Repeat("[", 5000)} {
		if got := beats.DecodeReport([]byte(text)); !reflect.DeepEqual(got, ledger.WorkerReport{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

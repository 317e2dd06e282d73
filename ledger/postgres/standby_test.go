package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestWhatIsSeenWaitsForTheStandby: with a synchronous standby that is away, a settlement was written, its commit waited, and
// its call ended without an answer. The repetition found the row settled, wrote nothing and so waited for nobody: it said done
// of what no standby had, and the primary's loss then was the settlement's, and the archived body's. In the same way others
// found a range finished, and InTx its own transaction committed.
func TestWhatIsSeenWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	migrate(t, server.URL(), nil)
	const limit = time.Second
	b := openBench(t, server.URL(), variant{cfg: &postgres.Config{CommitLimit: limit}})
	b.exec(t, createEffects)
	o, other := join(t, b, time.Hour), join(t, b, time.Hour)
	s, f, in := entry("succeeds"), entry("fails"), entry("in a transaction")
	differs := f
	differs.Fingerprint, differs.Delivery = ledger.BodyFingerprint([]byte("other")), []byte("second")
	inRange, inTxRange := records("r", 0, 0, 10), records("r", 1, 0, 1)
	claims := []ledger.Claim{claimOne(t, o, s, ledger.Run), claimOne(t, o, f, ledger.Run), claimOne(t, o, differs, ledger.Mismatch)}
	ranged := claimsOf(t, o, inRange, ledger.Run)
	attempts := []ledger.Claim{claimOne(t, o, in, ledger.Run), claimOne(t, o, inTxRange[0], ledger.Run)}
	b.standby(t, "nobody")
	dead := func(e ledger.Entry, kind ledger.FailureKind) *ledger.Archive {
		return &ledger.Archive{Key: e.Key, Fingerprint: e.Fingerprint, Delivery: e.Delivery, Kind: kind, Body: []byte("body"), Keep: time.Hour}
	}
	for name, settlements := range map[string][]ledger.Settlement{
		"success":  {{Ticket: claims[0].Ticket, Kind: ledger.Succeed}},
		"failure":  {{Ticket: claims[1].Ticket, Kind: ledger.Fail, Dead: dead(f, ledger.KindTerminal)}},
		"mismatch": {{Ticket: claims[2].Ticket, Kind: ledger.Fail, Dead: dead(differs, ledger.KindMismatch)}},
		"range":    successes(ranged),
	} {
		for try := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			errs, err := ledger.Ungroup(o).Settle(ctx, settlements)
			cancel()
			if !ledger.Unknown(err) {
				t.Errorf("%s, try %d: %v, %v; want unknown: no standby has it", name, try, errs, err)
			}
		}
	}
	for name, entries := range map[string][]ledger.Entry{"row": {s}, "range": inRange} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		got, err := ledger.Ungroup(other).Claim(ctx, entries)
		cancel()
		if err == nil {
			t.Errorf("a claim of the %s: %v; want an error: no standby has it", name, got)
		}
	}
	for i, c := range attempts {
		a := ledger.NewAttempt(o, c.Ticket)
		err := inTx(ledger.WithAttempt(t.Context(), a), func(context.Context) error { return nil })
		if !ledger.Unknown(err) {
			t.Errorf("InTx %d: %v; want unknown: no standby has it", i, err)
		}
	}
	// Nor does a replay drop a dead letter because of it.
	for name, key := range map[string]ledger.Key{"row": s.Key, "range": inRange[0].Key} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		got, err := b.Status(ctx, []ledger.Key{key})
		cancel()
		if err == nil {
			t.Errorf("status of the %s: %+v; want an error: no standby has it", name, got)
		}
	}
	// Nor is a repetition answered with it.
	waits, done := context.WithTimeout(t.Context(), limit)
	if got, err := b.Successes(waits, []ledger.Key{s.Key}); err == nil {
		t.Errorf("a success: %+v; want an error: no standby has it", got)
	}
	done()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	if got, err := b.Status(ctx, []ledger.Key{f.Key}); err != nil || got[0].State == ledger.Succeeded {
		t.Errorf("status of the failure: %+v, %v; nothing to wait for", got, err)
	}
	cancel()
	b.standby(t, "")
	claimsOf(t, other, append(append(inRange, inTxRange...), s, in), ledger.Done)
	if r, err := b.Get(t.Context(), f.Key); err != nil || r.State != ledger.Failed || len(r.Archived) != 2 {
		t.Errorf("the failure, with what was archived: %+v, %v", r, err)
	}
}

// standby names the synchronous standby that commits wait for; empty: none.
func (b *bench) standby(t *testing.T, names string) {
	t.Helper()
	b.exec(t, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
	b.exec(t, "SELECT pg_reload_conf()")
	poll(t, "the setting holds for commits", func() bool { // sessions know of it before
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := b.pool.Exec(ctx, "SELECT pg_logical_emit_message(true, 'probe', '')")
		return (err != nil) == (names != "")
	})
}

func successes(claims []ledger.Claim) []ledger.Settlement {
	out := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		out[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	}
	return out
}

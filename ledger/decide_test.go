package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

var (
	body  = ledger.BodyFingerprint([]byte("body"))
	other = ledger.BodyFingerprint([]byte("other"))
)

// row is a pending row in nobody's hands, changed.
func row(change func(*ledger.Row)) *ledger.Row {
	r := &ledger.Row{Fingerprint: body, State: ledger.Pending, Token: 7, Attempts: 3}
	change(r)
	return r
}

func held(h ledger.Holder, crashes int) *ledger.Row {
	return row(func(r *ledger.Row) { r.Holder, r.Crashes = h, crashes })
}

func failed(crashes int) *ledger.Row {
	return row(func(r *ledger.Row) { r.State, r.Crashes = ledger.Failed, crashes })
}

// TestDecide is the claim table, row by row.
func TestDecide(t *testing.T) {
	type D = ledger.Decision
	busy, done := D{Answer: ledger.Busy}, D{Answer: ledger.Done}
	run := func(crashes int, tookOver bool) D {
		return D{Answer: ledger.Run, Write: true, Token: 8, Attempts: 3, Crashes: crashes, TookOver: tookOver}
	}
	spent := func(crashes int, uncertain, tookOver bool) D {
		return D{Answer: ledger.Spent, Write: true, Token: 8, Attempts: 3, Crashes: crashes, Uncertain: uncertain, TookOver: tookOver}
	}
	redrive := func(crashes int) D {
		return D{Answer: ledger.Run, Write: true, Token: 8, Crashes: crashes, Renew: true}
	}
	first := D{Answer: ledger.Run, Write: true, Token: 1, Renew: true, First: true}
	live := D{Answer: ledger.Busy, Held: true}
	suspect := D{Answer: ledger.Busy, Suspect: true}
	plain, solo, park := ledger.Entry{Fingerprint: body}, ledger.Entry{Fingerprint: body, Solo: true},
		ledger.Entry{Fingerprint: body, Park: true}
	parkSolo := ledger.Entry{Fingerprint: body, Park: true, Solo: true}
	stamped := func(token uint64) ledger.Entry { return ledger.Entry{Fingerprint: body, StampToken: token} }
	for _, c := range []struct {
		name  string
		row   *ledger.Row
		entry ledger.Entry
		want  D
	}{
		{"1 none", nil, plain, first},
		{"1 none, park and stamped", nil, ledger.Entry{Park: true, StampToken: 4}, first},
		{"2 unseen", row(func(r *ledger.Row) { r.Unseen = true }), plain, busy},
		{"2 unseen before all", row(func(r *ledger.Row) { r.Unseen, r.Archived, r.State = true, true, ledger.Succeeded }), plain, busy},
		{"3 archived, failed", row(func(r *ledger.Row) { r.State, r.Archived = ledger.Failed, true }), plain, done},
		{"3 archived, pending elsewhere", row(func(r *ledger.Row) { r.Holder, r.Archived = ledger.Live, true }), plain, done},
		{"3 archived, other body", row(func(r *ledger.Row) { r.Fingerprint, r.Archived = other, true }), plain, done},
		{"4 mismatch, pending", row(func(r *ledger.Row) { r.Fingerprint = other }), plain, D{Answer: ledger.Mismatch}},
		{"4 mismatch, live", row(func(r *ledger.Row) { r.Fingerprint, r.Holder = other, ledger.Live }), plain, D{Answer: ledger.Mismatch}},
		{"4 mismatch, succeeded", row(func(r *ledger.Row) { r.Fingerprint, r.State = other, ledger.Succeeded }), plain, D{Answer: ledger.Mismatch}},
		{"5 succeeded", row(func(r *ledger.Row) { r.State = ledger.Succeeded }), stamped(3), done},
		{"6 live", row(func(r *ledger.Row) { r.Holder, r.HeldFor = ledger.Live, time.Minute }), plain, D{Answer: ledger.Busy, Wait: time.Minute, Held: true}},
		{"6 live, overrun", row(func(r *ledger.Row) { r.Holder, r.HeldFor = ledger.Live, -time.Minute }), plain, live},
		{"6 live, five crashes", held(ledger.Live, 5), solo, live},
		{"6 not due", row(func(r *ledger.Row) { r.DueIn = time.Second }), plain, D{Answer: ledger.Busy, Wait: time.Second}},
		{"6 not due, suspect", row(func(r *ledger.Row) { r.DueIn, r.Crashes = time.Second, 3 }), plain, D{Answer: ledger.Busy, Wait: time.Second}},
		{"7 fifth crash", held(ledger.Dead, 4), plain, spent(5, false, true)},
		{"7 five crashes, nobody", held(ledger.Nobody, 5), plain, spent(5, false, false)},
		{"7 five crashes, left", held(ledger.Left, 5), solo, spent(5, false, true)},
		{"7 five crashes, mine", held(ledger.Mine, 5), solo, spent(5, false, false)},
		{"7 park, dead", held(ledger.Dead, 0), park, spent(1, true, true)},
		{"7 park, left", held(ledger.Left, 0), park, spent(0, true, true)},
		{"7 park, suspect", held(ledger.Left, 3), park, spent(3, true, true)},
		{"7 park, fifth crash", held(ledger.Dead, 4), park, spent(5, false, true)},
		{"8 second crash", held(ledger.Dead, 1), plain, suspect},
		{"8 suspect, left", held(ledger.Left, 2), plain, suspect},
		{"8 suspect, released", held(ledger.Nobody, 4), park, suspect},
		{"8 suspect, failed", failed(2), plain, suspect},
		{"8 suspect, failed, old stamp", failed(5), stamped(6), suspect},
		{"9 older stamp", failed(0), stamped(6), done},
		{"9 newer stamp", failed(0), stamped(8), done},
		{"9 this failure's stamp", failed(0), stamped(7), redrive(0)},
		{"9 a producer's stamp", failed(0), stamped(0), redrive(0)},
		{"10 released", held(ledger.Nobody, 0), plain, run(0, false)},
		{"10 released, overdue, stamped", row(func(r *ledger.Row) { r.DueIn = -time.Hour }), stamped(99), run(0, false)},
		{"10 released, park", held(ledger.Nobody, 0), park, run(0, false)},
		{"10 mine", held(ledger.Mine, 1), plain, run(1, false)},
		{"7 mine, park, claimed before", held(ledger.Mine, 0), park, spent(0, true, false)},
		{"10 mine, park, first claim", row(func(r *ledger.Row) { r.Holder, r.Token = ledger.Mine, 1 }), park,
			D{Answer: ledger.Run, Write: true, Token: 2, Attempts: 3, First: true}},
		{"10 left", held(ledger.Left, 1), plain, run(1, true)},
		{"10 dead", held(ledger.Dead, 0), plain, run(1, true)},
		{"10 dead, solo", held(ledger.Dead, 3), solo, run(4, true)},
		{"10 failed", failed(1), plain, redrive(1)},
		{"10 failed, park, solo", failed(5), parkSolo, redrive(2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ledger.Decide(c.row, c.entry); got != c.want {
				t.Fatalf("Decide: %+v\nwant    %+v", got, c.want)
			}
		})
	}
}

// TestDecideKeepsFailures is row 9 for those who keep failures.
func TestDecideKeepsFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   *ledger.Row
		stamp uint64
		want  ledger.Decision
	}{
		{"no stamp", failed(0), 0, ledger.Decision{Answer: ledger.Done}},
		{"older stamp", failed(0), 6, ledger.Decision{Answer: ledger.Done}},
		{"this failure's stamp", failed(0), 7, ledger.Decision{Answer: ledger.Run, Write: true, Token: 8, Renew: true}},
		{"suspect", failed(2), 0, ledger.Decision{Answer: ledger.Busy, Suspect: true}},
		{"released", held(ledger.Nobody, 0), 0, ledger.Decision{Answer: ledger.Run, Write: true, Token: 8, Attempts: 3}},
	} {
		if got := ledger.Decide(c.row, ledger.Entry{Fingerprint: body, StampToken: c.stamp, KeepFailed: true}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestDecideSettle is the guard, and what no matching row means.
func TestDecideSettle(t *testing.T) {
	sum := [ledger.KeySize]byte{1}
	mine, old, mismatch := ledger.NewTicket(sum, 7), ledger.NewTicket(sum, 6), ledger.MismatchTicket(sum)
	succeeded := row(func(r *ledger.Row) { r.State = ledger.Succeeded })
	archived := row(func(r *ledger.Row) { r.State, r.Archived = ledger.Failed, true })
	all := []ledger.SettleKind{ledger.Succeed, ledger.Fail, ledger.Release}
	step := []ledger.SettleKind{ledger.RecordStep}
	for _, c := range []struct {
		name   string
		row    *ledger.Row
		ticket ledger.Ticket
		kinds  []ledger.SettleKind
		want   ledger.Effect
	}{
		{"mine", held(ledger.Mine, 0), mine, all, ledger.EffectWrite},
		{"mine, goes on", held(ledger.Mine, 0), mine, step, ledger.EffectWrite},
		{"no row, goes on", nil, mine, step, ledger.EffectLost},
		{"old token, goes on", held(ledger.Mine, 0), old, step, ledger.EffectLost},
		{"another owner, goes on", held(ledger.Live, 0), mine, step, ledger.EffectLost},
		{"succeeded, goes on", succeeded, mine, step, ledger.EffectLost},
		{"failed with this delivery, goes on", archived, mine, step, ledger.EffectLost},
		{"released, goes on", held(ledger.Nobody, 0), mine, step, ledger.EffectLost},
		{"mismatch, goes on", held(ledger.Mine, 0), mismatch, step, ledger.EffectLost},
		{"no row", nil, mine, all, ledger.EffectLost},
		{"old token", held(ledger.Mine, 0), old, all, ledger.EffectLost},
		{"another owner", held(ledger.Live, 0), mine, all, ledger.EffectLost},
		{"another owner that left", held(ledger.Left, 0), mine, all, ledger.EffectLost},
		{"another owner that died", held(ledger.Dead, 0), mine, all, ledger.EffectLost},
		{"succeeded", succeeded, mine, all, ledger.EffectHolds},
		{"succeeded, old token", succeeded, old, all, ledger.EffectLost},
		{"failed with this delivery", archived, mine, all, ledger.EffectHolds},
		{"failed, old token", archived, old, all, ledger.EffectLost},
		{"failed with another delivery", failed(0), mine, all, ledger.EffectLost},
		{"released", held(ledger.Nobody, 0), mine, []ledger.SettleKind{ledger.Release}, ledger.EffectHolds},
		{"released, then settled", held(ledger.Nobody, 0), mine, []ledger.SettleKind{ledger.Succeed, ledger.Fail}, ledger.EffectLost},
		{"mismatch", held(ledger.Mine, 0), mismatch, []ledger.SettleKind{ledger.Fail}, ledger.EffectFile},
		{"mismatch, no row", nil, mismatch, []ledger.SettleKind{ledger.Fail}, ledger.EffectFile},
		{"mismatch, not failed", succeeded, mismatch, []ledger.SettleKind{ledger.Succeed, ledger.Release}, ledger.EffectLost},
		{"zero ticket", held(ledger.Nobody, 0), ledger.Ticket{}, all, ledger.EffectLost},
	} {
		for _, kind := range c.kinds {
			t.Run(fmt.Sprintf("%s, %v", c.name, kind), func(t *testing.T) {
				if got := ledger.DecideSettle(c.row, ledger.Settlement{Ticket: c.ticket, Kind: kind}); got != c.want {
					t.Fatalf("DecideSettle: %d, want %d", got, c.want)
				}
			})
		}
	}
}

func anyRow(t *rapid.T) ledger.Row {
	return ledger.Row{
		Unseen:      rapid.IntRange(0, 9).Draw(t, "unseen") == 0,
		Fingerprint: rapid.SampledFrom([]ledger.Fingerprint{body, body, body, other}).Draw(t, "fingerprint"),
		State:       rapid.SampledFrom([]ledger.State{ledger.Pending, ledger.Pending, ledger.Succeeded, ledger.Failed}).Draw(t, "state"),
		Token:       rapid.Uint64Range(1, 9).Draw(t, "token"),
		Holder:      ledger.Holder(rapid.IntRange(0, int(ledger.Dead)).Draw(t, "holder")),
		HeldFor:     time.Duration(rapid.IntRange(-5, 5).Draw(t, "held")),
		DueIn:       time.Duration(rapid.IntRange(-5, 2).Draw(t, "due")),
		Attempts:    rapid.IntRange(0, 12).Draw(t, "attempts"),
		Crashes:     rapid.IntRange(0, 7).Draw(t, "crashes"),
		Archived:    rapid.IntRange(0, 9).Draw(t, "archived") == 0,
	}
}

// TestDecideProperties holds what every answer keeps, whatever the row is.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRow(t)
		e := ledger.Entry{
			Fingerprint: body, StampToken: rapid.Uint64Range(0, 9).Draw(t, "stamp"),
			Solo: rapid.Bool().Draw(t, "solo"), Park: rapid.Bool().Draw(t, "park"),
		}
		d := ledger.Decide(&r, e)
		owned := d.Answer == ledger.Run || d.Answer == ledger.Spent
		switch {
		case d.Write != owned:
			t.Fatalf("%v writes: %t", d.Answer, d.Write)
		case d.Write && d.Token != r.Token+1:
			t.Fatalf("token %d after %d", d.Token, r.Token)
		case d.Write && (r.Unseen || r.Archived || r.State == ledger.Succeeded || r.Fingerprint != body):
			t.Fatalf("%+v takes %+v", d, r)
		case d.Write && r.State == ledger.Pending && (r.Holder == ledger.Live || r.DueIn > 0):
			t.Fatalf("%+v takes a row that is held or not due: %+v", d, r)
		case d.Answer == ledger.Run && d.Crashes >= ledger.CrashLimit:
			t.Fatalf("runs after %d crashes", d.Crashes)
		case d.Answer == ledger.Run && d.Crashes >= ledger.SuspectCrashes && !e.Solo:
			t.Fatalf("runs a suspect in company: %+v", d)
		case d.Answer == ledger.Run && e.Park && d.TookOver:
			t.Fatalf("runs what may have begun: %+v", d)
		case d.Write && !d.Renew && d.Attempts != r.Attempts:
			t.Fatalf("a claim changed the attempts: %+v", d)
		case d.Wait < 0 || d.Wait > 0 && d.Answer != ledger.Busy:
			t.Fatalf("waits: %+v", d)
		case d.Write && d.Crashes > r.Crashes+1:
			t.Fatalf("crashes %d after %d", d.Crashes, r.Crashes)
		}
	})
}

// TestDecideSettleProperties: only the owner with the token writes the row, and a lost settlement never holds.
func TestDecideSettleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRow(t)
		s := ledger.Settlement{
			Ticket: ledger.NewTicket([ledger.KeySize]byte{1}, rapid.Uint64Range(1, 9).Draw(t, "ticket")),
			Kind:   ledger.SettleKind(rapid.IntRange(1, 4).Draw(t, "kind")),
		}
		effect := ledger.DecideSettle(&r, s)
		same := r.Token == s.Ticket.Token()
		if guard := same && r.State == ledger.Pending && r.Holder == ledger.Mine; guard != (effect == ledger.EffectWrite) {
			t.Fatalf("effect %d of %+v on %+v", effect, s, r)
		}
		if effect == ledger.EffectHolds && (!same || s.Kind == ledger.RecordStep || s.Kind == ledger.Succeed && r.State == ledger.Pending) {
			t.Fatalf("%+v holds on %+v", s, r)
		}
		if effect == ledger.EffectFile {
			t.Fatalf("only a mismatch is filed: %+v", s)
		}
	})
}

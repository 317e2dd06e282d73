package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// asOne asks for records that lie side by side as one.
func asOne(all []ledger.Entry) ledger.Stretch {
	return ledger.Stretch{First: all[0], Last: all[len(all)-1].Key.Pos.Offset}
}

// stretches claims each list of records as one.
func stretches(t *testing.T, o ledger.Owner, lists ...[]ledger.Entry) []uint64 {
	t.Helper()
	var ask []ledger.Stretch
	for _, all := range lists {
		ask = append(ask, asOne(all))
	}
	tokens, err := ledger.Ungroup(o).(ledger.StretchOwner).ClaimStretches(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// TestStretchesMetAreAsOthers: a range of a log that was not known stands there as one that is opened without a look: nothing of it was
// given back, and InTx goes by how it was opened.
func TestStretchesMetAreAsOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	met, known := records("s", 0, 10, 10), records("s", 0, 20, 10)
	met[0].Key.Pos.Prev = 6
	tokens := append(stretches(t, o, met), stretches(t, o, known)...)
	if n := b.number(t, `SELECT count(*) FROM ackledger.claim_range WHERE back IS NULL AND done IS NULL AND first = 20
		OR back IS NULL AND done IS NOT NULL AND first = 7`); n != 2 || tokens[0] == 0 || tokens[1] <= tokens[0] {
		t.Fatalf("%d ranges as they are opened, tokens %v", n, tokens)
	}
	for i, all := range [][]ledger.Entry{met, known} {
		a := ledger.NewAttempt(o, ledger.NewTicket(all[3].Key.Sum(), tokens[i]))
		if err := inTx(ledger.WithAttempt(t.Context(), a), oneEffect); err != nil {
			t.Errorf("InTx: %v", err)
		}
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.segment"); n != 2 {
		t.Errorf("%d segments", n)
	}
}

// TestStretchesMetUnknown: the connection of a first claim breaks. Whatever became of it, each record is asked for again, and is its
// owner's and nobody else's.
func TestStretchesMetUnknown(t *testing.T) {
	t.Parallel()
	for name, arm := range map[string]func(*cutter){
		"behind its end":       func(c *cutter) { c.cutAfter("commit\x00", false) },
		"before its end":       func(c *cutter) { c.cutBefore("commit\x00") },
		"behind its beginning": func(c *cutter) { c.cutAfter("begin isolation level", false) },
		"before its beginning": func(c *cutter) { c.cutBefore("begin isolation level") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newBench(t, variant{})
			cut, url := newCutter(t, direct.url)
			o, other := ledger.Ungroup(join(t, openBench(t, url, variant{}), time.Minute)), join(t, direct, time.Minute)
			arm(cut)
			lists := [][]ledger.Entry{records("s", 0, 0, 10), records("s", 1, 0, 10)}
			tokens, err := o.(ledger.StretchOwner).ClaimStretches(t.Context(), []ledger.Stretch{asOne(lists[0]), asOne(lists[1])})
			if err == nil || ledger.IsLost(err) || name == "behind its end" && !ledger.Unknown(err) {
				t.Fatalf("%v, tokens %v", err, tokens)
			}
			for partition, all := range lists {
				claims := claimsOf(t, o, all, ledger.Run)
				claimsOf(t, other, all, ledger.Busy)
				succeedAll(t, o, claims)
				claimsOf(t, other, all, ledger.Done)
				if next := stretches(t, o, records("s", partition, 10, 10)); next[0] == 0 {
					t.Error("the next records go one by one")
				}
			}
		})
	}
}

// TestStretchesMetLate: what a first claim writes is on its way while another member meets the log, and its owner may be declared dead
// before it comes. One of them has the records.
func TestStretchesMetLate(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"alive": false, "dead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newBench(t, variant{})
			h, url := newHolder(t, direct.url)
			o, other := join(t, openBench(t, url, variant{}), time.Minute), join(t, direct, time.Minute)
			stretches(t, o, records("s", 1, 0, 10)) // the statements are prepared
			all := records("s", 0, 0, 20)
			h.armed.Store(true)
			_, err := ledger.Ungroup(o).(ledger.StretchOwner).ClaimStretches(t.Context(), []ledger.Stretch{asOne(all[:10])})
			if !ledger.Unknown(err) {
				t.Fatalf("the claim whose connection broke: %v", err)
			}
			if tokens := stretches(t, other, all[:10]); tokens[0] != 0 {
				t.Errorf("another has it with token %d", tokens[0])
			}
			if dies {
				declareDead(t, direct, o)
			}
			h.free()
			<-h.over
			if !dies {
				claimsOf(t, other, all[:10], ledger.Busy)
				succeedAll(t, o, claimsOf(t, ledger.Ungroup(o), all[:10], ledger.Run))
				claimsOf(t, other, all[:10], ledger.Done)
			} else {
				for i, c := range claimsOf(t, other, all[:10], ledger.Run) {
					if c.Crashes != 1 || !c.TookOver {
						t.Fatalf("%d: %+v", i, c)
					}
				}
			}
			if tokens := stretches(t, other, all[10:]); tokens[0] == 0 {
				t.Error("what is behind goes one by one")
			}
		})
	}
}

// TestPitfall198_StoppedWhileItMakesALog: a member that was stopped while it made a log kept others from all logs that they met in the
// same call, which are all of a member's partitions: nobody can skip a row that is not there yet.
func TestPitfall198_StoppedWhileItMakesALog(t *testing.T) {
	t.Parallel()
	const patience = 5 * time.Second
	b := newBench(t, variant{})
	first, o, slow := join(t, b, time.Minute), join(t, b, time.Minute), join(t, b, time.Minute)
	succeedAll(t, first, claimsOf(t, first, append(records("s", 0, 0, 10), records("s", 1, 0, 10)...), ledger.Run))
	made := records("s", 2, 0, 10)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `INSERT INTO ackledger.range_log (log, scope, name, epoch, prefix, version, token, top)
		SELECT $1, scope, name, epoch, prefix, 1, 0, 0 FROM ackledger.range_log LIMIT 1`, logKey(made[0])); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	tokens := stretches(t, o, records("s", 0, 10, 5), made, records("s", 1, 10, 5))
	if took := time.Since(began); took > patience || tokens[0] == 0 || tokens[1] != 0 || tokens[2] == 0 {
		t.Errorf("after %s: tokens %v", took, tokens)
	}
	claims, err := slow.Claim(t.Context(), append(records("s", 0, 15, 5), made...))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if want := map[bool]ledger.Answer{true: ledger.Run, false: ledger.Busy}[i < 5]; c.Answer != want {
			t.Errorf("%d: %v, want %v", i, c.Answer, want)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tokens := stretches(t, o, made); tokens[0] == 0 {
		t.Error("the log stays as it was")
	}
}

package postgres_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

const (
	decideRounds          = 12 // in the long run
	decideRoundsShort     = 5
	decideRoundsElsewhere = 2 // where only the server or the way to ask differs
	decideBatch           = 500
	hour                  = time.Hour
)

// situation is one row as a statement may meet it, and what is asked for it.
type situation struct {
	row            *ledger.Row // nil: none
	owner          *int64
	due            *time.Duration
	failedDelivery []byte
	failedArchived bool
	entry          ledger.Entry
	fingerprint    ledger.Fingerprint
	generation     int
	want           ledger.Decision
}

// holders are the numbers of owners in each fate; gone has no row at all.
type holders struct{ me, live, left, dead, gone int64 }

// TestDecide writes thousands of rows in random states, also those that no sequence of calls reaches, and compares the
// claim statement's answers and writes with ledger.Decide.
func TestDecide(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{"18": {}, "14": {old: true}, "simple": {mode: pgx.QueryExecModeSimpleProtocol}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 1))
			b := newBench(t, v)
			o, h := holdersOf(t, b)
			rules := map[string]int{}
			rounds := decideRoundsShort
			switch {
			case os.Getenv("ACKLEDGER_LONG") != "":
				rounds = decideRounds
			case name != "18":
				rounds = decideRoundsElsewhere
			}
			for round := range rounds {
				all := make([]situation, decideBatch)
				for i := range all {
					all[i] = randomSituation(rng, h, fmt.Sprintf("%d-%d", round, i))
				}
				writeSituations(t, b, all)
				entries := make([]ledger.Entry, len(all))
				for i := range all {
					entries[i] = all[i].entry
				}
				claims, err := o.Claim(t.Context(), entries)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for i := range all {
					checkSituation(t, b, &all[i], claims[i], seed)
					d := all[i].want
					rules[fmt.Sprint(d.Answer, d.Write, d.Renew, d.Suspect, d.Uncertain, d.TookOver, d.Wait > 0)]++
				}
			}
			if len(rules) < 11 {
				t.Errorf("only %d kinds of answers were met: %v", len(rules), rules)
			}
		})
	}
}

// holdersOf joins owners and gives them their fates.
func holdersOf(t *testing.T, b *bench) (ledger.Owner, holders) {
	t.Helper()
	var ids [5]int64
	var me ledger.Owner
	for i := range ids {
		o, err := b.Join(t.Context(), hour)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			me = o
		}
		if ids[i], err = postgres.OwnerNumber(o.ID()); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, "UPDATE ackledger.owner SET fate = 2 WHERE id = $1", ids[2])
	b.exec(t, "UPDATE ackledger.owner SET fate = 3 WHERE id = $1", ids[3])
	b.exec(t, "DELETE FROM ackledger.owner WHERE id = $1", ids[4])
	return me, holders{ids[0], ids[1], ids[2], ids[3], ids[4]}
}

func randomSituation(rng *rand.Rand, h holders, id string) situation {
	s := situation{entry: ledger.Entry{
		Key: ledger.Key{Scope: "s", ID: []byte(id)}, Delivery: []byte("d1"), Window: hour,
		StampToken: [...]uint64{0, 0, 3, 4, 1 << 63}[rng.IntN(5)], Solo: rng.IntN(2) == 0, Park: rng.IntN(3) == 0, KeepFailed: rng.IntN(3) == 0,
	}}
	binary.BigEndian.PutUint64(s.entry.Fingerprint[:8], 1)
	binary.BigEndian.PutUint64(s.entry.Fingerprint[8:], 2)
	s.fingerprint = s.entry.Fingerprint
	if rng.IntN(12) == 0 {
		s.want = ledger.Decide(nil, s.entry)
		return s
	}
	for _, half := range [][2]int{{0, 4}, {15, 4}} {
		if rng.IntN(half[1]) == 0 {
			s.fingerprint[half[0]] ^= 1
		}
	}
	s.generation = rng.IntN(3)
	row := &ledger.Row{
		Fingerprint: s.fingerprint, State: ledger.State(1 + rng.IntN(3)), Token: uint64(1 + rng.IntN(4)),
		Attempts: rng.IntN(4), Crashes: rng.IntN(7), Archived: rng.IntN(8) == 0,
	}
	s.row = row
	if row.State == ledger.Pending {
		s.randomHolder(rng, h)
	}
	if row.State == ledger.Failed && rng.IntN(4) > 0 {
		s.failedDelivery, s.failedArchived = []byte("d0"), rng.IntN(4) > 0
		row.Unseen = !s.failedArchived
	}
	s.want = ledger.Decide(row, s.entry)
	return s
}

func (s *situation) randomHolder(rng *rand.Rand, h holders) {
	row := s.row
	switch rng.IntN(6) {
	case 0:
		row.Holder = ledger.Nobody
	case 1:
		row.Holder, s.owner = ledger.Mine, &h.me
	case 2:
		row.Holder, row.HeldFor, s.owner = ledger.Live, hour, &h.live
	case 3:
		row.Holder, s.owner = ledger.Left, &h.left
	case 4:
		row.Holder, s.owner = ledger.Dead, &h.dead
	case 5:
		row.Unseen, s.owner = true, &h.gone
	}
	if due := [...]time.Duration{0, -hour, 2 * hour}[rng.IntN(3)]; due != 0 {
		s.due, row.DueIn = &due, due
	}
}

func writeSituations(t *testing.T, b *bench, all []situation) {
	t.Helper()
	b.exec(t, "INSERT INTO ackledger.scope (name) VALUES ('s') ON CONFLICT DO NOTHING")
	batch := &pgx.Batch{}
	for i := range all {
		s := &all[i]
		if s.row == nil {
			continue
		}
		key := pgKey(s.entry.Key)
		var due *int64
		if s.due != nil {
			n := s.due.Microseconds()
			due = &n
		}
		batch.Queue(`INSERT INTO ackledger.message (token, at, expiry, owner, due, scope, state, attempts, crashes, key,
			fingerprint, id, generation, failed_delivery)
			SELECT $1::bigint, now() - interval '1 day', now() + interval '30 minutes', $2::bigint,
			now() + $3::bigint * interval '1 microsecond', id, $4::smallint, $5::smallint, $6::smallint, $7::uuid, $8::uuid,
			$9::bytea, nullif($10::integer, 0), $11::bytea FROM ackledger.scope`,
			int64(s.row.Token), s.owner, due, int16(s.row.State), int16(s.row.Attempts), int16(s.row.Crashes), key,
			pgUUID(s.fingerprint), s.entry.Key.ID, int32(s.generation), s.failedDelivery)
		for delivery, there := range map[string]bool{"d1": s.row.Archived, "d0": s.failedArchived} {
			if there {
				batch.Queue(`INSERT INTO ackledger.archive (token, sent_at, at, expiry, scope, attempts, published, key,
					fingerprint, delivery, id, kind, source, grp)
					SELECT 1, now(), now(), now() + interval '1 hour', id, 1, true, $1::uuid, $1::uuid, $2::bytea, '', 'error', '', ''
					FROM ackledger.scope`, key, []byte(delivery))
			}
		}
	}
	if err := b.pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
}

func checkSituation(t *testing.T, b *bench, s *situation, c ledger.Claim, seed uint64) {
	t.Helper()
	d := s.want
	wait := c.Wait - d.Wait
	if c.Answer != d.Answer || c.Suspect != d.Suspect || c.Uncertain != d.Uncertain || c.TookOver != d.TookOver ||
		c.Err != nil || wait > time.Minute || wait < -10*time.Minute || d.Wait == 0 && c.Wait != 0 {
		t.Fatalf("seed %d: row %+v, entry %+v\nanswer %+v\nDecide %+v", seed, s.row, s.entry, c, d)
	}
	if d.Write && (c.Token != d.Token || c.Crashes != d.Crashes || c.Generation != s.generation ||
		c.Answer == ledger.Run && c.Attempt != d.Attempts+1 || c.Ticket.Token() != d.Token) {
		t.Fatalf("seed %d: row %+v, entry %+v\nanswer %+v\nDecide %+v", seed, s.row, s.entry, c, d)
	}
	rec, err := b.Get(t.Context(), s.entry.Key)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Write {
		if rec.State != s.row.State || rec.Token != s.row.Token || rec.Attempts != s.row.Attempts ||
			rec.Crashes != s.row.Crashes {
			t.Fatalf("seed %d: a row was written that should not: %+v, was %+v, entry %+v", seed, rec, s.row, s.entry)
		}
		return
	}
	renewed := time.Since(rec.At).Abs() < hour && time.Until(rec.Expiry) > hour*3/4
	if rec.State != ledger.Pending || rec.Token != d.Token || rec.Attempts != d.Attempts || rec.Crashes != d.Crashes ||
		rec.Owner == "" || !rec.Due.IsZero() || renewed != d.Renew {
		t.Fatalf("seed %d: row %+v, entry %+v\nwritten %+v\nDecide %+v", seed, s.row, s.entry, rec, d)
	}
}

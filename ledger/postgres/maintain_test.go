package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestMaintain(t *testing.T) { t.Parallel(); ledgertest.RunMaintain(t, open) }

func TestPitfall28_Abandoned(t *testing.T)             { t.Parallel(); ledgertest.Pitfall28(t, open) }
func TestPitfall30_SweptRetentions(t *testing.T)       { t.Parallel(); ledgertest.SweptRetentions(t, open) }
func TestPitfall72_BeatsForAWeek(t *testing.T)         { t.Parallel(); ledgertest.Pitfall72(t, open) }
func TestPitfall79_SweptMeanwhile(t *testing.T)        { t.Parallel(); ledgertest.SweptMeanwhile(t, open) }
func TestPitfall203_ArchivedInWhatIsOver(t *testing.T) { t.Parallel(); ledgertest.Pitfall203(t, open) }
func TestPitfall146_RowWithTheTokenOfARange(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall146(t, open)
}

func TestPitfall148_CopyOfADroppedLog(t *testing.T)  { t.Parallel(); ledgertest.Pitfall148(t, open) }
func TestPitfall155_RowsAndRangesOfOne(t *testing.T) { t.Parallel(); ledgertest.Pitfall155(t, open) }
func TestPitfall156_CopyAmongRows(t *testing.T)      { t.Parallel(); ledgertest.Pitfall156(t, open) }
func TestPitfall196_MetAnew(t *testing.T)            { t.Parallel(); ledgertest.Pitfall196(t, open) }

// TestMaintainModes: the sweep and the statistics work in the exec modes that poolers need, and on the oldest PostgreSQL.
func TestMaintainModes(t *testing.T) {
	t.Parallel()
	variants := map[string]variant{"oldest": {old: true}}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		variants[mode.String()] = variant{mode: mode}
	}
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) ledgertest.Store { return newBench(t, v).store() }
			ledgertest.Pitfall28(t, open)
			ledgertest.Pitfall72(t, open)
		})
	}
}

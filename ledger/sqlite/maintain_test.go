package sqlite_test

import (
	"testing"

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

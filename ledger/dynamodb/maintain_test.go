package dynamodb_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestMaintain(t *testing.T) { long(t); ledgertest.RunMaintain(t, open) }

func TestPitfall28_Abandoned(t *testing.T)             { long(t); ledgertest.Pitfall28(t, open) }
func TestPitfall30_SweptRetentions(t *testing.T)       { long(t); ledgertest.SweptRetentions(t, open) }
func TestPitfall72_BeatsForAWeek(t *testing.T)         { long(t); ledgertest.Pitfall72(t, open) }
func TestPitfall79_SweptMeanwhile(t *testing.T)        { long(t); ledgertest.SweptMeanwhile(t, open) }
func TestPitfall203_ArchivedInWhatIsOver(t *testing.T) { long(t); ledgertest.Pitfall203(t, open) }

func TestPitfall146_RowWithTheTokenOfARange(t *testing.T) {
	long(t)
	ledgertest.Pitfall146(t, open)
}

func TestPitfall148_CopyOfADroppedLog(t *testing.T)  { long(t); ledgertest.Pitfall148(t, open) }
func TestPitfall155_RowsAndRangesOfOne(t *testing.T) { long(t); ledgertest.Pitfall155(t, open) }
func TestPitfall156_CopyAmongRows(t *testing.T)      { long(t); ledgertest.Pitfall156(t, open) }

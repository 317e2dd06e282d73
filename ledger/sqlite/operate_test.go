package sqlite_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestOperate(t *testing.T) { ledgertest.RunOperate(t, open) }

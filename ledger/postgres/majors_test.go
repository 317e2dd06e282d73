package postgres_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/ledgertest"
)

// TestMajors is the suite on the versions between the oldest and the newest, which all other tests go by.
func TestMajors(t *testing.T) {
	t.Parallel()
	if os.Getenv("ACKLEDGER_LONG") == "" {
		t.Skip("SKIPPED: PostgreSQL 15, 16 and 17 in the long run: ACKLEDGER_LONG=1")
	}
	for _, major := range []int{15, 16, 17} {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			server, err := services.StartPostgres(t.Context(), services.PostgresOptions{Version: major})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			from := &template{server: func(testing.TB) *services.PG { return &services.PG{AdminURL: server.URL()} }}
			open := func(t *testing.T) ledgertest.Store { return openBench(t, from.copy(t), variant{}).store() }
			for name, suite := range map[string]func(*testing.T, ledgertest.Open){
				"Ledger": ledgertest.Run, "InTx": ledgertest.RunInTx, "Maintain": ledgertest.RunMaintain, "Operate": ledgertest.RunOperate,
				"Steps": ledgertest.RunSteps, "Outbox": ledgertest.RunOutbox, "Ranged": ledgertest.RunRanged, "RangedMaintain": ledgertest.RunRangedMaintain, "Recover": ledgertest.RunRecover,
				"Parked": ledgertest.RunParked, "ParkedOperate": ledgertest.RunParkedOperate, "Board": ledgertest.RunBoard,
				"Differential":       func(t *testing.T, open ledgertest.Open) { ledgertest.Differential(t, open, 10) },
				"RangedDifferential": func(t *testing.T, open ledgertest.Open) { ledgertest.Differential(t, ledgertest.Ranged(open), 10) },
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					suite(t, open)
				})
			}
		})
	}
}

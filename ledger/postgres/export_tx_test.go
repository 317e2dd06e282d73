package postgres

import "github.com/jackc/pgx/v5/pgtype"

// TxStatements are the statements of InTx that look up a batch, as they would be sent for 500 messages.
func (l *Ledger) TxStatements() map[string]Statement {
	keys, tokens := make([]pgtype.UUID, 500), make([]int64, 500)
	for i := range keys {
		keys[i] = uuid([16]byte{byte(i), byte(i >> 8)})
	}
	return map[string]Statement{
		"fence":   {l.sql.tune, l.sql.tx.fenceAll, []any{keys, tokens, int64(1), int64(1), [][]byte{}}},
		"outcome": {l.sql.tune, l.sql.tx.outcome, []any{keys}},
	}
}

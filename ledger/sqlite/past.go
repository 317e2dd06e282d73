package sqlite

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// KeepPast implements [driver.Tx]. A trigger keeps the past of rows that go.
func (t *tx) KeepPast(scope string, keep time.Duration) error {
	_, err := t.exec(`INSERT INTO ackledger_scope (name, keep_past) VALUES (?, nullif(?, 0))
		ON CONFLICT (name) DO UPDATE SET keep_past = excluded.keep_past WHERE keep_past IS NOT excluded.keep_past`,
		[]byte(scope), keep.Microseconds())
	return err
}

// Past implements [driver.Reader].
func (t *tx) Past(key driver.Key, results bool, n int) ([]ledger.Past, error) {
	return rows(t, `SELECT state, token, attempts, crashes, at, expiry, until, length(result), CASE WHEN ?1 THEN result END
		FROM ackledger_past INDEXED BY ackledger_past_key WHERE key = ?2 ORDER BY num DESC LIMIT ?3`,
		[]any{results, key[:], n}, func(row scanner) (p ledger.Past, err error) {
			var at, expiry, until int64
			var result blob
			err = row.Scan(&p.State, &p.Token, &p.Attempts, &p.Crashes, &at, &expiry, &until, &p.Bytes, &result)
			p.At, p.Expiry, p.Until = moment(at), moment(expiry), moment(until)
			if results {
				p.Result, p.Bytes = result, 0
			}
			return p, err
		})
}

// PastKeys implements [driver.Lists].
func (t *tx) PastKeys(id []byte, n int) ([]ledger.Key, error) {
	return rows(t, `SELECT DISTINCT s.name, p.key FROM ackledger_past p INDEXED BY ackledger_past_id
		JOIN ackledger_scope s ON s.id = p.scope WHERE p.id = ? LIMIT ?`, []any{id, n}, func(row scanner) (ledger.Key, error) {
		var name, sum []byte
		if err := row.Scan(&name, &sum); err != nil {
			return ledger.Key{}, err
		}
		return ledger.KeyOfSum(string(name), id, driver.Key(sum)), nil
	})
}

// SweepPast implements [driver.Tx].
func (t *tx) SweepPast(n int, before time.Time) (removed int64, err error) {
	return t.exec(`DELETE FROM ackledger_past WHERE num IN (SELECT num FROM ackledger_past INDEXED BY ackledger_past_until
		WHERE until < ? ORDER BY until LIMIT ?)`, before.UnixMicro(), n)
}

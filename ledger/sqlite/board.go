package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// Workers implements [driver.Owners]. Fates that were written without a time count as of now.
func (s *store) Workers(ctx context.Context, rest time.Duration) (all []driver.Worker, err error) {
	now := time.Now().UnixMicro()
	err = query(ctx, s.owners.db, `SELECT id, fate, lease_end, report FROM ackledger_owner
		WHERE fate = 1 OR coalesce(fated_at, ?1) > ?1 - ?2 ORDER BY fate, lease_end DESC LIMIT ?3`,
		[]any{now, rest.Microseconds(), ledger.MaxWorkers}, func(rows scanner) error {
			var w driver.Worker
			var end int64
			err := rows.Scan(&w.ID, &w.Fate, &end, &w.Report)
			w.Lease = time.Duration(end-now) * time.Microsecond
			all = append(all, w)
			return err
		})
	return all, err
}

// Pauses implements [driver.Reader].
func (t *tx) Pauses() ([]ledger.Pause, error) {
	var hold []byte
	err := t.one("SELECT value FROM ackledger_meta WHERE key = 'pauses'", nil, &hold)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return driver.DecodePauses(hold)
}

// PutPauses implements [driver.Tx].
func (t *tx) PutPauses(hold []ledger.Pause) error {
	data, err := driver.EncodePauses(hold)
	if err == nil {
		_, err = t.exec("INSERT INTO ackledger_meta (key, value) VALUES ('pauses', ?) ON CONFLICT DO UPDATE SET value = excluded.value", string(data))
	}
	return err
}

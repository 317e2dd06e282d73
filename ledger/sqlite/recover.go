package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ledger.Recoverer = (*Ledger)(nil)

// sqlRecover are the statements of a recovery. ? is the floor of the epoch's tokens: each token is lifted by whole epochs, so those of a
// log stay above those of its ranges.
var sqlRecover = [...]string{
	`INSERT INTO ackledger_meta (key, value) VALUES ('token', CAST(? AS TEXT)) ON CONFLICT (key) DO UPDATE
		SET value = CAST(CAST(value AS INTEGER) & (1 << 52) - 1 | CAST(excluded.value AS INTEGER) AS TEXT)`,
	`UPDATE ackledger_range_log SET token = token & (1 << 52) - 1 | ?`,
	`UPDATE ackledger_message SET token = token & (1 << 52) - 1 | ? WHERE state = 1`,
	`UPDATE ackledger_claim_range SET token = token & (1 << 52) - 1 | ?`,
}

// Recover implements [ledger.Recoverer]. A process that is killed between the two files leaves owners of the epoch before; who opens the
// ledger next ends them.
func (l *Ledger) Recover(ctx context.Context, r ledger.Recovery) (out ledger.Recovered, err error) {
	s := l.store
	err = s.main.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		id, err := metaText(ctx, tx, "ledger")
		if err == nil {
			err = storage.CheckRecovery(&r, id)
		}
		if err != nil {
			return err
		}
		out.ID = storage.InEpoch(id, r.Epoch, rand.Uint32())
		if _, err := tx.ExecContext(ctx, "UPDATE ackledger_meta SET value = ? WHERE key = 'ledger'", out.ID); err != nil {
			return err
		}
		for i, n := range []*int64{new(int64), new(int64), &out.Messages, &out.Ranges} {
			res, err := tx.ExecContext(ctx, sqlRecover[i], int64(storage.TokenFloor(r.Epoch)))
			if err == nil {
				*n, err = res.RowsAffected()
			}
			if err != nil {
				return err
			}
		}
		record := storage.RecoveryRecord(&r, out.ID)
		sum := record.Key.Sum()
		_, err = tx.ExecContext(ctx, sqlNote, time.Now().UnixMicro(), r.By.Actor, string(record.Action), sum[:], storage.EncodeAudit(&record))
		return err
	})
	if err == nil {
		out.Owners, err = endOwners(ctx, s.owners, out.ID)
	}
	if err != nil {
		return ledger.Recovered{}, fmt.Errorf("ledger/sqlite: recover: %w", err)
	}
	return out, nil
}

// endOwners gives the owners file the id of its ledger, and says that all owners have left.
func endOwners(ctx context.Context, owners *writer, id string) (n int64, err error) {
	err = owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE ackledger_meta SET value = ? WHERE key = 'ledger'", id); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, "UPDATE ackledger_owner SET fate = 2, fated_at = ? WHERE fate = 1", time.Now().UnixMicro())
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	return n, err
}

// isBehind says that an owners file is of an earlier epoch of the ledger: its recovery ended between the two files.
func isBehind(owners, id string) bool {
	root, epoch := storage.EpochOf(owners)
	mine, now := storage.EpochOf(id)
	return root == mine && epoch < now
}

package postgres

import (
	"context"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ledger.Recoverer = (*Ledger)(nil)

// Each statement of a recovery waits for what the one before has locked. $1 is the floor of the epoch's tokens: each token is lifted by
// whole epochs, so those of a log stay above those of its ranges.
const (
	sqlRecoverMeta = `
UPDATE {s}.meta SET ledger = $2::uuid, token = token & (1::bigint << 52) - 1 | $1::bigint WHERE ledger = $3::uuid RETURNING {durable}`
	sqlRecoverOwners   = `UPDATE {s}.owner SET fate = 2 WHERE fate = 1`
	sqlRecoverMessages = `UPDATE {s}.message SET token = token & (1::bigint << 52) - 1 | $1::bigint WHERE state = 1`
	sqlRecoverLogs     = `UPDATE {s}.range_log SET token = token & (1::bigint << 52) - 1 | $1::bigint`
	sqlRecoverRanges   = `UPDATE {s}.claim_range SET token = token & (1::bigint << 52) - 1 | $1::bigint`
)

// Recover implements [ledger.Recoverer]. Its context alone bounds it. It is for the schema's owner.
func (l *Ledger) Recover(ctx context.Context, r ledger.Recovery) (out ledger.Recovered, err error) {
	id, err := l.ID(ctx)
	if err == nil {
		err = storage.CheckRecovery(&r, id)
	}
	if err != nil {
		return out, err
	}
	out.ID = storage.InEpoch(id, r.Epoch, rand.Uint32())
	err = l.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		floor := int64(storage.TokenFloor(r.Epoch))
		tag, err := tx.Exec(ctx, l.sql(sqlRecoverMeta), floor, out.ID, id)
		if err == nil && tag.RowsAffected() == 0 {
			return ledger.ErrChanged
		}
		for _, do := range []struct {
			text  string
			args  []any
			count *int64
		}{
			{sqlRecoverOwners, nil, &out.Owners},
			{sqlRecoverMessages, []any{floor}, &out.Messages},
			{sqlRecoverLogs, []any{floor}, new(int64)},
			{sqlRecoverRanges, []any{floor}, &out.Ranges},
		} {
			if err == nil {
				tag, err = tx.Exec(ctx, l.sql(do.text), do.args...)
				*do.count = tag.RowsAffected()
			}
		}
		if err != nil {
			return err
		}
		return l.noted(ctx, tx, storage.RecoveryRecord(&r, out.ID))
	})
	if err != nil {
		return ledger.Recovered{}, named("recover", err)
	}
	return out, nil
}

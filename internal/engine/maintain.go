package engine

import (
	"fmt"

	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// maintain sweeps the ledger for as long as the engine lives; of all processes one does at a time.
func (e *Engine) maintain(m ledger.Maintainer) {
	err := m.Maintain(e.gone, ledger.MaintainConfig{Keep: e.opt.Keep, Report: e.swept})
	if err == nil {
		return
	}
	e.log.Error("the ledger is not maintained by this worker: its tables grow", zap.Error(err))
	e.mu.Lock()
	e.unswept = fmt.Errorf("the ledger is not maintained by this worker: %w", err)
	e.mu.Unlock()
}

// swept reports what one pass of the sweep found.
func (e *Engine) swept(r ledger.SweepReport) {
	fields := []zap.Field{
		zap.Int64("rows", r.Rows), zap.Int64("removed", r.Removed()), zap.Int64("abandoned", r.Abandoned),
		zap.Duration("took", r.Took), zap.Duration("longest_transaction", r.Longest),
	}
	if r.Abandoned == 0 {
		e.log.Debug("ledger swept", fields...)
		return
	}
	ids := make([]string, len(r.Oldest))
	for i, a := range r.Oldest {
		ids[i] = a.Scope + "/" + string(a.ID)
	}
	e.log.Warn("messages are abandoned: pending past their window, and no broker brings them any more",
		append(fields, zap.Strings("oldest", ids))...)
}

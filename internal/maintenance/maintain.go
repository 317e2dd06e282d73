package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// WithDefaults returns c with the defaults filled in, or an [*ledger.InvalidError] that names the field, the bound and the value.
func WithDefaults(c ledger.MaintainConfig) (ledger.MaintainConfig, error) {
	c.Keep = cmp.Or(c.Keep, ledger.DefaultKeep)
	c.KeepAudit = cmp.Or(c.KeepAudit, ledger.DefaultKeepAudit)
	c.Interval = cmp.Or(c.Interval, ledger.DefaultSweepInterval)
	c.Batch = cmp.Or(c.Batch, ledger.DefaultSweepBatch)
	for _, d := range []struct {
		field       string
		value, high time.Duration
	}{
		{"MaintainConfig.Keep", c.Keep, ledger.MaxWindow},
		{"MaintainConfig.Interval", c.Interval, 24 * time.Hour},
	} {
		if d.value < time.Millisecond || d.value > d.high {
			return c, &ledger.InvalidError{Field: d.field, Bound: fmt.Sprintf("1ms to %s", d.high), Value: d.value.String()}
		}
	}
	if c.KeepAudit < ledger.MinKeepAudit || c.KeepAudit > ledger.MaxWindow {
		return c, &ledger.InvalidError{Field: "MaintainConfig.KeepAudit", Bound: fmt.Sprintf("%s to %s", ledger.MinKeepAudit, ledger.MaxWindow), Value: c.KeepAudit.String()}
	}
	if c.Batch < 100 || c.Batch > 100_000 {
		return c, &ledger.InvalidError{Field: "MaintainConfig.Batch", Bound: "100 to 100000 rows", Value: fmt.Sprint(c.Batch)}
	}
	return c, nil
}

// maxPassPause bounds how far the pause after a pass grows with the pass.
const maxPassPause = time.Hour

// PassPause is how long Maintain waits after a pass: not at all if it removed at least a twentieth of what it looked at,
// since then there may be more; else the interval, or as long as the pass took, up to an hour, if that is longer.
func PassPause(c ledger.MaintainConfig, r *ledger.SweepReport) time.Duration {
	if much(r.Removed(), r.Rows) {
		return 0
	}
	return max(c.Interval, min(r.Took, maxPassPause))
}

// Run is the loop of a store's Maintain: it calls try until ctx ends, each time after the wait that the call
// before returned. After an error it tries again after a second, doubling up to the interval; one for which [ledger.Unusable]
// is true ends it.
func Run(ctx context.Context, cfg ledger.MaintainConfig, try func(context.Context) (time.Duration, error)) error {
	backoff := time.Duration(0)
	for ctx.Err() == nil {
		wait, err := try(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case ledger.Unusable(err):
			return err
		case err != nil:
			backoff = min(max(2*backoff, time.Second), max(cfg.Interval, time.Second))
			wait = backoff
		default:
			backoff = 0
		}
		select {
		case <-time.After(wait + rand.N(wait/8+1)): // so that many processes do not ask in step
		case <-ctx.Done():
		}
	}
	return nil
}

package local

import (
	"context"
	"time"
)

// Pause waits for d, and says whether ctx goes on then.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

package local

import "go.uber.org/zap"

// Logger returns a log on standard error for a worker on real brokers; without one in this process, whose lines are the
// example's own.
func Logger(real bool) *zap.Logger {
	if !real {
		return nil
	}
	return zap.Must(zap.NewProduction())
}

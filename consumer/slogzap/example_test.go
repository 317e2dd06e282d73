package slogzap_test

import (
	"log/slog"
	"os"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/slogzap"
	"go.uber.org/zap"
)

// A worker that logs where the rest of the program does. In a program h is slog.Default().Handler().
func Example() {
	h := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	options := consumer.Options{Name: "payments", Logger: slogzap.New(h)}
	options.Logger.Warn("lease lost", zap.String("message_id", "m1")) // as a worker does
	// Output: level=WARN msg="lease lost" message_id=m1
}

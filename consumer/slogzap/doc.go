// Package slogzap is for people whose programs log with log/slog: [New] returns the *zap.Logger that consumer.Options.Logger
// takes, and what is logged there goes to their slog.Handler.
//
//	options := consumer.Options{Name: "payments", Logger: slogzap.New(h)}
//	options.Logger.Warn("lease lost", zap.String("message_id", "m1")) // as a worker does
package slogzap

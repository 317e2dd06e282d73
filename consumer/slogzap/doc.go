// Package slogzap is for people whose programs log with log/slog: [New] returns the *zap.Logger that consumer.Options.Logger
// takes, and what is logged there goes to their slog.Handler.
package slogzap

package slogzap

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LevelPanic is what zap's levels above error become. Below it, names keep their meaning.
const LevelPanic = slog.LevelError + 4

// New returns a logger that hands each entry to h, which also decides what is enabled. Fields become attributes and namespaces
// groups; objects and lists are handed over as maps and slices. A logger's name is the attribute "logger", a stack the
// attribute "stacktrace". An error of h goes where zap reports errors of logging: to standard error.
//
// A nil h gives a logger that says nothing. The logger may be used concurrently, as h may.
func New(h slog.Handler, options ...zap.Option) *zap.Logger {
	if h == nil {
		return zap.NewNop()
	}
	return zap.New(&core{h: h}, options...)
}

// core is a zapcore.Core that writes to a slog.Handler.
type core struct {
	h slog.Handler
}

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.DebugLevel:
		return slog.LevelDebug
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.ErrorLevel:
		return slog.LevelError
	}
	return LevelPanic
}

// Enabled has no context: zap has none.
func (c *core) Enabled(l zapcore.Level) bool {
	return c.h.Enabled(context.Background(), levelOf(l))
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	h := c.h
	for len(fields) > 0 {
		at := namespaceIn(fields)
		if attrs := attrsOf(fields[:at]); len(attrs) > 0 {
			h = h.WithAttrs(attrs)
		}
		if at == len(fields) {
			break
		}
		h = h.WithGroup(fields[at].Key)
		fields = fields[at+1:]
	}
	return &core{h: h}
}

func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, levelOf(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(nested(fields)...)
	if e.Stack != "" {
		r.AddAttrs(slog.String("stacktrace", e.Stack))
	}
	return c.h.Handle(context.Background(), r)
}

// Sync does nothing: a slog.Handler has nothing to flush.
func (c *core) Sync() error { return nil }

// namespaceIn is where the first namespace is; len(fields): there is none.
func namespaceIn(fields []zapcore.Field) int {
	at := slices.IndexFunc(fields, func(f zapcore.Field) bool { return f.Type == zapcore.NamespaceType })
	if at < 0 {
		return len(fields)
	}
	return at
}

// nested makes a group of what follows a namespace.
func nested(fields []zapcore.Field) []slog.Attr {
	at := namespaceIn(fields)
	attrs := attrsOf(fields[:at])
	if at < len(fields) {
		attrs = append(attrs, slog.Attr{Key: fields[at].Key, Value: slog.GroupValue(nested(fields[at+1:])...)})
	}
	return attrs
}

// attrsOf lets zap's own encoder say what each field is. An error stays one, so that h may look into it.
func attrsOf(fields []zapcore.Field) (attrs []slog.Attr) {
	for _, f := range fields {
		if f.Type == zapcore.ErrorType {
			attrs = append(attrs, slog.Any(f.Key, f.Interface))
			continue
		}
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		for _, key := range slices.Sorted(maps.Keys(enc.Fields)) {
			attrs = append(attrs, slog.Any(key, enc.Fields[key]))
		}
	}
	return attrs
}

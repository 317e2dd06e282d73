package slogzap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer/slogzap"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logged is the one line that f makes, without its time.
func logged(t *testing.T, level slog.Level, f func(*zap.Logger), options ...zap.Option) map[string]any {
	t.Helper()
	var out bytes.Buffer
	f(slogzap.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}), options...))
	if out.Len() == 0 {
		return nil
	}
	line := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%s: %v", out.String(), err)
	}
	if at, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil || time.Since(at) > time.Minute {
		t.Errorf("time: %v", line["time"])
	}
	delete(line, "time")
	return line
}

type pair struct{ a, b string }

func (p pair) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString("a", p.a)
	e.AddString("b", p.b)
	return nil
}

func TestFieldsBecomeAttributes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := logged(t, slog.LevelInfo, func(l *zap.Logger) {
		l.Named("worker").With(zap.String("queue", "orders"), zap.Namespace("of")).Info("started",
			zap.Int("n", 3), zap.Bool("ok", true), zap.Duration("for", time.Second), zap.Time("at", at), zap.Float64("f", 0.5),
			zap.Error(errors.New("boom")), zap.Error(nil), zap.Strings("list", []string{"x"}), zap.Object("pair", pair{"1", "2"}),
			zap.Inline(pair{"3", "4"}), zap.ByteString("text", []byte("t")), zap.Stringer("nothing", (*time.Location)(nil)),
			zap.Namespace("deep"), zap.Int("m", 4))
	})
	want := map[string]any{"level": "INFO", "msg": "started", "queue": "orders", "of": map[string]any{
		"logger": "worker", "n": 3.0, "ok": true, "for": 1e9, "at": "2026-01-02T03:04:05Z", "f": 0.5, "error": "boom", "list": []any{"x"},
		"pair": map[string]any{"a": "1", "b": "2"}, "a": "3", "b": "4", "text": "t", "nothing": "UTC", "deep": map[string]any{"m": 4.0},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestLevelsKeepTheirMeaning(t *testing.T) {
	for _, c := range []struct {
		zap  zapcore.Level
		want string
	}{
		{zap.DebugLevel, "DEBUG"}, {zap.InfoLevel, "INFO"}, {zap.WarnLevel, "WARN"}, {zap.ErrorLevel, "ERROR"}, {zap.DPanicLevel, "ERROR+4"},
	} {
		log := func(l *zap.Logger) { l.Log(c.zap, "x") }
		if got := logged(t, slog.LevelDebug, log); got["level"] != c.want {
			t.Errorf("%s: %v, want %s", c.zap, got["level"], c.want)
		}
		if got := logged(t, slogzap.LevelPanic+1, log); got != nil {
			t.Errorf("%s: the handler takes nothing, got %v", c.zap, got)
		}
	}
}

func TestTheHandlerLearnsWhereALineIsFrom(t *testing.T) {
	var out bytes.Buffer
	l := slogzap.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true}), zap.AddCaller(), zap.AddStacktrace(zap.ErrorLevel))
	l.Error("x")
	if !strings.Contains(out.String(), "slogzap_test.go") || !strings.Contains(out.String(), `"stacktrace":"`) {
		t.Error(out.String())
	}
	if err := l.Sync(); err != nil {
		t.Error(err)
	}
	slogzap.New(nil).Info("nobody hears it")
}

// broken is a handler that fails.
type broken struct{ slog.Handler }

func (broken) Handle(context.Context, slog.Record) error { return errors.New("disk full") }

type sink struct{ bytes.Buffer }

func (*sink) Sync() error { return nil }

func TestAnErrorOfTheHandlerIsReported(t *testing.T) {
	var errs sink
	slogzap.New(broken{slog.NewJSONHandler(&errs, nil)}, zap.ErrorOutput(&errs)).Info("x")
	if !strings.Contains(errs.String(), "disk full") {
		t.Errorf("%q", errs.String())
	}
}

package consumer_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// broken is a provider whose meters make no instrument for seconds.
type broken struct {
	noop.MeterProvider
	err error
}

func (b broken) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{err: b.err} }

type brokenMeter struct {
	noop.Meter
	err error
}

func (b brokenMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, b.err
}

// An instrument that cannot be made is an error: metrics that are missing without a word look like zeros.
func TestObserveLedgerSaysWhichInstrumentFailed(t *testing.T) {
	no := errors.New("no such instrument")
	if _, err := consumer.ObserveLedger(memory.New(), broken{err: no}); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}

// sized is an inspector whose tables have sizes.
type sized struct{}

func (sized) Stats(context.Context) (ledger.Stats, error) {
	return ledger.Stats{Tables: []ledger.TableStats{{Name: "message", Rows: -1, Bytes: 10, IndexBytes: 5}}}, nil
}

// Sizes are told by part, and rows that are not counted yet are not told at all.
func TestObserveLedgerTellsSizesByPart(t *testing.T) {
	reader := sdk.NewManualReader()
	if _, err := consumer.ObserveLedger(sized{}, sdk.NewMeterProvider(sdk.WithReader(reader))); err != nil {
		t.Fatal(err)
	}
	got := collected(t, reader, "ackledger.ledger.table.bytes")
	if len(got) != 2 || got["part=table,table=message"] != 10 || got["part=index,table=message"] != 5 {
		t.Errorf("sizes: %v", got)
	}
	if got := collected(t, reader, "ackledger.ledger.table.rows"); len(got) != 0 {
		t.Errorf("rows that are not counted yet: %v", got)
	}
}

package storage_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// at is the key of a record in a log.
func at(scope, log string, epoch int32, offset int64) ledger.Key {
	return ledger.Key{Scope: scope, ID: []byte("id"), Pos: &ledger.Position{Log: log, Epoch: epoch, Offset: offset, Prev: offset - 1}}
}

func TestAuditRecordRest(t *testing.T) {
	r := ledger.AuditRecord{
		By: ledger.By{Actor: "me", Reason: "why"}, Action: ledger.ActionReplay, Key: ledger.Key{Scope: "s\xff", ID: []byte("i\x00")},
		State: ledger.Failed, Token: 7, Delivery: []byte("d\xff"), Detail: "x",
	}
	var got ledger.AuditRecord
	if err := storage.DecodeAudit(&got, storage.EncodeAudit(&r), r.Key.Sum()); err != nil {
		t.Fatal(err)
	}
	got.By.Actor, got.Action = r.By.Actor, r.Action
	if got.Key.String() != r.Key.String() || got.Key.Sum() != r.Key.Sum() || string(got.Delivery) != string(r.Delivery) ||
		got.By != r.By || got.State != r.State || got.Token != r.Token || got.Detail != r.Detail {
		t.Errorf("%+v", got)
	}
	if err := storage.DecodeAudit(&got, nil, r.Key.Sum()); err != nil || got.Key.Scope != "" {
		t.Errorf("a row that something else wrote: %+v, %v", got, err)
	}
	if err := storage.DecodeAudit(&got, []byte("{"), r.Key.Sum()); err == nil {
		t.Error("damaged: accepted")
	}
}

// The longest span that is about a message begins MaxAuditSpan-1 offsets before it, and never before the log does.
func TestAuditFilterFirst(t *testing.T) {
	for offset, first := range map[int64]int64{0: 0, 5: 0, ledger.MaxAuditSpan - 1: 0, ledger.MaxAuditSpan: 1, 1 << 40: 1<<40 - ledger.MaxAuditSpan + 1} {
		k := at("s", "log", 0, offset)
		if got := storage.FirstAudit(&ledger.AuditFilter{Key: &k}); got != at("s", "log", 0, first).Sum() {
			t.Errorf("of offset %d: %x, want that of %d", offset, got, first)
		}
	}
}

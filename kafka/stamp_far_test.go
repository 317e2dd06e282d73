package kafka

import (
	"math"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A stamp names the highest offset that there can be. Nothing becomes of the records that are delivered beside it.
func TestPitfall22_StampOfTheHighestOffset(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1, kfake.ClusterID("c")).with(audit)
		values := numbers("v", 30)
		s.send(0, values...)
		b := newBook()
		r := s.start(b.handle, nil)
		s.caughtUp()
		st := consumer.NewStamp("c/"+s.topic, recordID(s.topic, 0, math.MaxInt64), []byte("forged"))
		st.Pos = &ledger.Position{Log: s.key(r, 0, 0, 0).Pos.Log, Offset: math.MaxInt64}
		r.end()
		s.sendRecords(&kgo.Record{Topic: s.topic, Value: []byte("forged"), Headers: []kgo.RecordHeader{
			{Key: consumer.StampName, Value: []byte(st.String())}}})
		s.rewind(0)
		again := s.start(b.handle, nil)
		again.owns(1)
		s.caughtUp()
		again.end()
		b.once(t, append(values, "forged"))
	})
}

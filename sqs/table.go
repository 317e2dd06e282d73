package sqs

import (
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/visibility"
)

// hold is one message in the worker's hands, and all that is made of it.
type hold struct {
	visibility.Hold
	raw  types.Message
	item engine.Item
	msg  consumer.Message // the item's
}

func newHold(raw types.Message, fifo bool) *hold {
	h := &hold{raw: raw, Hold: visibility.Hold{ID: aws.ToString(raw.MessageId), Handle: aws.ToString(raw.ReceiptHandle)}}
	if fifo {
		h.Group = groupOf(&raw)
	}
	return h
}

// table is the visibility table behind a lock, with a clock.
type table struct {
	began    time.Time
	toDelete chan struct{}
	toChange chan struct{}

	mu   sync.Mutex
	pure *visibility.Table
}

func newTable(timeout, limit time.Duration, fifo bool) *table {
	return &table{
		began: time.Now(), toDelete: make(chan struct{}, 1), toChange: make(chan struct{}, 1),
		pure: visibility.New(timeout, limit, fifo),
	}
}

// now is the table's time.
func (t *table) now() time.Duration { return time.Since(t.began) }

// use gives the table to one caller at a time. What is then to be deleted wakes who deletes.
func (t *table) use(do func(*visibility.Table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(t.pure)
	if t.pure.Deletes() > 0 {
		poke(t.toDelete)
	}
}

// lanes is [visibility.Table.Lanes].
func (t *table) lanes() (lanes, all int) {
	t.use(func(v *visibility.Table) { lanes, all = v.Lanes() })
	return lanes, all
}

// deletes is [visibility.Table.Deletes]. It wakes nobody: who deletes asks it.
func (t *table) deletes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pure.Deletes()
}

// waiting is [visibility.Table.Waiting].
func (t *table) waiting() (deletes, returns int) {
	t.use(func(v *visibility.Table) { deletes, returns = v.Waiting() })
	return deletes, returns
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

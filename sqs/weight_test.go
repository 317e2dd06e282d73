package sqs

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// heavy are messages whose weight is somewhere else each. All but the tiny ones come to several times the limit.
var heavy = map[string]struct {
	messages int
	make     func(*sqs.SendMessageInput)
}{
	"bodies": {30, func(in *sqs.SendMessageInput) { in.MessageBody = aws.String(letters(200 << 10)) }},
	"large attributes": {15, func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{"a": text(letters(200 << 10)), "b": {DataType: aws.String("Binary"), BinaryValue: []byte(letters(200 << 10))}}
	}},
	"small attributes": {800, func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{}
		for i := range 10 {
			in.MessageAttributes[fmt.Sprint("attribute-", i)] = text("value")
		}
	}},
	"tiny": {1300, func(*sqs.SendMessageInput) {}},
}

func letters(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return string(b)
}

const (
	heldLimit = 4 << 20
	heldMost  = heldLimit + heldLimit/2
	clientOwn = 2 << 20 // the buffers of the polls that are open
)

// MaxHeldBytes counted bodies alone: messages of one byte with large attributes took as much memory as there was. What is counted
// is memory, within half of it.
func TestPitfall125_HeldBytesAreMemory(t *testing.T) { // not in parallel with others: it reads the process's heap
	for _, name := range slices.Sorted(maps.Keys(heavy)) {
		t.Run(name, func(t *testing.T) { heldBytes(t, name) })
	}
}

func heldBytes(t *testing.T, name string) {
	h, s := heavy[name], newSiteAlone(t, "", 100, func(o *sqstest.Options) { o.Observe = nil })
	for range h.messages {
		in := &sqs.SendMessageInput{QueueUrl: &s.url, MessageBody: aws.String("1")}
		h.make(in)
		if _, err := s.client.SendMessage(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	c := quick()
	c.Concurrency, c.MaxHeld, c.MaxHeldBytes, c.Logger = h.messages, 10_000, heldLimit, zap.NewNop()
	c.Lease, c.VisibilityTimeout = time.Minute, 5*time.Minute
	var begun atomic.Int64
	at, over := heapInUse(), make(chan struct{})
	r := s.start(func(context.Context, *consumer.Message) error {
		begun.Add(1)
		<-over
		return nil
	}, c)
	eventually(t, "a message is in hand", func() bool { return begun.Load() > 0 })
	eventually(t, "polling has stopped, or all are in hand", func() bool {
		_, bytes := r.eng.Room()
		return bytes <= 0 || begun.Load() == int64(h.messages)
	})
	_, room := r.eng.Room()
	grew, counted := int64(0), heldLimit-room
	most := counted + counted/2 + clientOwn
	for deadline := time.Now().Add(10 * time.Second); ; { // what is on its way goes; what is held does not
		if grew = heapInUse() - at; grew <= most || time.Now().After(deadline) {
			break
		}
	}
	t.Logf("%d KiB are counted of %d messages, the heap grew by %d KiB", counted>>10, begun.Load(), grew>>10)
	if grew > most || counted > heldMost {
		t.Errorf("%d KiB are counted, with a limit of %d; the heap grew by %d KiB, want at most %d", counted>>10, heldLimit>>10, grew>>10, most>>10)
	}
	close(over)
	r.end()
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

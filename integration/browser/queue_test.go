package browser

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// dlq is the name of the dead-letter queue on the pages.
const dlq = "sqs:orders-dlq"

// letters is a dead-letter queue: what is done with leaves it.
type letters struct {
	once sync.Once
	mu   sync.Mutex
	list []*replay.Letter
}

func (q *letters) String() string                                       { return "a queue" }
func (q *letters) Address(context.Context) (string, error)              { return "", nil }
func (q *letters) Count(context.Context, *ledger.Filter) (int64, error) { return -1, nil }
func (q *letters) Removes() bool                                        { return true }
func (q *letters) Warnings() []string                                   { return nil }
func (q *letters) Keep([]*replay.Letter)                                {}

// fill puts in five letters of orders and one of mails.
func (q *letters) fill() {
	for i := range 6 {
		source, name := queue, "billing"
		if i == 5 {
			source, name = "main/mails", "sender"
		}
		q.list = append(q.list, &replay.Letter{Identified: true, Moved: true, DeadLetter: consumer.DeadLetter{
			Consumer: name, Message: consumer.Message{ID: fmt.Sprintf("moved-%d", i), Source: source, Body: []byte("moved")}}})
	}
}

func (q *letters) Letters(context.Context, *ledger.Filter) iter.Seq2[*replay.Letter, error] {
	q.once.Do(q.fill)
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.list)
	return func(yield func(*replay.Letter, error) bool) {
		for _, l := range list {
			own := *l
			if !yield(&own, nil) {
				return
			}
		}
	}
}

func (q *letters) Done(_ context.Context, done []*replay.Letter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(l *replay.Letter) bool {
		return slices.ContainsFunc(done, func(d *replay.Letter) bool { return d.Message.ID == l.Message.ID })
	})
	return nil
}

func (q *letters) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

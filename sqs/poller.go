package sqs

import (
	"context"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"
)

const (
	pollMargin = 5 * time.Second        // for the answer of a poll, beside its wait
	lookAgain  = 100 * time.Millisecond // at whether a slot is free: a message that begins to wait tells nobody
	aheadOf    = 250 * time.Millisecond // of handling that is received ahead
	firstSize  = 2 * maxMessage         // what a message counts as long as none has come: two copies of the largest
)

// situation is what the number of polls follows from.
type situation struct {
	slots  int // handlers that may run at once
	ahead  int // messages that may wait for a handler
	lanes  int // in hand that could run side by side, but for those that wait for a time
	room   int // messages that may be taken in
	open   int // polls
	asked  int // messages that open polls have asked for
	wanted int // polls that make sense, as far as the last ones say
}

// demand says for how many messages one more poll is to ask; 0: none now. It is pure.
//
// A message is not received before a handler will soon be free for it: another worker may be idle.
func (s situation) demand() int {
	if s.open >= s.wanted {
		return 0
	}
	free := s.slots + s.ahead - s.lanes - s.asked
	return max(min(free, s.room-s.asked, maxBatch), 0)
}

// poller keeps the polls' numbers.
type poller struct {
	maxOpen  int
	maxAhead int

	mu       sync.Mutex
	open     int
	asked    int
	wanted   int
	failures int // in a row
	notYet   time.Time
	since    time.Time // begin of the count of finished messages
	finished int
	rate     float64 // finished messages in a second
	mean     float64 // bytes of memory of a message, of late: it grows at once, and shrinks slowly
	wake     chan struct{}
}

func newPoller(maxOpen, maxAhead int) *poller {
	return &poller{maxOpen: maxOpen, maxAhead: maxAhead, wanted: 1, since: time.Now(), mean: firstSize, wake: make(chan struct{}, 1)}
}

// done counts finished messages: how many are received ahead follows from it.
func (p *poller) done(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished += n
	p.measure(now)
	if p.open < p.wanted {
		poke(p.wake)
	}
}

// wants says whether one more poll would make sense, if there is room for what it brings.
func (p *poller) wants() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open < p.wanted
}

func (p *poller) measure(now time.Time) {
	if d := now.Sub(p.since); d >= lookAgain {
		p.rate = float64(p.finished) / d.Seconds()
		p.finished, p.since = 0, now
	}
}

// ask says for how many messages the next poll is to ask, and notes it as open; 0: none now, perhaps after wait.
func (p *poller) ask(s situation, bytes int64, now time.Time) (n int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.notYet.Sub(now); d > 0 {
		return 0, d
	}
	p.measure(now)
	s.open, s.asked, s.wanted = p.open, p.asked, p.wanted
	s.ahead = min(int(p.rate*aheadOf.Seconds()), p.maxAhead)
	left := float64(bytes) - float64(p.asked)*p.mean
	if n = s.demand(); n == 0 || left <= 0 {
		return 0, lookAgain
	}
	n = min(n, int(left/p.mean)+1)
	p.open++
	p.asked += n
	return n, 0
}

// answered notes what a poll that asked for n messages brought: one that brought any calls for another beside it, one
// that brought none for no other.
func (p *poller) answered(n, got int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.asked -= n
	p.failures = 0
	switch got {
	case 0:
		p.wanted = 1
	case n:
		p.wanted = min(p.wanted*2, p.maxOpen)
	default:
		p.wanted = min(p.wanted+1, p.maxOpen)
	}
	if got > 0 && bytes > 0 {
		mean := float64(bytes) / float64(got)
		p.mean = max(mean, p.mean+(mean-p.mean)/4)
	}
	poke(p.wake)
}

// failed notes a poll that brought an error: the next one waits, alone.
func (p *poller) failed(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.asked -= n
	p.wanted = 1
	if !p.notYet.After(now) { // polls that fail together count once
		p.failures++
		p.notYet = now.Add(retryDelay(p.failures))
	}
	poke(p.wake)
}

// pollLoop opens polls until ctx is done, and then waits for those that are open to end by themselves: messages that a
// cancelled poll was about to bring would be hidden from everybody for their visibility timeout.
func (w *Worker) pollLoop(ctx context.Context) {
	polls := newCallers(w.set.MaxPollers)
	defer polls.end()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		var changed <-chan struct{} // nil: what the engine does changes nothing, until a poll has ended
		n, wait := 0, time.Second
		if w.polls.wants() {
			if changed = w.eng.Changed(); w.eng.Open() {
				s, bytes := w.situation()
				n, wait = w.polls.ask(s, bytes, time.Now())
			}
		}
		if n > 0 {
			polls.do(func() { w.poll(n) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-changed:
		case <-w.polls.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// situation is the engine's part of it, and the table's.
func (w *Worker) situation() (s situation, bytes int64) {
	items, bytes := w.eng.Room()
	load := w.eng.Load()
	lanes, all := w.table.lanes()
	slots := min(w.eng.Concurrency()+1, w.set.Concurrency) // where the number may grow that shows only while all are busy
	if b, ok := w.handler.(consumer.BatchHandler); ok {
		slots *= min(max(b.BatchSize(), 1), consumer.MaxBatch)
	}
	return situation{
		slots: slots,
		lanes: max(lanes-load.Waiting, load.Running),
		room:  min(items, w.set.MaxHeld-all),
	}, bytes
}

// poll asks for up to n messages once, and hands what is new to the engine.
func (w *Worker) poll(n int) {
	ctx, cancel := context.WithTimeout(w.base, w.set.WaitTime+pollMargin)
	defer cancel()
	sent := w.table.now()
	out, err := w.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &w.url, MaxNumberOfMessages: int32(n), MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: systemAttributes,
		VisibilityTimeout:           int32(w.set.VisibilityTimeout / time.Second),
		WaitTimeSeconds:             int32(w.set.WaitTime / time.Second),
	})
	if err != nil {
		w.pollFailed(n, err, time.Now())
		return
	}
	w.well(doReceive)
	if len(out.Messages) > 0 {
		killpoint.At(killpoint.Received)
	}
	items, bytes := make([]*engine.Item, 0, len(out.Messages)), int64(0)
	for _, h := range w.receive(out.Messages, sent) {
		it := w.prepare(h)
		bytes += it.Size
		items = append(items, it)
	}
	if len(out.Messages) > 0 {
		w.tel.poll("messages")
	} else {
		w.tel.poll("empty")
	}
	if len(items) > 0 {
		w.eng.Offer(items)
		w.drop(w.late(items)) // waiting for a handler, they would be extended, and their group with them
	}
	w.polls.answered(n, len(out.Messages), bytes)
}

// receive takes in what a poll has brought, and returns what of it is new.
func (w *Worker) receive(raws []types.Message, sent time.Duration) []*hold {
	fresh, dead := make([]*hold, 0, len(raws)), []*hold(nil)
	now := w.table.now()
	w.table.use(func(v *visibility.Table) {
		for _, raw := range raws {
			h := newHold(raw, w.queue.fifo)
			switch v.Receive(&h.Hold, sent, now) {
			case visibility.ArrivedNew:
				fresh = append(fresh, h)
			case visibility.ArrivedDead:
				dead = append(dead, h)
			}
		}
	})
	for _, h := range dead {
		w.log.Warn("message arrived after its visibility timeout: it is left to come again",
			zap.String("message_id", h.ID), zap.Duration("after", now-sent))
	}
	return fresh
}

// late returns which messages the engine was told to let go of before it had them.
func (w *Worker) late(offered []*engine.Item) (drops []*visibility.Hold) {
	w.table.use(func(v *visibility.Table) {
		for _, it := range offered {
			if h := &it.Ref.(*hold).Hold; v.Dropped(h) {
				drops = append(drops, h)
			}
		}
	})
	return drops
}

func (w *Worker) pollFailed(n int, err error, now time.Time) {
	if kindOf(err) == kindOverLimit {
		w.tel.poll("over_limit")
		w.log.Warn("too many messages of the queue are in flight: polling slows down", zap.Error(err))
	} else {
		w.tel.poll("error")
		w.trouble(doReceive, err)
	}
	w.polls.failed(n, now)
}

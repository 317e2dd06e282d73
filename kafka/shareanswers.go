package kafka

import (
	"sync"

	"github.com/ackledger/ackledger/internal/locks"
	"github.com/twmb/franz-go/pkg/kgo"
)

// results are the worst answers to acknowledgements by partition, since somebody began to look.
type results struct {
	mu     sync.Mutex
	errors map[string]error // nil is a good answer
}

// begin forgets what came before.
func (r *results) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = map[string]error{}
}

// outcomes says how renewals have ended. all says that every answer has come: else no answer is no good one.
func (r *results) outcomes(all bool) map[string]locks.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]locks.Outcome, len(r.errors))
	for place, err := range r.errors {
		switch {
		case err != nil:
			out[place] = locks.Refused
		case all:
			out[place] = locks.Renewed
		}
	}
	return out
}

// waiting are records to be accepted once the renewals that are under way have ended.
type waiting struct {
	mu      sync.Mutex
	held    bool
	records []*kgo.Record
}

func (a *waiting) hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = true
}

// add keeps records until the next free, or says that they need not wait.
func (a *waiting) add(records []*kgo.Record) (wait bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held {
		a.records = append(a.records, records...)
	}
	return a.held
}

func (a *waiting) free() (records []*kgo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	records, a.records, a.held = a.records, nil, false
	return records
}

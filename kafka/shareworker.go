package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ShareWorker consumes topics as a member of a share group (KIP-932, Kafka 4.2 and newer). Build it with [NewShareWorker].
//
// The broker locks each record for a while, to one member, and has it acknowledged by itself; no member owns a partition, and there is
// no order. The worker accepts a record once the ledger is terminal for it, and renews the lock of all that is in hand until then,
// whether it runs, waits for a retry, or is busy elsewhere. The ledger is authoritative, as everywhere: a lock that is lost costs a
// delivery and nothing else.
//
// The ledger keeps a row of each record, under its topic's id, partition, epoch and offset. Ranges would say of a partition what no
// member knows.
//
// A share group has no place for the ledger's id: all members must use one ledger, and nobody checks that.
type ShareWorker struct {
	base
	config ShareConfig
	locks  *lockTable
	watch  time.Duration
	ids    map[string]topicID // of the topics, as Run began with them
	sure   map[string]bool    // of poll's goroutine: the client reads the topic with that id
	logs   map[place]*assignment

	horizon *horizon // set by Run
	lags    shareLags

	renewing sync.Mutex // while renewals are under way, and while a poll begins
	results  results
	accepts  waiting // for the end of renewals
	terms    terms   // of base's lock
	short    error   // the group's settings are refused now, while it runs; of base's lock
}

var _ consumer.Worker = (*ShareWorker)(nil)

// NewShareWorker builds a worker for the topics and the share group that opts name (kgo.ConsumeTopics, kgo.ShareGroup). opts are the
// caller's: brokers, TLS, SASL, kgo.ShareMaxRecords. The worker adds its own and refuses, by name, those that would break a promise.
// kgo.WithContext and kgo.FetchMaxWait are replaced.
//
// Run reads the group's settings, and refuses those that would lose a record. A group that has not been altered is refused: Kafka's
// defaults are 5 deliveries and read_uncommitted.
//
// Nothing connects before [ShareWorker.Run]. A nil ShareConfig is the default one.
func NewShareWorker(opts []kgo.Opt, l ledger.Ledger, h consumer.Handler, c *ShareConfig) (*ShareWorker, error) {
	if engine.IsNil(l) {
		return nil, errors.New("kafka: NewShareWorker: the ledger must not be nil")
	}
	if err := engine.CheckHandler(h); err != nil {
		return nil, fmt.Errorf("kafka: NewShareWorker: %w", err)
	}
	cl, err := examineShare(opts)
	if err != nil {
		return nil, err
	}
	set, err := newShareSettings(c, cl, l)
	if err != nil {
		return nil, err
	}
	return &ShareWorker{
		base: newBase(set, l, h), config: *cmp.Or(c, &ShareConfig{}), locks: newLockTable(), watch: watchInterval,
		sure: map[string]bool{}, logs: map[place]*assignment{},
	}, nil
}

// heed keeps what the brokers say of the group.
func (w *ShareWorker) heed(t terms) {
	w.locked(func() { w.terms = t })
	w.locks.setTerms(t)
}

// Pause implements consumer.Worker. The group membership lives on.
func (w *ShareWorker) Pause() { w.setPaused(true) }

// Resume implements consumer.Worker.
func (w *ShareWorker) Resume() { w.setPaused(false) }

// Health implements consumer.Worker: the engine's, with the trouble with the cluster and the group.
func (w *ShareWorker) Health() consumer.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := consumer.Health{Alive: true}
	if w.eng != nil {
		h = w.eng.Health()
	}
	if err := cmp.Or(w.failed, w.trouble[withCluster], w.trouble[withGroup]); err != nil {
		h.Ready, h.LastError = false, err.Error()
	}
	h.Warnings = append(h.Warnings, w.warnings...)
	if w.short != nil {
		h.Warnings = append(h.Warnings, w.short.Error())
	}
	return h
}

func (w *ShareWorker) isShort() (is bool) {
	w.locked(func() { is = w.short != nil })
	return is
}

package idempotency

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
)

// Spill keeps results that are larger than the ledger's limit (ledger.Limits.Result). Package spillsql has one in a database's table,
// package spills3 one in a bucket. What is put is sealed by Options.Cipher, if there is one; the request's row has its name, its length and its
// SHA-256, so that nothing else is ever answered. It may be called concurrently, by any number of processes.
type Spill interface {
	// Put keeps data under a name that was never used before, for keep at least, and returns once it is durable. The request's row is
	// written after that; if it is not written, what was put is nobody's, and goes with its time. An error refuses the result. name is at most
	// 64 of a-z, 0-9 and "-"; ctx ends after 10 s.
	Put(ctx context.Context, name string, data []byte, keep time.Duration) error
	// Get returns what was put, if that is size bytes. An error that is [fs.ErrNotExist] says that it is gone, or of another size: then the request is
	// answered with a tombstone. Any other error is the caller's, who may ask again. ctx ends after 10 s.
	Get(ctx context.Context, name string, size int) ([]byte, error)
}

// Bounds of what is spilled.
const (
	DefaultSpillLimit = 4 << 20          // bytes
	maxSpillLimit     = 1 << 30          // bytes
	spillTimeout      = 10 * time.Second // for one call
	spillMargin       = time.Hour        // beyond the request's window and audit: clocks differ, and rows go later than they may
)

// What a repetition is told of a result that is no more.
const (
	spillGone    = "the result was stored outside of the ledger, and is gone"
	spillChanged = "the result was stored outside of the ledger, and is not what was stored"
)

// place is whose result is stored, and for how long it is asked for: its window, and its audit's after that.
type place struct {
	key  [ledger.KeySize]byte
	keep time.Duration
}

// spilled puts a stored result elsewhere, and returns what is stored instead. Like the cipher's, its time is not the function's.
func (s *results) spilled(ctx context.Context, at place, stored []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spillTimeout)
	defer cancel()
	name := hex.EncodeToString(at.key[:]) + "-" + strings.ToLower(rand.Text())
	if err := s.spill.Put(ctx, name, stored, at.keep+spillMargin); err != nil {
		return nil, fmt.Errorf("idempotency: spilling a result: %w", err)
	}
	sum := sha256.Sum256(stored)
	return (&envelope{Version: version, Spilled: len(stored), Sum: hex.EncodeToString(sum[:])}).with([]byte(name))
}

// fetch is the stored result that an envelope tells of; lost says why there is none any more.
func (s *results) fetch(ctx context.Context, e *envelope, name string) (stored []byte, lost string, err error) {
	if s.spill == nil {
		return nil, "", errors.New("idempotency: the stored result is spilled: set Options.Spill")
	}
	ctx, cancel := context.WithTimeout(ctx, spillTimeout)
	defer cancel()
	stored, err = s.spill.Get(ctx, name, e.Spilled)
	sum := sha256.Sum256(stored)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		lost = spillGone
	case err != nil:
		return nil, "", fmt.Errorf("idempotency: reading a spilled result: %w", err)
	case hex.EncodeToString(sum[:]) != e.Sum:
		lost = spillChanged
	default:
		return stored, "", nil
	}
	s.log.Error("a repetition is answered without its result", zap.Error(fmt.Errorf("%s: %s", name, lost)))
	return nil, lost, nil
}

package idempotency

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
)

// results is how a runner stores results: bounded, sealed if it has a cipher, and spilled if it can be.
type results struct {
	limit  int // bytes, as they are stored in the ledger
	cipher ledger.Cipher
	spill  Spill // nil: what is larger is refused
	most   int   // bytes, as they are spilled
	log    *zap.Logger
}

// max is how large a stored result may be, in bytes.
func (s *results) max() int {
	if s.spill == nil {
		return s.limit
	}
	return max(s.limit, s.most)
}

// sealLimit is how long the cipher may take for one result.
const sealLimit = 5 * time.Second

// store is what is stored in the ledger of a result, or of what it says is to be stored instead; else a [*TooLargeError].
func (s *results) store(ctx context.Context, at place, r *Result, failed string) ([]byte, error) {
	stored, err := s.seal(ctx, r, failed)
	switch {
	case err == nil:
	case s.cipher != nil && r.Instead != "": // a tombstone has nothing to hide
		s.log.Warn("a result is not kept", zap.Error(err))
		return encode(&Result{Status: r.Status, Tombstone: "it could not be sealed"}, failed)
	default:
		return nil, err
	}
	if len(stored) <= s.limit {
		return stored, nil
	}
	large := &TooLargeError{Bytes: len(stored), Limit: s.max()}
	if s.spill != nil && len(stored) <= s.most {
		stored, large.Err = s.spilled(ctx, at, stored)
		if large.Err == nil {
			return stored, nil
		}
	}
	if r.Instead == "" {
		return nil, large
	}
	if large.Err != nil {
		s.log.Warn("a result is not kept", zap.Error(large.Err))
	}
	return s.store(ctx, at, &Result{Status: r.Status, Tombstone: r.Instead}, failed)
}

// seal encodes a result, and seals it if there is a cipher. It is not cut short by the end of the function's time: the effect is there.
func (s *results) seal(ctx context.Context, r *Result, failed string) ([]byte, error) {
	stored, err := encode(r, failed)
	if err != nil || s.cipher == nil {
		return stored, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealLimit)
	defer cancel()
	sealed, err := s.cipher.Seal(ctx, stored)
	if err != nil {
		return nil, fmt.Errorf("idempotency: sealing a result: %w", err)
	}
	return (&envelope{Version: version, Sealed: true}).with(sealed)
}

// load is the result that was stored, and the error's text of a failure for good.
func (s *results) load(ctx context.Context, stored []byte) (r Result, failed string, err error) {
	e, rest, err := open(stored)
	if err == nil && e.Spilled > 0 {
		var lost string
		if rest, lost, err = s.fetch(ctx, &e, string(rest)); lost != "" {
			return Result{Tombstone: lost}, "", nil
		}
		if err == nil {
			e, rest, err = open(rest)
		}
	}
	if err == nil && e.Sealed {
		e, rest, err = s.unseal(ctx, rest)
	}
	if err != nil {
		return Result{}, "", err
	}
	return e.result(rest), e.Failed, nil
}

func (s *results) unseal(ctx context.Context, sealed []byte) (envelope, []byte, error) {
	if s.cipher == nil {
		return envelope{}, nil, fmt.Errorf("idempotency: the stored result is sealed: set Options.Cipher")
	}
	ctx, cancel := context.WithTimeout(ctx, sealLimit)
	defer cancel()
	plain, err := s.cipher.Open(ctx, sealed)
	if err != nil {
		return envelope{}, nil, fmt.Errorf("idempotency: opening a stored result: %w", err)
	}
	return open(plain)
}

package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// results is how a runner stores results: bounded, and sealed if it has a cipher.
type results struct {
	limit  int // bytes, as they are stored
	cipher ledger.Cipher
}

// sealLimit is how long the cipher may take for one result.
const sealLimit = 5 * time.Second

// store is what is stored of a result, or of what it says is to be stored instead; else a [*TooLargeError].
func (s *results) store(ctx context.Context, r *Result, failed string) ([]byte, error) {
	stored, err := s.seal(ctx, r, failed)
	if err != nil {
		return nil, err
	}
	if len(stored) <= s.limit {
		return stored, nil
	}
	if r.Instead != "" {
		return s.store(ctx, &Result{Status: r.Status, Tombstone: r.Instead}, failed)
	}
	return nil, &TooLargeError{Bytes: len(stored), Limit: s.limit}
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

package replay_test

import (
	"context"
	"crypto/aes"
	gcm "crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"log"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// sealer seals with AES-GCM; workers have it as consumer.Options.Cipher. In production its key comes from a key service.
type sealer struct{ aead gcm.AEAD }

func newSealer(key []byte) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := gcm.NewGCMWithRandomNonce(block)
	return &sealer{aead}, err
}

func (s *sealer) Seal(_ context.Context, plain []byte) ([]byte, error) {
	return s.aead.Seal(nil, nil, plain, nil), nil
}

func (s *sealer) Open(_ context.Context, sealed []byte) ([]byte, error) {
	if len(sealed) < s.aead.Overhead() {
		return nil, errors.New("too short")
	}
	return s.aead.Open(nil, nil, sealed, nil)
}

// The ledger's archive is sealed by the workers' cipher, so the command cannot replay it. A program that has the cipher can:
// this is all that it needs, beside a ledger and a client.
func Example_sealed() {
	ctx := context.Background()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		log.Fatal(err)
	}
	keys, err := newSealer(key)
	if err != nil {
		log.Fatal(err)
	}
	server, err := sqstest.New(nil) // in production: the client of your queues
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	l := memory.New() // in production: postgres.New

	target, err := sqs.NewReplayTarget(server.Client()) // back to where each came from
	if err != nil {
		log.Fatal(err)
	}
	report, err := replay.Run(ctx, l, replay.Archive(l), target, replay.Config{
		By:     ledger.By{Actor: "ann", Reason: "bug 42 is mended"},
		Filter: ledger.Filter{Cipher: keys},
		DryRun: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("would be replayed:", report.Replayed)
	// Output: would be replayed: 0
}

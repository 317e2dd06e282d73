package s3payload

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/ackledger/ackledger/consumer"
)

// Fingerprint is for consumer.Options.FingerprintFunc, beside a KeyFunc: the SHA-256 of the body, 32 bytes, so that one body in two objects,
// and one that is once in S3 and once in the message, is the same. The package's comment says what it costs.
func (s *Store) Fingerprint(m *consumer.Message) ([]byte, error) {
	if digest, _, err := s.digest(m); err != nil || digest != nil {
		return digest, err
	}
	p, ok, err := Parse(m)
	if err != nil {
		return nil, err
	}
	if !ok {
		sum := sha256.Sum256(m.Body)
		return sum[:], nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.c.Timeout)
	defer cancel()
	if sum, err := s.stored(ctx, m, p); err != nil || sum != nil {
		return sum, err
	}
	body, err := s.open(ctx, m)
	if err != nil {
		return nil, err
	}
	defer body.close()
	sum := sha256.New()
	if _, err := io.Copy(sum, body); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

// digest returns what the message's attribute says of its body, and a hash to check it with; nil without one.
func (s *Store) digest(m *consumer.Message) ([]byte, hash.Hash, error) {
	if s.c.Digest == "" {
		return nil, nil, nil
	}
	v, ok := m.Header(s.c.Digest)
	if !ok {
		return nil, nil, nil
	}
	sum, err := hex.DecodeString(string(v))
	if err != nil || len(sum) != sha256.Size {
		return nil, nil, consumer.Terminal(fmt.Errorf("message %s: attribute %s must have %d hexadecimal digits, has %d bytes",
			m.ID, s.c.Digest, 2*sha256.Size, len(v)))
	}
	return sum, sha256.New(), nil
}

// stored returns the SHA-256 of the whole object that S3 has checked when it was put there; nil if it has none. That of an object in
// parts is one of the parts' sums, and says so.
func (s *Store) stored(ctx context.Context, m *consumer.Message, p Pointer) ([]byte, error) {
	if err := s.allowed(m, p); err != nil {
		return nil, err
	}
	head, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &p.Bucket, Key: &p.Key, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return nil, answered(m, p, err)
	}
	if head.ChecksumSHA256 == nil || head.ChecksumType == types.ChecksumTypeComposite {
		return nil, nil
	}
	sum, err := base64.StdEncoding.DecodeString(*head.ChecksumSHA256)
	if err != nil || len(sum) != sha256.Size { // "…-3" of an object in three parts
		return nil, nil
	}
	if n := head.ContentLength; n != nil && *n != p.Size {
		return nil, consumer.Terminal(fmt.Errorf("message %s: s3://%s/%s must have %d bytes, has %d", m.ID, p.Bucket, p.Key, p.Size, *n))
	}
	return sum, nil
}

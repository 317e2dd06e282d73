package cases

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/ledger"
)

func dynamoQueueBare(ctx context.Context, r *suite.Run) (suite.Result, error) {
	d, err := freshDynamo(ctx, r)
	if err != nil {
		return nil, err
	}
	client, _, err := stub(0)(ctx, r)
	if err != nil {
		return nil, err
	}
	url, err := newQueue(ctx, r, client)
	if err != nil {
		return nil, err
	}
	m := newMeter(client, r.N)
	loops, ctx := errgroup.WithContext(ctx)
	for range pollers {
		loops.Go(func() error {
			for m.left.Load() > 0 {
				got, err := receive(ctx, m, url)
				if err != nil {
					return err
				}
				entries := make([]ledger.Entry, len(got))
				for i, msg := range got {
					id := []byte(aws.ToString(msg.MessageId))
					entries[i] = ledger.Entry{Key: ledger.Key{Scope: url, ID: id}, Delivery: id, Fingerprint: ledger.Fingerprint([]byte(aws.ToString(msg.Body)))}
				}
				if err := d.byHand(ctx, entries); err != nil {
					return err
				}
				if err := remove(ctx, m, url, got); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := loops.Wait(); err != nil {
		return nil, err
	}
	return suite.Throughput(r.N, m.took), nil
}

// oneClause hands on "SET a=? SET b=?", as AWS documents it, as one clause: Dynoxide 1.2.1 reads nothing else. It does so for
// all rows, and for next to nothing, unlike the transport of tests.
type oneClause struct{ *http.Client }

func newOneClause() oneClause {
	return oneClause{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, IdleConnTimeout: time.Minute}}}
}

// Do implements the SDK's HTTPClient.
func (c oneClause) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return c.Client.Do(r)
	}
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	r = r.WithContext(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte("=? SET "), []byte("=?,    ")))) // as long as it was
	return c.Client.Do(r)
}

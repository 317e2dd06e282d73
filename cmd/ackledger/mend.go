package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

// maxBody is the largest mended body.
const maxBody = 64 << 20

func readBody(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage("--body-file: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, usage("--body-file: %w", err)
	}
	if len(body) > maxBody {
		return nil, usage("--body-file: must be at most %s, %s is larger", size(maxBody), name)
	}
	return body, nil
}

// showMended prints the difference between the body that failed and the one that takes its place.
func (r *replaying) showMended(ctx context.Context, op ledger.Operator, out io.Writer) error {
	found, err := op.Find(ctx, r.cfg.Filter.Scope, r.cfg.Filter.IDs[0])
	if errors.Is(err, ledger.ErrNotFound) {
		return fmt.Errorf("the ledger knows nothing of %s", text(r.ids[0]))
	}
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return usage("--body-file: several scopes have seen %s: name one with --scope", text(r.ids[0]))
	}
	failed, err := operate.FailedBody(&found[0])
	if err != nil {
		return err
	}
	if found[0].State == ledger.Succeeded {
		if _, err := fmt.Fprintln(out, "The message has succeeded since: a replay drops it. `ackledger reopen` lets it run again."); err != nil {
			return err
		}
	}
	was := failed.Body
	_, err = fmt.Fprintf(out, "--- the body that failed, %s\n+++ %s, %s\n%s", size(int64(len(was))), text(r.body), size(int64(len(r.cfg.Body))),
		difference(was, r.cfg.Body))
	return err
}

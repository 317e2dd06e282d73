package replay

import (
	"context"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// Whoever may write to a dead-letter queue or topic may put letters there that say what they like. This file says who else
// speaks for a letter.

// known says that the ledger knows the message with this body.
func (l *Letter) known() bool {
	return !l.status.Fingerprint.IsZero() && l.status.Fingerprint.Agrees(l.Fingerprint)
}

// vouchMismatch looks for a mismatch in the archive: a worker that published it has archived it.
func (r *runner) vouchMismatch(ctx context.Context, l *Letter) error {
	if l.Vouched {
		return nil
	}
	rec, err := r.get(ctx, l.Key)
	if err != nil {
		return err
	}
	l.Vouched = slices.ContainsFunc(rec.Archived, func(a ledger.ArchiveRecord) bool {
		return a.Fingerprint.Agrees(ledger.BodyFingerprint(l.Message.Body))
	})
	return nil
}

// unsigned says why a letter may not be sent for the sake of its stamp; empty: it may. What this run signs, workers believe: so a
// letter that nobody has signed must be one that the ledger knows.
func (r *runner) unsigned(l *Letter) Reason {
	_, here := r.dst.(*inPlace)
	switch keys := r.c.StampKeys; {
	case l.Stamp == nil:
	case len(keys) == 0 && l.Stamp.Signer != "" && !here:
		return Keyless
	case len(keys) > 0 && !l.Stamp.SignedBy(keys...) && (l.status.State == 0 || l.status.Fingerprint.IsZero()):
		return Unsigned
	}
	return ""
}

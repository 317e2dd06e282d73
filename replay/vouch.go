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

// believes says whether the stamp of a letter counts. A worker that refuses stamps knew a message by the id that the broker gave
// it, so in place a letter that the broker moved has that again; a copy of our own has no other name than its stamp's.
func (r *runner) believes(l *Letter) bool {
	t, ok := r.dst.(*inPlace)
	if !ok || !l.Moved || l.Stamp == nil {
		return true
	}
	if o := &t.opt.Stamps; !o.Ignore && (len(o.Keys) == 0 || l.Stamp.SignedBy(o.Keys...)) {
		return true
	}
	if l.MovedID == "" {
		return false
	}
	l.Stamp, l.Token, l.Message.ID = nil, 0, l.MovedID
	return true
}

// prove takes the fingerprint that a letter's stamp says only as far as its body, or the archive, bears it out: two fingerprints
// agree if one half does, so a stamp can be made to agree with a body and with the row of another.
func (r *runner) prove(ctx context.Context, l *Letter) error {
	body := ledger.BodyFingerprint(l.Message.Body)
	known := l.status.Fingerprint
	if l.Archived || l.Stamp == nil || known.IsZero() || known.Agrees(body) || !known.Agrees(l.Fingerprint) {
		return nil
	}
	rec, err := r.get(ctx, l.Key)
	if err != nil {
		return err
	}
	if !archivedAs(&rec, body) {
		l.Fingerprint = body
	}
	return nil
}

// archivedAs says whether a delivery of the message with that body is archived.
func archivedAs(rec *ledger.Record, body ledger.Fingerprint) bool {
	return slices.ContainsFunc(rec.Archived, func(a ledger.ArchiveRecord) bool {
		return a.Kind != ledger.KindMismatch && a.Fingerprint.Agrees(body)
	})
}

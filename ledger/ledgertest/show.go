package ledgertest

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func number(i int) string { return "message-" + strconv.Itoa(i) }

// summary shows everything of a record, to compare it. Times are cut to microseconds, the databases' grain.
func summary(r ledger.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %x %v token %d owner %q attempts %d crashes %d generation %d result %s due %s at %s expiry %s",
		r.Scope, r.ID, r.Fingerprint, r.State, r.Token, r.Owner, r.Attempts, r.Crashes, r.Generation, showBytes(r.Result),
		stamp(r.Due), stamp(r.At), stamp(r.Expiry))
	for _, e := range r.Errors {
		fmt.Fprintf(&b, " error %s", showError(e))
	}
	for _, a := range r.Archived {
		fmt.Fprintf(&b, "\n  archived %s token %d at %s expiry %s", showArchive(&a.Archive), a.Token, stamp(a.At), stamp(a.Expiry))
	}
	return b.String()
}

// showArchive shows what must come back as it was given. Keep is the store's to keep or to forget: it is in the expiry.
func showArchive(a *ledger.Archive) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%x %q %v body %s source %q group %q attempts %d sent at %s sent %t",
		a.Fingerprint, a.Delivery, a.Kind, showBytes(a.Body), a.Source, a.Group, a.Attempts, stamp(a.SentAt), a.Sent)
	for _, h := range a.Headers {
		fmt.Fprintf(&b, " header %q %s %q", h.Name, showBytes(h.Value), h.Type)
	}
	for _, e := range a.Errors {
		fmt.Fprintf(&b, " error %s", showError(e))
	}
	return b.String()
}

// showBytes tells nil from empty, and long ones by their sum.
func showBytes(b []byte) string {
	switch {
	case b == nil:
		return "nil"
	case len(b) > 1000:
		return fmt.Sprintf("%d bytes of SHA-256 %x", len(b), sha256.Sum256(b))
	}
	return strconv.Quote(string(b))
}

func showError(e ledger.AttemptError) string {
	return fmt.Sprintf("%d %s %q %s", e.Attempt, e.Kind, e.Error, stamp(e.At))
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Truncate(time.Microsecond).Format("2006-01-02T15:04:05.000000")
}

package web

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

const (
	maxShown = 256 << 10 // bytes of a body that a page shows
	maxEdit  = 256 << 10 // bytes of a body that a page edits
)

// bodyData is a body that somebody asked for.
type bodyData struct {
	*ledger.Record
	Link    string
	Letter  *ledger.ArchiveRecord
	Headers []ledger.Header
	Hidden  bool   // the headers' values are
	Masked  bool   // the body is not as it was
	None    bool   // there is none: null
	Pretty  string // laid out JSON; empty: it is none
	Raw     string
	Hex     bool // Raw is in hexadecimal digits
	Bytes   int
	Cut     bool
	LeftOut *ledger.LeftOut
}

// letter reads the archived delivery that the URL names, and writes into the audit that somebody looks.
func (v *visit) looked(detail string, choose func(*ledger.Record) (*ledger.ArchiveRecord, error)) (*ledger.Record, *ledger.ArchiveRecord, ledger.By, error) {
	scope := v.query.Get("scope")
	if err := v.need(Body, scope); err != nil {
		return nil, nil, ledger.By{}, err
	}
	by, err := v.by()
	if err != nil {
		return nil, nil, by, err
	}
	r, err := v.record(true)
	if err != nil {
		return nil, nil, by, err
	}
	for i := range r.Archived {
		if v.o.Cipher != nil {
			if err := r.Archived[i].Open(v.ctx(), v.o.Cipher); err != nil {
				return nil, nil, by, err
			}
		}
	}
	a, err := choose(r)
	if err != nil {
		return nil, nil, by, err
	}
	err = v.op.Audit(v.ctx(), []ledger.AuditRecord{{By: by, Action: ActionBody, Key: r.MessageKey(), State: r.State, Token: r.Token,
		Delivery: a.Delivery, Detail: detail}})
	v.o.Logger.Info("web: a body was looked at", zap.String("scope", scope), zap.Binary("id", r.ID), zap.String("actor", by.Actor))
	return r, a, by, err
}

// named is the archived delivery that the URL names.
func (v *visit) named(r *ledger.Record) (*ledger.ArchiveRecord, error) {
	name, err := hex.DecodeString(v.query.Get("delivery"))
	at := slices.IndexFunc(r.Archived, func(a ledger.ArchiveRecord) bool { return bytes.Equal(a.Delivery, name) })
	switch {
	case err != nil || at < 0:
		return nil, refuse(http.StatusNotFound, "there is no such archived delivery any more")
	case !r.Archived[at].Purged.IsZero():
		return nil, refuse(http.StatusNotFound, "that delivery was purged")
	case r.Archived[at].Sealed():
		return nil, refuse(http.StatusForbidden, "that delivery is sealed by the workers' cipher, which these pages do not have")
	}
	return &r.Archived[at], nil
}

// body shows one, masked if it must be.
func (v *visit) body() error {
	r, a, _, err := v.looked("shown", v.named)
	if err != nil {
		return err
	}
	d := &bodyData{Record: r, Letter: a, Link: messageQuery(r.Scope, r.ID, r.Key).Encode(), Hidden: v.o.Mask != nil, None: a.Body == nil, Bytes: len(a.Body)}
	if left, ok := a.LeftOut(); ok {
		d.LeftOut = &left
		a.UnmarkLeftOut()
	}
	d.Headers = a.Headers
	body := a.Body
	if v.o.Mask != nil && body != nil {
		body = v.o.Mask(r.Scope, bytes.Clone(body))
		d.Masked = !bytes.Equal(body, a.Body)
	}
	if v.r.PostForm.Has("download") {
		v.Header().Set("Content-Type", "application/octet-stream")
		v.Header().Set("Content-Disposition", `attachment; filename="body.bin"`)
		_, err := v.Write(body)
		return err
	}
	d.fill(body)
	return v.show(&page{Name: "body", Title: "Body", Data: d})
}

// fill lays a body out.
func (d *bodyData) fill(body []byte) {
	var laid bytes.Buffer
	if len(body) <= maxShown && json.Indent(&laid, body, "", "  ") == nil {
		d.Pretty = operate.Safe(laid.String())
	}
	d.Hex = !utf8.Valid(body) || bytes.ContainsFunc(body, func(r rune) bool { return operate.Unprintable(r) && r != '\r' })
	if d.Cut = len(body) > maxShown; d.Cut {
		body = body[:maxShown]
	}
	if d.Hex {
		d.Raw = hex.Dump(body[:min(len(body), maxShown/4)])
		d.Cut = d.Cut || len(body) > maxShown/4
		return
	}
	d.Raw = operate.Safe(strings.ToValidUTF8(string(body), ""))
}

// editData is a body to change.
type editData struct {
	*ledger.Record
	Link string
	Text string
}

// edit shows the body that failed in a field.
func (v *visit) edit() error {
	r, a, _, err := v.toEdit("to edit it")
	if err != nil {
		return err
	}
	return v.show(&page{Name: "edit", Title: "Edit and replay", Data: &editData{r, messageQuery(r.Scope, r.ID, r.Key).Encode(), string(a.Body)}})
}

// toEdit is the body that failed, if a browser can edit it.
func (v *visit) toEdit(detail string) (*ledger.Record, *ledger.ArchiveRecord, ledger.By, error) {
	if err := v.need(Edit, v.query.Get("scope")); err != nil {
		return nil, nil, ledger.By{}, err
	}
	return v.looked(detail, func(r *ledger.Record) (*ledger.ArchiveRecord, error) {
		a, err := operate.FailedBody(r)
		if err != nil {
			return nil, &refusal{http.StatusConflict, err}
		}
		if v.o.Mask != nil && !bytes.Equal(v.o.Mask(r.Scope, bytes.Clone(a.Body)), a.Body) {
			return nil, refuse(http.StatusForbidden, "parts of this body are hidden: it cannot be edited here")
		}
		if err := editable(a.Body); err != nil {
			return nil, &refusal{http.StatusConflict, fmt.Errorf("this body cannot be edited in a browser: %w; `ackledger replay --body-file` can", err)}
		}
		return a, nil
	})
}

// editable says why a field of a form would change a body on its own.
func editable(body []byte) error {
	switch {
	case body == nil:
		return fmt.Errorf("there is none")
	case len(body) > maxEdit:
		return fmt.Errorf("it has %d bytes, of at most %d", len(body), maxEdit)
	case !utf8.Valid(body), bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }):
		return fmt.Errorf("it is no text")
	case bytes.Count(body, []byte("\r")) != bytes.Count(body, []byte("\r\n")), bytes.Contains(body, []byte("\r")) && bytes.Count(body, []byte("\n")) != bytes.Count(body, []byte("\r\n")):
		return fmt.Errorf("its lines end in different ways")
	}
	return nil
}

// lineEnds gives a text of a form, whose lines browsers end with CR LF, the line ends of the body that it was made of.
func lineEnds(text string, was []byte) []byte {
	if bytes.Contains(was, []byte("\r\n")) {
		return []byte(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n"))
	}
	return []byte(strings.ReplaceAll(text, "\r\n", "\n"))
}

// mend begins the dry run of a replay with the body of the form.
func (v *visit) mend() error {
	r, a, by, err := v.toEdit("to compare it with what takes its place")
	if err != nil {
		return err
	}
	is := lineEnds(v.r.PostForm.Get("body"), a.Body)
	switch {
	case len(is) > maxEdit:
		return refuse(http.StatusRequestEntityTooLarge, "the body must be at most %d bytes, is %d", maxEdit, len(is))
	case bytes.Equal(is, a.Body):
		return refuse(http.StatusBadRequest, "the body is the one that failed: replay the message instead")
	}
	return v.mended(r, a.Body, is, by)
}

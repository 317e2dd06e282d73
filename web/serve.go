package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

//go:embed assets
var assets embed.FS

// visit is one request.
type visit struct {
	*UI
	http.ResponseWriter
	r     *http.Request
	query url.Values // of the URL, whatever the method
}

var errClosed = refuse(http.StatusServiceUnavailable, "the page is closed")

// refusal is an error with its status.
type refusal struct {
	status int
	error
}

func (e *refusal) Unwrap() error { return e.error }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Errorf(format, args...)}
}

// looks are the pages, by the last part of their address. Links are relative, so that the prefix need not be known.
var looks = map[string]func(*visit) error{
	"": (*visit).now, "stuck": (*visit).stuck, "dead": (*visit).dead, "errors": (*visit).groups, "message": (*visit).message,
	"jobs": (*visit).jobList, "job": (*visit).job, "audit": (*visit).audit, "doctor": (*visit).doctor,
	"replay": (*visit).replayForm, "reopen": (*visit).reopenForm, "purge": (*visit).purgeForm,
	"parked": (*visit).parked, "run-now": (*visit).runNowForm, "drop": (*visit).dropForm,
}

// acts are what is done by POST.
var acts = map[string]func(*visit) error{
	"body": (*visit).body, "edit": (*visit).edit, "mend": (*visit).mend, "replay": (*visit).replay, "reopen": (*visit).reopen,
	"purge": (*visit).purge, "go": (*visit).carryOut, "stop": (*visit).stop, "pause": (*visit).pause, "resume": (*visit).resume,
	"search": (*visit).search, "run-now": (*visit).runNow, "drop": (*visit).drop,
}

// streamed are live parts of pages, as server-sent events.
var streamed = map[string]func(*visit) error{"live": (*visit).live, "watch": (*visit).watch}

const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP implements [http.Handler]. It goes by the last part of the path alone.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would not say the origin of a form
	h.Set("Cache-Control", "no-store")
	name := path.Base(r.URL.Path)
	if r.URL.Path == "" || r.URL.Path[len(r.URL.Path)-1] == '/' {
		name = ""
	}
	v := &visit{UI: u, ResponseWriter: w, r: r, query: r.URL.Query()}
	if err := v.serve(name); err != nil {
		v.fail(err)
	}
}

func (v *visit) serve(name string) error {
	if v.life.Err() != nil {
		return errClosed
	}
	switch v.r.Method {
	case http.MethodGet, http.MethodHead:
		if name == "style.css" || name == "app.js" {
			v.Header().Set("Cache-Control", "private, max-age=300")
			http.ServeFileFS(v, v.r, assets, "assets/"+name)
			return nil
		}
		if f := streamed[name]; f != nil {
			return v.stream(f)
		}
		if f := looks[name]; f != nil {
			return v.reading(f)
		}
	case http.MethodPost:
		f := acts[name]
		if f == nil {
			break
		}
		if err := v.protect.Check(v.r); err != nil {
			return &refusal{http.StatusForbidden, fmt.Errorf("the form is of another site: %w", err)}
		}
		if !v.acts.Allow() {
			v.Header().Set("Retry-After", "5")
			return refuse(http.StatusTooManyRequests, "too many acts: wait for some seconds")
		}
		v.r.Body = http.MaxBytesReader(v, v.r.Body, maxForm)
		if err := v.r.ParseForm(); err != nil {
			return &refusal{http.StatusBadRequest, err}
		}
		return v.reading(f)
	default:
		v.Header().Set("Allow", "GET, HEAD, POST")
		return refuse(http.StatusMethodNotAllowed, "there is no %s here", v.r.Method)
	}
	return refuse(http.StatusNotFound, "there is no such page")
}

// reading calls f with a deadline, and beside few others: so the pages need few connections.
func (v *visit) reading(f func(*visit) error) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), readTimeout)
	defer cancel()
	select {
	case v.reads <- struct{}{}:
		defer func() { <-v.reads }()
	case <-ctx.Done():
		return ctx.Err()
	}
	v.r = v.r.WithContext(ctx)
	return f(v)
}

// ctx is the request's.
func (v *visit) ctx() context.Context { return v.r.Context() }

// can says whether the sender may do something; for buttons.
func (v *visit) can(a Action, scope string) bool { return v.may(v.r, a, scope) == nil }

// need refuses what the sender may not do.
func (v *visit) need(a Action, scope string) error {
	err := v.may(v.r, a, scope)
	if err == nil {
		return nil
	}
	v.o.Logger.Info("web: refused", zap.String("action", string(a)), zap.String("scope", scope), zap.Error(err))
	return &refusal{http.StatusForbidden, err}
}

// by is who sends the request, and the reason that the form gives.
func (v *visit) by() (ledger.By, error) {
	by := ledger.By{Reason: v.r.PostForm.Get("reason")}
	if v.o.Actor != nil {
		by.Actor = v.o.Actor(v.r)
	}
	return by, checks.By(by)
}

// to sends the browser on to a page.
func (v *visit) to(page string, query url.Values) error {
	if len(query) > 0 {
		page += "?" + query.Encode()
	}
	if page == "" {
		page = "./"
	}
	v.Header().Set("Location", page)
	v.WriteHeader(http.StatusSeeOther)
	return nil
}

// fail answers with an error, as a page.
func (v *visit) fail(err error) {
	status := http.StatusInternalServerError
	var invalid *ledger.InvalidError
	var large *http.MaxBytesError
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
		status = refused.status
	case errors.As(err, &large):
		status = http.StatusRequestEntityTooLarge
	case errors.As(err, &invalid):
		status = http.StatusBadRequest
	case errors.Is(err, ledger.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusServiceUnavailable
		err = fmt.Errorf("the ledger did not answer within %s: %w", readTimeout, err)
	case v.r.Context().Err() != nil:
		return // nobody waits for it
	}
	if status >= http.StatusInternalServerError {
		v.o.Logger.Warn("web: a page failed", zap.String("path", v.r.URL.Path), zap.Error(err))
	}
	if fatal := v.render(status, &page{Name: "fail", Title: http.StatusText(status), Data: err.Error()}); fatal != nil {
		v.o.Logger.Warn("web: a page failed", zap.Error(fatal))
	}
}

// stream sends events until the page is gone, f has no more, or the pages are closed.
func (v *visit) stream(f func(*visit) error) error {
	select {
	case v.streams <- struct{}{}:
		defer func() { <-v.streams }()
	default:
		return refuse(http.StatusServiceUnavailable, "%d pages are live already", maxStreams)
	}
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	defer context.AfterFunc(v.life, cancel)()
	v.r = v.r.WithContext(ctx)
	return f(v)
}

// event sends a part of a page. What is sent before it is the start of the stream.
func (v *visit) event(name string, html []byte) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", name)
	for line := range bytes.SplitSeq(bytes.ReplaceAll(html, []byte("\r"), nil), []byte("\n")) {
		fmt.Fprintf(&b, "data: %s\n", line)
	}
	b.WriteByte('\n')
	c := http.NewResponseController(v.ResponseWriter)
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a server that has none needs none
	if _, err := v.Write(b.Bytes()); err != nil {
		return err
	}
	return c.Flush()
}

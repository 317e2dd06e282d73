package httpkey

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/idempotency"
)

// Defaults of Options.
const (
	DefaultHeader       = "Idempotency-Key"
	DefaultReplayHeader = "Idempotent-Replayed"
	DefaultMaxBody      = 1 << 20
	DefaultRetryAfter   = 5 * time.Second
	DefaultTypeBase     = "https://github.com/ackledger/ackledger/blob/main/docs/problems.md#"
)

// Options are a middleware's settings. The zero value of each field means its default.
type Options struct {
	// Header has the key. Default "Idempotency-Key". For people whose clients send another one.
	Header string
	// Strict takes keys in quotes alone, as the draft has it. Default: bare ones, too. For people who want what the draft says.
	Strict bool
	// Required says which requests must have a key: others are refused with 400. Default: POST and PATCH. For people whose older
	// clients send none (a function that says false), or whose PUT and DELETE are to have one.
	Required func(*http.Request) bool
	// Caller is whose request it is: a tenant, an account. Two callers' keys never meet; a long name is hashed. Default: one caller.
	// For everybody who has more than one: without it, callers could meet each other's answers.
	Caller func(*http.Request) string
	// EndWithClient ends a handler's context when its client has gone. Default: the handler goes on, and its answer is kept for the
	// repetition. For people whose handlers do much, and can leave off.
	EndWithClient bool
	// Body returns what of a request's body must be equal in a repetition, such as package canonical makes. Its error refuses the
	// request with 400. Default: the body. For people whose clients re-encode, or send a time.
	Body func(r *http.Request, body []byte) ([]byte, error)
	// MaxBody is the longest request body, 0 to 1 GiB; a longer one is refused with 413 before anything is asked. Default 1 MiB. For
	// people with larger requests.
	MaxBody int64
	// Store says whether an answer with this status is kept. What is not kept is run again by the next request. Default: 200 to 499
	// but 408, 425 and 429. For people whose 4xx heal.
	Store func(status int) bool
	// KeepHeaders are the headers that are kept with an answer. Default: Content-Language, Content-Location, Location, ETag,
	// Last-Modified and Link. Content-Type and Content-Encoding are always kept: without them the body is not what it was.
	// Set-Cookie, Date and headers of the connection are never kept. For people with headers of their own.
	KeepHeaders []string
	// ReplayHeader marks an answer that is given again; its value is "true". Default "Idempotent-Replayed", as Stripe's. For people whose
	// clients look for another one.
	ReplayHeader string
	// TypeBase is what the types of problems begin with. Default: this project's page of them. For people who document their own.
	TypeBase string
	// FailureText is what a client is told of a failure for good. Default: nothing. For people whose errors' texts are for clients.
	FailureText func(*idempotency.FailedError) string
	// RetryAfter is what a client is told to wait at most. Default 5 s. For people whose requests take longer.
	RetryAfter time.Duration
	// WithoutLedger lets requests run unprotected while the ledger does not answer: some may be done twice. Default: they get 503,
	// as they do while the runner is paused or does not run, and when their turn does not come in time. For people to whom doing nothing is worse.
	WithoutLedger bool
	// OnProblem answers instead of the middleware. Default: application/problem+json. For people with a format of their own.
	OnProblem func(http.ResponseWriter, *http.Request, *Problem)
	// Logger is told what goes wrong. Default: none.
	Logger *zap.Logger
}

const maxBody = 1 << 30

func (o Options) withDefaults() (Options, error) {
	o.Header = http.CanonicalHeaderKey(cmp.Or(o.Header, DefaultHeader))
	o.ReplayHeader = cmp.Or(o.ReplayHeader, DefaultReplayHeader)
	o.TypeBase = cmp.Or(o.TypeBase, DefaultTypeBase)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.RetryAfter = cmp.Or(o.RetryAfter, DefaultRetryAfter)
	if o.Required == nil {
		o.Required = func(r *http.Request) bool { return r.Method == http.MethodPost || r.Method == http.MethodPatch }
	}
	if o.Caller == nil {
		o.Caller = func(*http.Request) string { return "" }
	}
	if o.Store == nil {
		o.Store = stores
	}
	if o.KeepHeaders == nil {
		o.KeepHeaders = []string{"Content-Language", "Content-Location", "Location", "Etag", "Last-Modified", "Link"}
	}
	if o.FailureText == nil {
		o.FailureText = func(*idempotency.FailedError) string { return "" }
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if !slices.ContainsFunc(o.KeepHeaders, func(name string) bool { return http.CanonicalHeaderKey(name) == "Content-Encoding" }) {
		o.KeepHeaders = append(slices.Clone(o.KeepHeaders), "Content-Encoding")
	}
	for _, name := range o.KeepHeaders {
		switch http.CanonicalHeaderKey(name) {
		case "Set-Cookie", "Date", "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length":
			return o, fmt.Errorf("httpkey: Options.KeepHeaders: must not have %s: it belongs to one answer or one connection", name)
		}
	}
	switch {
	case o.MaxBody < 0 || o.MaxBody > maxBody:
		return o, fmt.Errorf("httpkey: Options.MaxBody: must be 0 to %d, is %d", maxBody, o.MaxBody)
	case o.RetryAfter < time.Second:
		return o, errors.New("httpkey: Options.RetryAfter: must be at least 1s, the unit of the header")
	}
	return o, nil
}

// stores is the default of Options.Store.
func stores(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status < 500
}

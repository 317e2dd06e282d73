package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

// filterNames are the parameters of a URL that select messages.
var filterNames = []string{"scope", "error", "kind", "header", "group", "id", "since", "until", "state", "offsets"}

// filterQuery is the part of a URL that selects messages.
func filterQuery(q url.Values) url.Values {
	out := url.Values{}
	for _, name := range filterNames {
		for _, value := range q[name] {
			if value != "" {
				out.Add(name, value)
			}
		}
	}
	return out
}

// filterOf reads a filter from a URL. What it cannot mean is the viewer's mistake.
func filterOf(q url.Values, now time.Time) (ledger.Filter, error) {
	f := ledger.Filter{Scope: q.Get("scope"), Error: q.Get("error"), Group: q.Get("group")}
	for _, kind := range q["kind"] {
		if kind == "" {
			continue
		}
		if !slices.Contains(operate.Kinds, ledger.FailureKind(kind)) {
			return f, refuse(http.StatusBadRequest, "there is no kind of failure %q", kind)
		}
		f.Kinds = append(f.Kinds, ledger.FailureKind(kind))
	}
	if header := q.Get("header"); header != "" {
		name, value, ok := strings.Cut(header, "=")
		if !ok || name == "" {
			return f, refuse(http.StatusBadRequest, "a header is selected as NAME=VALUE, not %q", header)
		}
		f.HeaderName, f.HeaderValue = name, value
	}
	for _, id := range q["id"] {
		if id != "" {
			f.IDs = append(f.IDs, []byte(id))
		}
	}
	if name := q.Get("state"); name != "" {
		for _, s := range []ledger.State{ledger.Pending, ledger.Succeeded, ledger.Failed} {
			if s.String() == name {
				f.State = s
			}
		}
		if f.State == 0 {
			return f, refuse(http.StatusBadRequest, "there is no state %q", name)
		}
	}
	if text := q.Get("offsets"); text != "" {
		r, err := operate.Offsets(text)
		if err != nil {
			return f, refuse(http.StatusBadRequest, "offsets: %w", err)
		}
		f.Offsets = r
	}
	for name, at := range map[string]*time.Time{"since": &f.From, "until": &f.To} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		var err error
		if *at, err = operate.Moment(text, now); err != nil {
			return f, refuse(http.StatusBadRequest, "%s: %w", name, err)
		}
	}
	return f, f.Check()
}

// words says what a filter selects, for people.
func words(q url.Values) string {
	var all []string
	for _, name := range filterNames {
		for _, value := range q[name] {
			if value != "" {
				all = append(all, name+" "+operate.Text(value))
			}
		}
	}
	if len(all) == 0 {
		return "all"
	}
	return strings.Join(all, ", ")
}

// mark is a place in the list of dead letters: behind the delivery of a message that was archived at a time. The list goes by the
// time; of those of one time, what comes behind the named one is left, or all if that one is gone.
type mark struct {
	at       time.Time
	key      [ledger.KeySize]byte
	delivery string
}

// markOf is the place behind a dead letter, as a parameter of a URL.
func markOf(d *ledger.DeadLetter) string {
	sum := d.Key.Sum()
	return fmt.Sprintf("%d %s%s", d.At.UnixNano(), sum[:], d.Delivery)
}

func readMark(s string) (m mark, err error) {
	nanos, rest, ok := strings.Cut(s, " ")
	at, err := strconv.ParseInt(nanos, 10, 64)
	if !ok || err != nil || len(rest) < ledger.KeySize {
		return m, refuse(http.StatusBadRequest, "the link does not say which page comes next")
	}
	return mark{at: time.Unix(0, at), key: [ledger.KeySize]byte([]byte(rest[:ledger.KeySize])), delivery: rest[ledger.KeySize:]}, nil
}

func (m *mark) names(d *ledger.DeadLetter) bool {
	return d.At.Equal(m.at) && d.Key.Sum() == m.key && string(d.Delivery) == m.delivery
}

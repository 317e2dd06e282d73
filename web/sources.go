package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// MaxSourceName is how many bytes the name of a [Source] has at most.
const MaxSourceName = 300

// Source is a broker's own dead-letter queue or topic, from which dead letters can be replayed: those that SQS has moved by itself, and
// those that the ledger does not have any more.
type Source struct {
	// Name is how people and links call it, such as "sqs:orders-dlq": 1 to MaxSourceName bytes of UTF-8, which no other source has.
	Name string
	// Open makes it for one run, which may be a dry run, such as by sqs.NewReplaySource or kafka.NewReplaySource. ctx ends with the run.
	// It is called concurrently.
	Open func(ctx context.Context) (replay.Source, error)
}

// checkSources says what is wrong with Options.Sources.
func (o *Options) checkSources() error {
	names := map[string]bool{}
	for i, s := range o.Sources {
		switch {
		case o.Target == nil:
			return fmt.Errorf("web: Options.Target: must be set with Options.Sources, is nil")
		case s.Name == "" || len(s.Name) > MaxSourceName || !utf8.ValidString(s.Name):
			return fmt.Errorf("web: Options.Sources[%d].Name: must be 1 to %d bytes of UTF-8, is %.400q", i, MaxSourceName, s.Name)
		case names[s.Name]:
			return fmt.Errorf("web: Options.Sources[%d].Name: must be no other's, is %q", i, s.Name)
		case s.Open == nil:
			return fmt.Errorf("web: Options.Sources[%d].Open: must be set, is nil: source %q", i, s.Name)
		}
		names[s.Name] = true
	}
	return nil
}

// opener makes what one replay reads.
type opener func(context.Context) (replay.Source, error)

// inLedger reads the ledger's own dead letters.
func (u *UI) inLedger(source func(ledger.Operator) replay.Source) opener {
	return func(context.Context) (replay.Source, error) { return source(u.op), nil }
}

// source is the broker's queue or topic that the URL names; nil: it names none, and the ledger's dead letters are meant.
func (v *visit) source() (*Source, error) {
	name := v.query.Get("source")
	if name == "" {
		return nil, nil
	}
	for i := range v.o.Sources {
		if v.o.Sources[i].Name == name {
			return &v.o.Sources[i], nil
		}
	}
	return nil, refuse(http.StatusNotFound, "these pages know no source %s", operate.Text(name))
}

// wordsOf says what a replay from a source is about.
func wordsOf(s *Source, q url.Values) string {
	return operate.Text(s.Name) + ": " + words(q)
}

// replayFrom begins the dry run of a replay from a broker's queue or topic. What letters do not say of themselves the form may say, for
// those who may act on all scopes: such letters could be of any.
func (v *visit) replayFrom(s *Source, c replay.Config) error {
	form := v.r.PostForm
	if form.Has("renewed") {
		return refuse(http.StatusBadRequest, "what was renewed is in the ledger, not at a broker")
	}
	if c.Consumer, c.Origin = form.Get("consumer"), form.Get("origin"); c.Consumer != "" || c.Origin != "" {
		if err := v.need(Replay, ""); err != nil {
			return err
		}
	}
	j := v.replaying(kindReplay, Replay, s.Open, c, true)
	j.Source, j.Words = s.Name, wordsOf(s, filterQuery(v.query))
	return v.start(j)
}

// links lead from dead letters to the forms of the sources, with the same filter.
func (v *visit) links(q url.Values) (all []sourceLink) {
	for _, s := range v.o.Sources {
		all = append(all, sourceLink{s.Name, "replay?" + withSource(q, s.Name)})
	}
	return all
}

type sourceLink struct{ Name, Link string }

// withSource is a filter's query that names a source.
func withSource(q url.Values, name string) string {
	rest := q.Encode()
	if rest != "" {
		rest = "&" + rest
	}
	return url.Values{"source": {name}}.Encode() + rest
}

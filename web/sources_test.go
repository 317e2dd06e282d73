package web

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
)

// queue is a dead-letter queue: what is done with leaves it.
type queue struct {
	mu      sync.Mutex
	letters []*replay.Letter
	hidden  int64
	opened  int
}

func (q *queue) String() string                                       { return "a queue" }
func (q *queue) Address(context.Context) (string, error)              { return "", nil }
func (q *queue) Count(context.Context, *ledger.Filter) (int64, error) { return -1, nil }
func (q *queue) Removes() bool                                        { return true }
func (q *queue) Warnings() []string                                   { return nil }
func (q *queue) Unread() int64                                        { return q.hidden }
func (q *queue) Keep([]*replay.Letter)                                {}
func (q *queue) source() Source                                       { return Source{Name: dlq, Open: q.open} }

func (q *queue) open(context.Context) (replay.Source, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opened++
	return q, nil
}

func (q *queue) Done(_ context.Context, letters []*replay.Letter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.letters = slices.DeleteFunc(q.letters, func(l *replay.Letter) bool {
		return slices.ContainsFunc(letters, func(d *replay.Letter) bool { return d.Message.ID == l.Message.ID })
	})
	return nil
}

func (q *queue) Letters(context.Context, *ledger.Filter) iter.Seq2[*replay.Letter, error] {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.letters)
	return func(yield func(*replay.Letter, error) bool) {
		for _, l := range list {
			own := *l
			if !yield(&own, nil) {
				return
			}
		}
	}
}

// has puts a letter of a scope into the queue.
func (q *queue) has(scope, id, body string) {
	source, name, _ := replay.ParseScope(scope)
	q.letters = append(q.letters, &replay.Letter{Identified: true, Moved: true, DeadLetter: consumer.DeadLetter{
		Consumer: name, Message: consumer.Message{ID: id, Source: source, Body: []byte(body)}}})
}

const dlq = "sqs:orders-dlq"

var fromQueue = "source=" + url.QueryEscape(dlq) + "&" + inShop

func (q *queue) left() (ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.letters {
		ids = append(ids, l.Message.ID)
	}
	return ids
}

// A dead-letter queue is replayed from as the ledger's dead letters are: by a dry run, then in earnest, with the audit.
func TestReplayFromASource(t *testing.T) {
	t.Parallel()
	q := &queue{hidden: 7}
	s := newStage(t, func(o *Options) { o.Sources = []Source{{Name: "kafka:odd " + hostile, Open: q.open}, q.source()} })
	s.letter(shop, "o1", "bad", "one")
	s.succeed("o2")
	q.has(shop, "o1", "one")
	q.has(shop, "o2", "fine")
	q.has(shop, "o3", "never seen")
	q.has("sqs:arn:aws:sqs:eu-central-1:000000000000:theirs/other", "o4", "of another scope")

	list := s.want(s.get("dead?"+inShop), http.StatusOK, "Replay from", "&lt;script&gt;")
	s.lacks(list, "<script>")
	form := link(t, list, "replay?source=sqs")
	s.lacks(s.want(s.get(form), http.StatusOK, dlq, "Consumer", "Where letters came from", shop), "Only what was renewed")
	dry := s.started(s.post(form, url.Values{"reason": {"OPS-21"}}))
	s.want(s.get("job?id="+dry), http.StatusOK, dlq+": scope", "would be replayed", "hidden for a while", "Do it", "not seen, about", ">7<")
	if len(s.sent.all()) != 0 || len(q.left()) != 4 || s.audits("") != 0 {
		t.Fatalf("a dry run has sent %q, left %q, %d audit rows", s.sent.all(), q.left(), s.audits(""))
	}
	job := s.started(s.post("go?id="+dry, nil))
	s.lacks(s.want(s.get("job?id="+job), http.StatusOK, dlq, "replayed", "done", "OPS-21"), "Do it")
	if got := s.sent.all(); !slices.Equal(got, []string{"never seen", "one"}) {
		t.Errorf("sent %q", got)
	}
	if got := q.left(); !slices.Equal(got, []string{"o4"}) || q.opened != 2 {
		t.Errorf("left %q of a queue that was opened %d times", got, q.opened)
	}
	if n := s.audits(ledger.ActionReplay); n != 2 {
		t.Errorf("%d audit rows", n)
	}
	s.want(s.get("audit"), http.StatusOK, "OPS-21")
	s.want(s.get("jobs"), http.StatusOK, dlq)
}

// What a letter does not say of itself, the form says; and it asks for what the command asks for.
func TestReplayFromASourceAsTheFormSays(t *testing.T) {
	t.Parallel()
	q := new(queue)
	s := newStage(t, func(o *Options) { o.Sources = []Source{q.source()} })
	s.succeed("known") // the ledger has the scope
	q.has(shop, "o1", "one")
	q.letters[0].Consumer, q.letters[0].Message.Source, q.letters[0].Moved = "", "", false
	job := s.started(s.post("replay?"+fromQueue, nil))
	s.want(s.get("job?id="+job), http.StatusOK, `would be replayed</th><td class="n">0<`)
	source, name, _ := replay.ParseScope(shop)
	job = s.started(s.post("replay?"+fromQueue, url.Values{"consumer": {name}, "origin": {source}, "unknown": {"yes"}, "rate": {"50"}, "limit": {"3"}}))
	s.want(s.get("job?id="+job), http.StatusOK, `would be replayed</th><td class="n">1<`)
	s.want(s.post("replay?"+fromQueue, url.Values{"renewed": {"yes"}}), http.StatusBadRequest, "is in the ledger")
	s.want(s.get("replay?source=sqs%3Anever&"+inShop), http.StatusNotFound, "no source")
	s.want(s.post("replay?source=sqs%3Anever&"+inShop, nil), http.StatusNotFound, "no source")
}

// A job that reads from a source is stopped between two messages; one whose source cannot be opened says why.
func TestStopReplayFromASource(t *testing.T) {
	t.Parallel()
	q := new(queue)
	shut := Source{Name: "sqs:gone", Open: func(context.Context) (replay.Source, error) { return nil, errors.New("there is no queue gone") }}
	s := newStage(t, func(o *Options) { o.Sources = []Source{q.source(), shut} })
	s.succeed("known")
	for _, id := range []string{"o1", "o2", "o3", "o4"} {
		q.has(shop, id, id)
	}
	dry := s.started(s.post("replay?"+fromQueue, url.Values{"rate": {"0.001"}}))
	id := strings.TrimPrefix(s.post("go?id="+dry, nil).header.Get("Location"), "job?id=")
	s.want(s.post("stop?id="+id, nil), http.StatusSeeOther)
	s.ended(s.ui.jobs.named(id))
	s.want(s.get("job?id="+id), http.StatusOK, "stopped")
	if len(q.left()) < 3 {
		t.Errorf("%q are left", q.left())
	}
	job := s.started(s.post("replay?source=sqs%3Agone", nil))
	s.want(s.get("job?id="+job), http.StatusOK, "failed", "there is no queue gone")
}

// Who may replay one scope replays that alone from a source, and says nothing of letters that could be of another one; who may not does
// not learn which sources there are.
func TestSourcesAreForThoseWhoMayReplay(t *testing.T) {
	t.Parallel()
	q := new(queue)
	q.has(shop, "o1", "one")
	q.has("sqs:arn:aws:sqs:eu-central-1:000000000000:theirs/other", "o2", "two")
	s := newStage(t, func(o *Options) {
		o.Sources = []Source{q.source()}
		o.Authorize = func(r *http.Request, a Action, scope string) error {
			if a == Read || scope == shop && r.Header.Get("Viewer") == "" {
				return nil
			}
			return errNot
		}
	})
	s.succeed("known")
	s.want(s.get("dead?"+inShop), http.StatusOK, dlq)
	s.lacks(s.get("dead"), dlq)
	only := func(r *http.Request) { r.Header.Set("Viewer", "yes") }
	s.lacks(s.do(http.MethodGet, "dead?"+inShop, nil, only), dlq)
	for _, path := range []string{"replay?" + fromQueue, "replay?source=sqs%3Anever&" + inShop} {
		s.want(s.do(http.MethodGet, path, nil, only), http.StatusForbidden, "not yours")
		s.want(s.do(http.MethodPost, path, url.Values{}, only), http.StatusForbidden, "not yours")
	}
	s.want(s.post("replay?source="+url.QueryEscape(dlq), nil), http.StatusForbidden, "not yours")
	for _, form := range []url.Values{{"consumer": {"billing"}}, {"origin": {"arn:aws:sqs:eu-central-1:000000000000:orders"}}} {
		s.want(s.post("replay?"+fromQueue, form), http.StatusForbidden, "not yours")
	}
	dry := s.started(s.post("replay?"+fromQueue, nil))
	s.want(s.do(http.MethodPost, "go?id="+dry, url.Values{}, only), http.StatusForbidden, "not yours")
	s.started(s.post("go?id="+dry, nil))
	if got := s.sent.all(); !slices.Equal(got, []string{"one"}) || !slices.Equal(q.left(), []string{"o2"}) {
		t.Errorf("sent %q, left %q", got, q.left())
	}
}

func TestSourcesThatCannotBe(t *testing.T) {
	t.Parallel()
	q := new(queue)
	for name, list := range map[string][]Source{
		"Options.Sources[0].Name": {{Open: q.open}}, "Options.Sources[1].Name": {q.source(), q.source()},
		"1 to 300 bytes": {{Name: strings.Repeat("q", MaxSourceName+1), Open: q.open}}, "UTF-8": {{Name: "\xff", Open: q.open}},
		"Options.Sources[0].Open": {{Name: dlq}},
	} {
		o := everything(new(sink))
		o.Sources = list
		if _, err := Handler(memory.New(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := everything(new(sink))
	o.Sources, o.Target = []Source{q.source()}, nil
	if _, err := Handler(memory.New(), o); err == nil || !strings.Contains(err.Error(), "Options.Target") {
		t.Errorf("sources without a target: %v", err)
	}
}

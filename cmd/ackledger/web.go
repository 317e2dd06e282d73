package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/web"
)

type webPages struct {
	send           replaying // how dead letters are sent, and by whom
	doctor         doctor
	listen         string
	hosts, sources []string
	write, noLogin bool
}

func newWeb(t *target) *cobra.Command {
	w := new(webPages)
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve pages to see how workers and their ledger do, and to act on it",
		Long: `Serve pages to see how workers and their ledger do, and to act on it: what the other commands say and do, in a browser.

  ackledger web --listen 127.0.0.1:8080

Without --write nothing can be changed. There is no login: whoever reaches the address may see everything, and with --write
do everything, as --actor. So it listens on this machine alone, unless --no-login says otherwise; everybody with a login on
this machine reaches it. To have it behind a login of yours, mount package web in a program of yours. It answers to the
names localhost, 127.0.0.1, [::1] and that of --listen; --host adds others, such as that of a proxy.

--source names a broker's own dead-letter queue or topic to replay from, such as sqs:orders-dlq.

It takes two connections to a Postgres ledger. Ctrl-C ends it, and stops what was begun on its pages between two messages.`,
		Args: cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			if err := w.check(); err != nil {
				return err
			}
			t.conns = 1 // beside the one for statistics
			return t.operate(cmd, func(ctx context.Context, l opened) error {
				return w.run(ctx, t, l, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		}),
	}
	w.send.cloud.flags(cmd)
	w.send.brokers.flags(cmd, &w.send.cloud)
	flags := cmd.Flags()
	flags.StringVar(&w.listen, "listen", "127.0.0.1:8080", "the address to listen on, host:port; port 0 takes a free one")
	flags.StringArrayVar(&w.hosts, "host", nil, "another name by which browsers reach it (repeatable)")
	flags.BoolVar(&w.noLogin, "no-login", false, "listen on an address that others reach, although there is no login")
	flags.BoolVar(&w.write, "write", false, "let what is shown be acted on")
	flags.StringVar(&w.send.actor, "actor", login(), "who acts and looks at bodies, for the audit")
	flags.BoolVar(&w.send.anyGroup, "any-group", false, "Kafka: replay although other groups read the topic")
	flags.StringVar(&w.send.stampKeysIn, "stamp-keys-file", "", "a file with the keys of the workers' Options.Stamps, id:secret (default: "+stampKeysVariable+" in the environment)")
	flags.StringArrayVar(&w.sources, "source", nil, "sqs:QUEUE (its URL, ARN or name) or kafka:TOPIC, from which dead letters can be replayed beside the ledger's (repeatable)")
	w.send.visibilityFlag(cmd)
	flags.StringArrayVar(&w.doctor.queues, "queue", nil, "for the doctor: an SQS queue that workers consume (repeatable)")
	flags.StringArrayVar(&w.doctor.topics, "topic", nil, "for the doctor: a Kafka topic that workers consume (repeatable)")
	flags.IntVar(&w.doctor.attempts, "attempts", consumer.DefaultAttempts, "for the doctor: the workers' Options.Attempts")
	return cmd
}

func (w *webPages) check() error {
	host, _, err := net.SplitHostPort(w.listen)
	if err != nil {
		return usage("--listen must be host:port, is %q", w.listen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && !w.noLogin {
		return usage("--listen %s is reached by others, and there is no login: name 127.0.0.1, or add --no-login", w.listen)
	}
	if w.doctor.attempts < 1 {
		return usage("--attempts must be 1 or more, is %d", w.doctor.attempts)
	}
	for i, name := range w.sources {
		switch {
		case !isBrokerSource(name) || len(name) > web.MaxSourceName:
			return usage("--source must be sqs:QUEUE or kafka:TOPIC, at most %d bytes, is %.400q", web.MaxSourceName, name)
		case slices.Contains(w.sources[:i], name):
			return usage("--source %s is there twice", name)
		}
	}
	_, err = w.send.who()
	return err
}

// run serves until ctx is done.
func (w *webPages) run(ctx context.Context, t *target, l opened, out, messages io.Writer) error {
	keys, err := w.send.stampKeys()
	if err != nil {
		return err
	}
	pages, err := web.Handler(l, web.Options{
		Write: w.write, Authorize: func(*http.Request, web.Action, string) error { return nil },
		Actor:  func(*http.Request) string { return w.send.actor },
		Target: w.target, Sources: w.deadLetters(), StampKeys: keys, Logger: logger(messages),
		Doctor: func(ctx context.Context) ([]web.Finding, error) { return w.examine(ctx, t, l), nil },
	})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", w.listen)
	if err != nil {
		return errors.Join(err, pages.Close())
	}
	server := &http.Server{Handler: w.known(pages), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(out, "serving http://%s/ (%s); Ctrl-C ends it\n", listener.Addr(), map[bool]string{true: "with acts", false: "to read"}[w.write])
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	closed := pages.Close() // live pages end with it
	if late := server.Shutdown(patience); late != nil {
		closed = errors.Join(closed, server.Close())
	}
	return errors.Join(err, closed)
}

// known refuses requests by a name that is not this server's: a page of another site whose name was made to point here would
// be of one origin with it, and do what its viewer may do.
func (w *webPages) known(next http.Handler) http.Handler {
	host, _, _ := net.SplitHostPort(w.listen)
	names := append([]string{"localhost", "127.0.0.1", "::1", host}, w.hosts...)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = strings.Trim(r.Host, "[]")
		}
		if !slices.ContainsFunc(names, func(n string) bool { return n != "" && strings.EqualFold(n, name) }) {
			http.Error(rw, "this server does not go by that name: see --host", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// deadLetters are the sources of --source. Each run makes its own, as the command replay does.
func (w *webPages) deadLetters() (all []web.Source) {
	for _, name := range w.sources {
		all = append(all, web.Source{Name: name, Open: func(ctx context.Context) (replay.Source, error) {
			r := w.send // a run of its own
			return r.brokerSource(ctx, name)
		}})
	}
	return all
}

// target makes what one replay sends to.
func (w *webPages) target(ctx context.Context, scope string) (replay.Target, error) {
	r := w.send // a run of its own
	r.cfg.Filter.Scope = scope
	dst, err := r.home(ctx)
	if err != nil {
		r.end()
		return nil, err
	}
	return &ended{dst, r.end}, nil
}

// ended is a target that gives back what it was made with.
type ended struct {
	replay.Target
	end func()
}

// End ends the target, and then what it stands on.
func (e *ended) End(ctx context.Context) error {
	defer e.end()
	return e.Target.End(ctx)
}

// Warnings are the target's.
func (e *ended) Warnings() []string {
	if w, ok := e.Target.(replay.Warner); ok {
		return w.Warnings()
	}
	return nil
}

// examine is the doctor's visit.
func (w *webPages) examine(ctx context.Context, t *target, l opened) (out []web.Finding) {
	d := w.doctor
	d.cloud, d.brokers = w.send.cloud, w.send.brokers
	var f findings
	visit(ctx, l, t, &f)
	behind := d.visitTarget(ctx, &f)
	d.visitQueues(ctx, l, behind, &f)
	d.visitTopics(ctx, l, behind, &f)
	for _, x := range f {
		finding := web.Finding{Grade: string(x.Grade), Check: x.Check, Text: x.Text, Remedy: x.Remedy}
		if x.Grade == good {
			finding.Remedy = ""
		}
		out = append(out, finding)
	}
	slices.SortStableFunc(out, func(a, b web.Finding) int { return cmp.Compare(grades[a.Grade], grades[b.Grade]) })
	return out
}

// grades are sorted the worst first.
var grades = map[string]int{string(problem): 1, string(warning): 2, string(unknown): 3, string(note): 4, string(good): 5}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

type showOne struct {
	brokers
	scope      string
	steps      []string
	body, json bool
	bare       bool // the body that failed, and nothing else
}

func newShow(t *target) *cobra.Command {
	s := new(showOne)
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show everything that the ledger knows of one message",
		Long: `Show everything that the ledger knows of one message: its state, attempts and errors, its result's size, its
recorded steps (consumer.Step), its archived deliveries, what is kept of earlier rows of its key (answers of an
idempotency.Runner, for Options.Audit), what operators did to it. ID is an SQS MessageId, Kafka's
topic-partition-offset, or what your KeyFunc made; several scopes may have seen one id, and all are shown.

Of Kafka's messages that succeeded in one go with their neighbours, the answer says between which offsets and times these
were finished. Rows of workers with kafka.AuditRows are found by their position in the log, which takes --brokers.

--step NAME prints the child key that consumer.ChildKey makes for the step, as it is passed on to other services. Bodies
and results are printed with --body only. --body-only prints the bytes of the body that failed and nothing else, so that an editor can
mend them for "replay --body-file".`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("show takes one ID, the whole id of a message, has %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.operating(func(ctx context.Context, op ledger.Operator, out, _ io.Writer) error {
				return s.run(ctx, op, args[0], out)
			})(cmd, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.scope, "scope", "", "the scope, or the part of its name that no other has")
	flags.StringArrayVar(&s.steps, "step", nil, "print the child key of this step (repeatable)")
	flags.BoolVar(&s.body, "body", false, "print bodies, headers and the result")
	flags.BoolVar(&s.bare, "body-only", false, "print the bytes of the body that failed, and nothing else")
	flags.BoolVar(&s.json, "json", false, "a line of JSON for each scope")
	for _, other := range []string{"body", "json", "step"} {
		cmd.MarkFlagsMutuallyExclusive("body-only", other)
	}
	s.flags(cmd, nil)
	return cmd
}

// shown is all about one message, for programs.
type shown struct {
	message
	Child    map[string]string `json:"child_keys,omitempty"`
	Result   []byte            `json:"result,omitempty"` // asked for
	Steps    []recordedStep    `json:"steps,omitempty"`
	Parked   *parkedCopy       `json:"parked,omitempty"`
	Past     []pastLife        `json:"past,omitempty"`
	Archived []deadLetter      `json:"archived"`
	Audit    []audited         `json:"audit"`
}

// parkedCopy is what the ledger has of a retry that waits in it.
type parkedCopy struct {
	Delivery string          `json:"delivery"`
	Source   string          `json:"source"`
	At       *time.Time      `json:"at,omitempty"`
	Bytes    int             `json:"bytes"`
	Content  *deadLetterBody `json:"content,omitempty"` // asked for
}

// recordedStep is what consumer.Step has recorded.
type recordedStep struct {
	Name   string     `json:"name"`
	At     *time.Time `json:"at,omitempty"`
	Bytes  int        `json:"bytes"` // of its result, or of the text of its failure
	Failed bool       `json:"failed,omitempty"`
}

// audited is one thing that an operator did.
type audited struct {
	At     *time.Time `json:"at,omitempty"`
	Actor  string     `json:"actor"`
	Role   string     `json:"role,omitempty"`
	Reason string     `json:"reason,omitempty"`
	Action string     `json:"action"`
	State  string     `json:"state"` // before
	Token  uint64     `json:"token"` // before
	Detail string     `json:"detail,omitempty"`
}

func (s *showOne) run(ctx context.Context, op ledger.Operator, id string, out io.Writer) error {
	looks := ctx
	if !s.body && !s.bare {
		looks = ledger.WithoutBodies(ctx)
	}
	found, err := s.find(looks, op, id)
	if err != nil {
		return err
	}
	if s.bare {
		return printFailed(out, found)
	}
	for i := range found {
		one, err := s.gather(ctx, op, &found[i])
		if err != nil {
			return err
		}
		if s.json {
			err = printJSON(out, one)
		} else {
			err = s.print(out, &found[i], one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printFailed prints the bytes of the body that a mended one would take the place of.
func printFailed(out io.Writer, found []ledger.Record) error {
	if len(found) > 1 {
		return usage("--body-only: several scopes have seen %s: name one with --scope", text(string(found[0].ID)))
	}
	failed, err := operate.FailedBody(&found[0])
	if err == nil {
		_, err = out.Write(failed.Body)
	}
	return err
}

// find looks the message up by its id, and by its position where brokers are named.
func (s *showOne) find(ctx context.Context, op ledger.Operator, id string) ([]ledger.Record, error) {
	if id == "" || len(id) > ledger.MaxID {
		return nil, usage("ID must be 1 to %d bytes, is %d bytes", ledger.MaxID, len(id))
	}
	scope, err := scopeNamed(ctx, op, s.scope)
	if err != nil {
		return nil, err
	}
	found, err := op.Find(ctx, scope, []byte(id))
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	at, isRecord := positionOf(id)
	if isRecord && s.named() {
		placed, err := s.byPosition(ctx, op, scope, id, at)
		if err != nil {
			return nil, err
		}
		for _, r := range placed {
			if !slices.ContainsFunc(found, func(o ledger.Record) bool { return o.Key == r.Key }) {
				found = append(found, r)
			}
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case isRecord && !s.named():
		return nil, fmt.Errorf("the ledger knows nothing of %s by its id; name --brokers to look for its position in the log", text(id))
	}
	return nil, fmt.Errorf("the ledger knows nothing of %s; an id is given whole (an HTTP key as CALLER/KEY, /KEY without a caller), and `ackledger list` names many", text(id))
}

// gather adds what stands in other tables, and what can be worked out.
func (s *showOne) gather(ctx context.Context, op ledger.Operator, r *ledger.Record) (shown, error) {
	one := shown{message: newRecord(r), Past: newPast(r.Past), Archived: []deadLetter{}, Audit: []audited{}}
	for i := range r.Archived {
		d := newArchived(&r.Archived[i])
		if s.body {
			d.Content = newContent(&r.Archived[i].Archive)
		}
		one.Archived = append(one.Archived, d)
	}
	if s.body {
		one.Result = r.Result
	}
	if k := r.Parked; k != nil {
		one.Parked = &parkedCopy{Delivery: text(string(k.Delivery)), Source: text(k.Source), At: stamp(k.At), Bytes: max(k.BodyBytes, len(k.Body))}
		if s.body {
			one.Parked.Content = newContent(&k.Archive)
		}
	}
	for _, step := range r.Steps {
		one.Steps = append(one.Steps, recordedStep{Name: text(step.Name), At: stamp(step.At), Bytes: step.Size, Failed: step.Failed})
	}
	for _, step := range s.steps {
		if one.Child == nil {
			one.Child = map[string]string{}
		}
		one.Child[step] = consumer.DeriveChildKey(r.Key, step, r.Generation)
	}
	key := r.MessageKey()
	if r.State == ledger.Pending {
		status, err := op.Status(ctx, []ledger.Key{key})
		if err != nil {
			return one, err
		}
		if status[0].State == ledger.Pending {
			one.Holder, one.Free = holderText(&status[0]), new(status[0].Free())
		}
	}
	for a, err := range op.Audits(ctx, ledger.AuditFilter{Key: &key}) {
		if err != nil {
			return one, err
		}
		one.Audit = append(one.Audit, audited{At: stamp(a.At), Actor: a.By.Actor, Role: a.Role, Reason: a.By.Reason,
			Action: string(a.Action), State: stateText(a.State), Token: a.Token, Detail: a.Detail})
	}
	return one, nil
}

// print writes it for people.
func (s *showOne) print(out io.Writer, r *ledger.Record, one shown) error {
	p := &page{out: out}
	p.line("id", "%s", text(string(r.ID)))
	p.line("scope", "%s", text(r.Scope))
	p.line("state", "%s", describe(&one))
	switch {
	case r.In == nil:
	case r.In.Until.IsZero():
		p.line("held with", "offsets %d to %d of its partition, claimed %s", r.In.From, r.In.To-1, instant(r.In.Since))
	default:
		p.line("held with", "offsets %d to %d of its partition, finished between %s and %s", r.In.From, r.In.To-1,
			instant(r.In.Since), instant(r.In.Until))
	}
	if r.State != 0 && r.In == nil {
		p.line("token", "%d, generation %d (its child keys were renewed so often)", r.Token, r.Generation)
		p.line("retries", "%d, crashes %d", r.Attempts, r.Crashes)
		p.line("first claim", "%s, expires %s", instant(r.At), instant(r.Expiry))
		p.line("fingerprint", "%s", one.Fingerprint)
	}
	if !r.Due.IsZero() && r.State == ledger.Pending {
		p.line("due", "%s", instant(r.Due))
	}
	if k := r.Parked; k != nil {
		p.line("parked", "%s  %s, from %s%s", instant(k.At), size(int64(max(k.BodyBytes, len(k.Body)))), text(k.Source),
			map[bool]string{true: ", sealed by the workers' cipher"}[k.Sealed()])
		if k.Lane != nil {
			p.line("lane", "%s, place %d%s", laneText(k), k.Lane.Place, map[bool]string{true: ", behind others"}[k.Behind()])
		}
		if s.body {
			p.content(k.Body)
		}
	}
	if r.Result != nil {
		p.line("result", "%s", size(int64(len(r.Result))))
		if s.body {
			p.content(r.Result)
		}
	}
	for _, step := range r.Steps {
		p.line("step", "%s  %s, %s%s", instant(step.At), text(step.Name), size(int64(step.Size)), map[bool]string{true: ", failed for good"}[step.Failed])
	}
	for _, step := range s.steps {
		p.line("child key", "%s  %s", one.Child[step], text(step))
	}
	p.errors("  ", r.Errors)
	for i := range r.Archived {
		s.printArchived(p, &r.Archived[i])
	}
	printPast(p, r.Past)
	for _, a := range one.Audit {
		p.line("audit", "%s  %s by %s%s: was %s, token %d%s%s", instant(*a.At), a.Action, text(a.Actor), in(" as ", a.Role),
			a.State, a.Token, in("; ", a.Detail), in("; ", a.Reason))
	}
	fmt.Fprintln(p.out)
	return p.err
}

func (s *showOne) printArchived(p *page, a *ledger.ArchiveRecord) {
	p.line("dead letter", "%s  %s after %d attempts, token %d", instant(a.At), text(string(a.Kind)), a.Attempts, a.Token)
	p.line("  delivery", "%s", text(string(a.Delivery)))
	p.line("  from", "%s%s%s", text(a.Source), in(", group or key ", a.Group), in(", sent ", instant(a.SentAt)))
	forwarded := "it was sent to no dead-letter target"
	switch {
	case a.Sent:
		forwarded = "sent to the dead-letter target, too"
	case a.Kind == ledger.KindMismatch: // it is archived first
		forwarded = "sent to the dead-letter target once it was archived, if the worker has one"
	}
	p.line("  kept", "until %s; %s", instant(a.Expiry), forwarded)
	if !a.Replayed.IsZero() {
		p.line("  replayed", "%s", instant(a.Replayed))
	}
	if !a.Purged.IsZero() {
		p.line("  purged", "%s", instant(a.Purged))
		return
	}
	p.line("  size", "%s%s", size(int64(a.Size())), map[bool]string{true: ", sealed by the workers' cipher"}[a.Sealed()])
	if left, ok := a.LeftOut(); ok && left.Offsets != "" {
		p.line("  left out", "%s: offsets %s", text(left.Where), text(left.Offsets))
	} else if ok {
		p.line("  left out", "too large for the archive: %s, %d bytes, SHA-256 %s%s", text(left.Where), left.Bytes, text(left.SHA256),
			map[bool]string{true: fmt.Sprintf(", %d headers", left.Headers)}[left.Headers > 0])
	}
	p.errors("    ", a.Errors)
	if !s.body {
		return
	}
	for _, h := range a.Headers {
		p.line("  header", "%s: %s", text(h.Name), text(string(h.Value)))
	}
	p.content(a.Body)
}

// describe says in words how a message is.
func describe(one *shown) string {
	switch {
	case one.State == "gone" && len(one.Archived) == 0:
		return "its row is gone, what it ended with is kept"
	case one.State == "gone":
		return "its row is gone, its archive is left"
	case one.Parked != nil && one.Owner == "":
		return "pending, parked: the ledger has it whole"
	case one.Free != nil && *one.Free:
		return "pending, waiting for nothing but a copy of it"
	case one.Free != nil && one.Owner != "":
		return fmt.Sprintf("pending, owner %s (%s)", text(one.Owner), one.Holder)
	case one.Free != nil:
		return "pending, owner: " + one.Holder
	}
	return one.State
}

// in is a name in the middle of a line, with what goes before it; nothing if there is none.
func in(before, name string) string {
	if name == "" {
		return ""
	}
	return before + text(name)
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// page writes lines until one fails.
type page struct {
	out io.Writer
	err error
}

func (p *page) line(name, format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, "%-12s  %s\n", name, fmt.Sprintf(format, args...))
	}
}

func (p *page) errors(indent string, list []ledger.AttemptError) {
	for _, e := range list {
		p.line(indent+"attempt", "%d  %s  %s: %s", e.Attempt, instant(e.At), e.Kind, text(e.Error))
	}
}

// content prints bytes that were asked for: text as it stands, line by line; anything else in hexadecimal digits.
func (p *page) content(b []byte) {
	switch {
	case p.err != nil:
	case b == nil:
		p.line("  body", "none (null)")
	case utf8.Valid(b) && !bytes.ContainsFunc(b, unprintable):
		if _, p.err = p.out.Write(b); p.err == nil {
			_, p.err = fmt.Fprintln(p.out)
		}
	default: // bit by bit: as text it is five times as long
		w := bufio.NewWriter(p.out)
		dump := hex.Dumper(w)
		_, err := dump.Write(b)
		p.err = errors.Join(err, dump.Close(), w.Flush())
	}
}

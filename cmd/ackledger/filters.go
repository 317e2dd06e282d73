package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

// filters are the flags that select messages and dead letters.
type filters struct {
	scope, error, group string
	header              headerFlag
	kinds, ids          []string
	offsets             offsetsFlag
	since, until        moment
	count               int
}

// messageFlags are of all that has a state; what the times are of, each command says.
func (f *filters) messageFlags(cmd *cobra.Command, times string) {
	flags := cmd.Flags()
	flags.Var((*given)(&f.scope), "scope", "a scope (consumer and source), or the part of its name that no other has")
	flags.Var((*given)(&f.error), "error", "part of the text of an attempt's error")
	flags.StringArrayVar(&f.ids, "id", nil, "a message's id (repeatable)")
	flags.Var(&f.offsets, "offsets", "Kafka: PARTITION:FIRST-LAST, both included")
	flags.Var(&f.since, "since", times+" at or after: 2026-11-20T15:04:05Z, 2026-11-20, or an age such as 90m or 2d")
	flags.Var(&f.until, "until", times+" before: like --since")
}

// deadLetterFlags are of what only dead letters have.
func (f *filters) deadLetterFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.kinds, "kind", nil, "a kind of failure (repeatable): "+strings.Join(kindNames(), ", "))
	flags.Var(&f.header, "header", "NAME=VALUE: has such a header, whole")
	flags.Var((*given)(&f.group), "key", "the FIFO group or the Kafka key, whole")
}

var kinds = operate.Kinds

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return names
}

// filter makes a filter of the flags and asks the ledger which scope is meant.
func (f *filters) filter(ctx context.Context, op ledger.Operator) (ledger.Filter, error) {
	out := ledger.Filter{
		Error: f.error, Group: f.group, HeaderName: f.header.name, HeaderValue: f.header.value, From: time.Time(f.since),
		To: time.Time(f.until), Offsets: f.offsets.r, Limit: f.count,
	}
	for _, k := range f.kinds {
		kind := ledger.FailureKind(k)
		if !slices.Contains(kinds, kind) {
			return out, usage("--kind must be one of %s, is %q", strings.Join(kindNames(), ", "), k)
		}
		out.Kinds = append(out.Kinds, kind)
	}
	for _, id := range f.ids {
		out.IDs = append(out.IDs, []byte(id))
	}
	if err := out.Check(); err != nil {
		return out, filterError(err)
	}
	var err error
	out.Scope, err = scopeNamed(ctx, op, f.scope)
	return out, err
}

// selects says whether any flag selects some and not all.
func (f *filters) selects() bool {
	return f.scope != "" || f.error != "" || f.group != "" || f.header.name != "" || len(f.kinds) > 0 || len(f.ids) > 0 ||
		f.offsets.r != nil || !time.Time(f.since).IsZero() || !time.Time(f.until).IsZero() || f.count > 0
}

// unmet is the error of a command whose --id names nothing that it could work on.
func (f *filters) unmet(what string) error {
	return fmt.Errorf("there is no %s with the id %s that the other flags select; nothing was changed", what, someOf(f.ids))
}

// filterError says what is wrong with a filter in the words of the command line.
func filterError(err error) error {
	bad, ok := errors.AsType[*ledger.InvalidError](err)
	if !ok {
		return err
	}
	if bad.Field == "ReopenRequest.Filter.Offsets" && bad.Value == "unset" {
		return usage("--offsets or --id is missing: messages that are held in ranges are found by these alone")
	}
	flag := map[string]string{
		"Filter.IDs": "--id", "Filter.Offsets": "--offsets", "Filter.To": "--until", "Filter.Limit": "--count",
		"Filter.HeaderName": "--header", "Filter.State": "--state", "By.Actor": "--actor", "By.Reason": "--reason",
		"Filter.Error": "--error", "Filter.From": "--since", "FreshKeys": "--fresh-keys",
	}[strings.TrimPrefix(bad.Field, "ReopenRequest.")]
	if flag == "" {
		return usage("%w", err)
	}
	return usage("%s must be %s, is %s", flag, strings.ReplaceAll(bad.Bound, "Filter.From", "--since"), bad.Value)
}

// scopeNamed finds the scope that is called so, or whose name alone has this part; "" stays "".
func scopeNamed(ctx context.Context, op ledger.Operator, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	all, err := op.Scopes(ctx)
	switch {
	case err != nil:
		return name, err
	case len(all) == 0:
		return "", fmt.Errorf("there is no scope %q: the ledger has seen no message yet", name)
	}
	return scopeAmong(all, name)
}

// scopeAmong is scopeNamed for names that are known.
func scopeAmong(all []string, name string) (string, error) {
	if name == "" || slices.Contains(all, name) {
		return name, nil
	}
	slices.Sort(all)
	all = slices.Compact(all)
	like := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.Contains(s, name) })
	switch {
	case len(like) == 1:
		return like[0], nil
	case len(like) > 1:
		return "", fmt.Errorf("--scope %q may be any of %s", name, someOf(like))
	case len(all) == 0:
		return "", fmt.Errorf("there is none, nor %q", name)
	}
	return "", fmt.Errorf("there is no scope %q; there is %s", name, someOf(all))
}

// someOf lists names for one line.
func someOf(names []string) string {
	const most = 5
	shown := make([]string, 0, most)
	for _, n := range names[:min(len(names), most)] {
		shown = append(shown, text(n))
	}
	list := strings.Join(shown, ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// given is a text that is not empty. Empty it would be as if the flag were not there, and select all: a script's variable
// that is not set.
type given string

// Set refuses the empty text.
func (g *given) Set(s string) error {
	if s == "" {
		return errors.New("must not be empty")
	}
	*g = given(s)
	return nil
}

func (g *given) String() string { return string(*g) }

// Type is what the help calls the flag's value.
func (g *given) Type() string { return "string" }

// moment is a point in time, as a flag.
type moment time.Time

// Set reads a time, which is UTC unless it says otherwise, or an age, which ends now.
func (m *moment) Set(s string) error {
	t, err := operate.Moment(s, time.Now())
	if err == nil {
		*m = moment(t)
	}
	return err
}

func (m *moment) String() string {
	if time.Time(*m).IsZero() {
		return ""
	}
	return time.Time(*m).UTC().Format(time.RFC3339)
}

// Type is what the help calls the flag's value.
func (m *moment) Type() string { return "time" }

// headerFlag is NAME=VALUE.
type headerFlag struct{ name, value string }

// Set reads NAME=VALUE; the value may be empty and may hold more of "=".
func (h *headerFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("must be NAME=VALUE")
	}
	h.name, h.value = name, value
	return nil
}

func (h *headerFlag) String() string {
	if h.name == "" {
		return ""
	}
	return h.name + "=" + h.value
}

// Type is what the help calls the flag's value.
func (h *headerFlag) Type() string { return "header" }

// offsetsFlag is a part of one Kafka partition.
type offsetsFlag struct{ r *ledger.OffsetRange }

// Set reads PARTITION:FIRST-LAST, or PARTITION:OFFSET.
func (o *offsetsFlag) Set(s string) (err error) {
	o.r, err = operate.Offsets(s)
	return err
}

func (o *offsetsFlag) String() string {
	if o.r == nil {
		return ""
	}
	return fmt.Sprintf("%d:%d-%d", o.r.Partition, o.r.First, o.r.Last)
}

// Type is what the help calls the flag's value.
func (o *offsetsFlag) Type() string { return "offsets" }

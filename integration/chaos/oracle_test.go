package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// Bounds that the oracle holds an arm to.
const (
	crashLimit = 5   // ledger.CrashLimit
	attempts   = 30  // of the worker's options
	heapLimit  = 256 // MiB of one process
)

// begin is one line of the journal: a handler began.
type begin struct {
	process string
	token   uint64
	attempt int
}

// done is an effect.
type done struct {
	id, body, group, process string
	token                    uint64
}

// filed is an archived message.
type filed struct {
	id        string
	published bool
	attempts  int
	crashes   int // of its row
}

// verdict is what the oracle has read of an arm that is done, and what it finds wrong.
type verdict struct {
	sent     []string
	gone     int // so many of the first may never be done
	doubt    []string
	ordered  bool
	begins   map[string][]begin // by body
	effects  []done             // in order
	done     map[string][]done  // by body
	archived map[string][]filed // by body
	dead     map[string]int     // dead letters by body
	held     map[string]bool    // by id: the ledger has a row that says it succeeded; nil: most have none
	calls    map[string][]call  // by body, in order
	hasCalls func(body string) bool

	tally
	wrong []wrong
}

// tally is what the oracle counts.
type tally struct {
	lost, twice int // messages; nothing else is wrong of as many
	fine        int // messages whose effect is InTx
	plain       int // and of those whose effect is not
	repeated    int // of these, done more than once, as at-least-once has it
	spared      int // messages that were to succeed, and that the crash limit archived
	unsent      int // dead letters of doomed messages that are in the archive alone
	doomed      int // archived as they were to be, poison left out: past the crash limit nothing is published
	stepped     int // done after outside calls, each of which is a step
	givenBack   int // results of steps that an attempt got from the ledger
}

// wrong is what is wrong with a message, which is named by its id, or its body if it has none.
type wrong struct{ message, text string }

func (v *verdict) fail(message, text string, args ...any) {
	v.wrong = append(v.wrong, wrong{message, fmt.Sprintf(text, args...)})
}

// verify is the oracle: everything is well again, all messages are acknowledged, and the workers have drained.
func (a *arm) verify() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	v := &verdict{sent: a.bodies, gone: a.gone, doubt: a.doubt, ordered: a.ordered}
	v.hasCalls = func(body string) bool { return plan.HasCalls(a.crew.orders.Seed, []byte(body)) }
	err := v.read(ctx, a)
	if err != nil {
		a.t.Errorf("%s: %v", a.name, err)
		return
	}
	v.judge()
	a.found = v.tally
	refused, _ := a.crew.sum(plan.Refused)
	failed, _ := a.crew.sum(plan.Unsent)
	v.bounds(len(a.bodies), a.aimed, int(refused+failed), func(text string) { a.t.Errorf("%s: %s", a.name, text) })
	if len(a.doubt) > len(a.bodies)/2 {
		a.t.Errorf("%s: of %d messages of %d it is not known whether they were sent: nothing is shown", a.name, len(a.doubt), len(a.bodies))
	}
	const shown = 3
	for i, w := range v.wrong {
		a.t.Errorf("%s: message %s: %s", a.name, w.message, w.text)
		if i < shown {
			a.t.Log(a.timeline(w.message))
		}
	}
	if n, err := a.store.number(ctx, `SELECT count(*) FROM `+a.store.prefix+`message WHERE state = 1`); err != nil || n > int64(a.gone) {
		a.t.Errorf("%s: %d rows are pending at the end (%v)", a.name, n, err)
	}
	if _, most := a.crew.sum(plan.Memory); most > heapLimit<<20 {
		a.t.Errorf("%s: a process needed %d MiB of heap, the limit is %d", a.name, most>>20, heapLimit)
	}
}

func readJournal(path string) (map[string][]begin, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	begins := map[string][]begin{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		field := strings.SplitN(lines.Text(), " ", 6) // time, process, token, attempt, id, body
		if len(field) != 6 {
			return nil, fmt.Errorf("journal: %q", lines.Text())
		}
		token, tokenErr := strconv.ParseUint(field[2], 10, 64)
		attempt, attemptErr := strconv.Atoi(field[3])
		if err := errors.Join(tokenErr, attemptErr); err != nil {
			return nil, fmt.Errorf("journal: %q: %w", lines.Text(), err)
		}
		begins[field[5]] = append(begins[field[5]], begin{field[1], token, attempt})
	}
	return begins, nil
}

// read asks everybody.
func (v *verdict) read(ctx context.Context, a *arm) (err error) {
	if v.begins, err = readJournal(a.journal); err != nil {
		return err
	}
	if v.calls, err = readCalls(ctx, a.store); err != nil {
		return err
	}
	if v.dead, err = a.broker.deadLetters(ctx); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	v.archived = map[string][]filed{}
	var d done
	err = a.store.rows(ctx, `SELECT message, body, grp, process, token FROM effect ORDER BY seq`, func() {
		v.effects = append(v.effects, d)
	}, &d.id, &d.body, &d.group, &d.process, &d.token)
	if err != nil {
		return err
	}
	var f filed
	var id, body []byte
	p := a.store.prefix
	if _, ok := a.broker.(*log); !ok || a.crew.orders.Rows {
		v.held = map[string]bool{}
		if err := a.store.rows(ctx, `SELECT id FROM `+p+`message WHERE state = 2`, func() { v.held[string(id)] = true }, &id); err != nil {
			return err
		}
	}
	return a.store.rows(ctx, `SELECT a.id, a.body, a.published, a.attempts, m.crashes
		FROM `+p+`archive a JOIN `+p+`message m ON m.key = a.key`, func() {
		f.id = string(id)
		v.archived[string(body)] = append(v.archived[string(body)], f)
	}, &id, &body, &f.published, &f.attempts, &f.crashes)
}

// bounds says what there is too much of. Each message that is spared was in hand at five deaths of processes, alone at three of
// them; one of a thousand was seen. Where processes are killed only while they run something, the few that may run are hit again and
// again: one for ten of these kills was seen, and there are never more than one for three. A letter is not sent if it failed three times, or once while the target is away; a
// drain may end before a try.
func (v *verdict) bounds(sent, aimed, failed int, wrong func(string)) {
	if most := 4 + sent/500 + aimed/8; v.spared > most {
		wrong(fmt.Sprintf("the crash limit archived %d messages that were to succeed, of %d, at most %d are to be expected", v.spared, sent, most))
	}
	if most := 3 + failed; v.unsent > most {
		wrong(fmt.Sprintf("of %d dead letters %d were not sent, at most %d are to be expected", v.doomed, v.unsent, most))
	}
}

// judge finds what is wrong.
func (v *verdict) judge() {
	v.done = map[string][]done{}
	for _, d := range v.effects {
		v.done[d.body] = append(v.done[d.body], d)
	}
	v.once()
	v.fenced()
	v.called()
	if v.ordered {
		v.inOrder()
	}
	v.forwarded()
}

// once says that each message has come to its end, once.
func (v *verdict) once() {
	sent := make(map[string]bool, len(v.sent))
	for i, body := range v.sent {
		sent[body] = true
		effects, archived := v.done[body], v.archived[body]
		class := plan.Parse([]byte(body))
		switch {
		case len(effects)+len(archived) == 0 && (i < v.gone || slices.Contains(v.doubt, body)):
		case len(effects)+len(archived) == 0:
			v.lost++
			v.fail(body, "lost: neither done nor archived")
		case len(effects) > 1 && class != plan.Plain:
			v.twice++
			v.fail(effects[0].id, "%d effects: %v", len(effects), effects)
		case len(archived) > 1:
			v.fail(archived[0].id, "%d archive rows", len(archived))
		case len(effects) > 0 && len(archived) > 0 && class != plan.Plain:
			v.fail(effects[0].id, "done, and archived")
		case !class.Succeeds() && len(effects) > 0:
			v.fail(effects[0].id, "an effect of a message that cannot succeed")
		case class.Succeeds() && len(archived) > 0 && archived[0].crashes < crashLimit:
			v.fail(archived[0].id, "archived after %d attempts and %d crashes", archived[0].attempts, archived[0].crashes)
		case class.Succeeds() && len(archived) > 0:
			v.spared++
		}
		if v.held != nil && len(effects) > 0 && len(archived) == 0 && !v.held[effects[0].id] {
			v.fail(effects[0].id, "it is done, and the ledger does not say that it succeeded")
		}
		if class == plan.Fine {
			v.fine++
		}
		if class == plan.Plain {
			v.plain++
			v.repeated += min(max(len(effects)-1, 0), 1)
		}
	}
	for body, effects := range v.done {
		if !sent[body] {
			v.fail(effects[0].id, "an effect of %q, which was never sent", body)
		}
	}
}

// fenced says that no two processes had one token, that the effect is of the last one, and that attempts and crashes are
// bounded.
func (v *verdict) fenced() {
	last := map[string]uint64{}
	for body, begins := range v.begins {
		owners := map[uint64]string{}
		for _, b := range begins {
			if who, known := owners[b.token]; known && who != b.process {
				v.fail(body, "%s and %s both ran it under token %d", who, b.process, b.token)
			}
			owners[b.token] = b.process
			last[body] = max(last[body], b.token)
			if b.attempt > attempts {
				v.fail(body, "attempt %d of %d", b.attempt, attempts)
			}
		}
	}
	for _, e := range v.effects {
		v.begun(e)
		if e.token != last[e.body] && plan.Parse([]byte(e.body)) != plan.Plain {
			v.fail(e.id, "its effect is of token %d, but token %d ran", e.token, last[e.body])
		}
	}
	for body, archived := range v.archived {
		if n := len(v.begins[body]); plan.Parse([]byte(body)) == plan.Poison && n > crashLimit {
			v.fail(archived[0].id, "it killed %d processes, the limit is %d", n, crashLimit)
		}
	}
}

// begun says that a process had no more effects under a token than it began handlers with it.
func (v *verdict) begun(e done) {
	begins, effects := 0, 0
	for _, b := range v.begins[e.body] {
		if b.process == e.process && b.token == e.token {
			begins++
		}
	}
	for _, d := range v.done[e.body] {
		if d.process == e.process && d.token == e.token {
			effects++
		}
	}
	if effects > begins {
		v.fail(e.id, "%d effects of %s under token %d, with which it began %d times", effects, e.process, e.token, begins)
	}
}

// inOrder says that effects of one group (key) came in the order in which their messages were sent; of a plain message the
// first one, which may come late if the message was given up meanwhile.
func (v *verdict) inOrder() {
	before, seen := map[string]done{}, map[string]bool{}
	for _, d := range v.effects {
		if plan.Parse([]byte(d.body)) == plan.Plain && (seen[d.body] || len(v.archived[d.body]) > 0) {
			continue
		}
		seen[d.body] = true
		if b := before[d.group]; plan.Number(b.body) >= plan.Number(d.body) {
			v.fail(d.id, "done after %s (%s) of its group %s", b.id, b.body, d.group)
		}
		before[d.group] = d
	}
}

// forwarded says that each dead letter that the archive says is sent is there, and that there are no others.
func (v *verdict) forwarded() {
	for body, archived := range v.archived {
		if archived[0].published && v.dead[body] == 0 {
			v.fail(archived[0].id, "its dead letter is marked as sent, and is not there")
		}
		if class := plan.Parse([]byte(body)); class == plan.Bad || class == plan.Failing {
			v.doomed++
			if !archived[0].published {
				v.unsent++
			}
		}
	}
	for body := range v.dead {
		if len(v.archived[body]) == 0 && !plan.Parse([]byte(body)).Succeeds() {
			v.fail(body, "a dead letter of a message that is not archived")
		}
	}
}

// timeline is what is known of a message: the journal, the effects, the ledger's rows, and the lines of the workers' logs.
func (a *arm) timeline(id string) string {
	var text strings.Builder
	if at, err := os.ReadFile(a.journal); err == nil { // logs name it by its id
		for line := range strings.Lines(string(at)) {
			if before, found := strings.CutSuffix(strings.TrimSpace(line), " "+id); found {
				id = before[strings.LastIndex(before, " ")+1:]
				break
			}
		}
	}
	fmt.Fprintf(&text, "timeline of %s (%s)\n", id, a.name)
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(a.journal), "*.log")) // the pattern is well formed
	lines := map[string][]string{}
	for _, path := range append(files, a.journal) {
		content, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(&text, err)
			continue
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, id) && len(lines[path]) < 40 {
				lines[path] = append(lines[path], line[:min(len(line), 600)])
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%s:\n  %s\n", filepath.Base(path), strings.Join(lines[path], "\n  "))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var seq int64
	var process, body string
	var token int64
	err := a.store.rows(ctx, `SELECT seq, process, token, body FROM effect WHERE message = '`+id+`' OR body = '`+id+`'`, func() {
		fmt.Fprintf(&text, "effect %d by %s, token %d: %s\n", seq, process, token, body)
	}, &seq, &process, &token, &body)
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	var event, step, callID string
	err = a.store.rows(ctx, `SELECT process, token, event, step, id FROM outside_call WHERE body = '`+body+`' ORDER BY seq`, func() {
		fmt.Fprintf(&text, "outside call %s of %s, token %d: %s %s\n", step, process, token, event, callID)
	}, &process, &token, &event, &step, &callID)
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	var rowID []byte
	var state, rowToken, rowAttempts, crashes int64
	err = a.store.rows(ctx, `SELECT id, state, token, attempts, crashes FROM `+a.store.prefix+`message`, func() {
		if string(rowID) == id {
			fmt.Fprintf(&text, "ledger: state %d, token %d, attempts %d, crashes %d\n", state, rowToken, rowAttempts, crashes)
		}
	}, &rowID, &state, &rowToken, &rowAttempts, &crashes)
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	fmt.Fprintf(&text, "broker: %s\n", a.broker.left(ctx))
	return text.String()
}

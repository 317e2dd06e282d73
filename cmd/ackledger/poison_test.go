package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

const (
	hugeBody = 50 << 20
	// shownMemory bounds what the command takes where it reads a huge body, in whatever form it is shown; listedMemory what
	// it takes where it reads none: the program itself takes 28 MiB of it.
	shownMemory  = 10 * hugeBody
	listedMemory = 72 << 20
)

// poisonous are dead letters that are hard to show.
func poisonous() map[string]ledger.Archive {
	many := make([]ledger.Header, 10_000)
	for i := range many {
		many[i] = ledger.Header{Name: fmt.Sprint("header ", i), Value: []byte("value")}
	}
	hostile := "\x1b]0;owned\a\x1b[2J\r\n\xff\u202e"
	return map[string]ledger.Archive{
		"huge":  {Body: append([]byte("{"), make([]byte, hugeBody)...)},
		"raw":   {Body: make([]byte, 4<<20)},
		"deep":  {Body: []byte(strings.Repeat(`{"a":`, 100_000))},
		"many":  {Body: []byte("x"), Headers: many},
		hostile: {Body: []byte(hostile), Group: hostile, Source: hostile, Headers: []ledger.Header{{Name: hostile, Value: []byte(hostile), Type: hostile}, {}, {Name: consumer.StampName, Value: []byte("%zz")}}},
	}
}

// Operators look at poison, too: a body of 50 MB, 10,000 headers, and names that move the terminal's cursor. All is listed
// and shown in bounded memory, and nothing of it reaches the terminal as it is.
func TestPitfall70_PoisonIsShown(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		letters := poisonous()
		for id, a := range letters {
			c := s.claim(orders, id)[0]
			a.Key, a.Delivery, a.Kind, a.Keep = ledger.Key{Scope: orders, ID: []byte(id)}, []byte(id), ledger.KindTerminal, time.Hour
			a.Errors = []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindTerminal, Error: "no JSON " + id}}
			s.settle([]ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Fail, Dead: &a}})
		}
		for _, run := range []struct {
			most int64
			args []string
			want string
		}{
			{listedMemory, []string{"list"}, "huge"},
			{listedMemory, []string{"list", "--json"}, `"id":"many"`},
			{shownMemory, []string{"list", "--header", consumer.StampName + "=%zz"}, "no JSON"},
			{shownMemory, []string{"list", "--json", "--body"}, `"header 9999"`},
			{shownMemory, []string{"show", "huge"}, "50.0 MiB"},
			{listedMemory, []string{"show", "raw", "--body"}, "003ffff0  00 00"},
			{shownMemory, []string{"show", "huge", "--json", "--body"}, `"body":"ewAAAA`},
			{listedMemory, []string{"show", "many", "--body"}, "header 9999: value"},
			{listedMemory, []string{"show", "deep", "--body"}, `{"a":{"a":`},
			{listedMemory, []string{"show", "\x1b]0;owned\a\x1b[2J\r\n\xff\u202e", "--body"}, `\x1b]0;owned\a`},
		} {
			s.look(run.most, run.want, run.args...)
		}
	})
}

// look runs a command on the ledger and watches its memory and what it prints.
func (s *store) look(most int64, want string, args ...string) {
	s.Helper()
	cmd := command(s.T, append(args, "--ledger", s.name)...)
	printed := &printed{want: []byte(want)}
	var errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = printed, &errors
	largest, err := runMeasured(s.T, cmd)
	if err != nil || errors.Len() > 0 {
		s.Errorf("%.60q: %v: %s", args, err, &errors)
	}
	if !printed.found || printed.raw {
		s.Errorf("%.60q: %q is shown: %v; unprintable characters: %v", args, want, printed.found, printed.raw)
	}
	if largest > most {
		s.Errorf("%.60q: took %d MiB, want at most %d MiB", args, largest>>20, most>>20)
	}
	s.Logf("%.60q: %d MiB at most, %d MiB printed", args, largest>>20, printed.n>>20)
}

// printed looks at what is printed and keeps none of it.
type printed struct {
	want  []byte
	found bool
	raw   bool // a control character
	n     int
	last  []byte // the end of the part before
}

// Write looks at one part.
func (p *printed) Write(part []byte) (int, error) {
	p.n += len(part)
	joined := append(p.last, part...)
	p.found = p.found || bytes.Contains(joined, p.want)
	p.raw = p.raw || bytes.ContainsFunc(part, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f })
	p.last = bytes.Clone(joined[max(0, len(joined)-len(p.want)):])
	return len(part), nil
}

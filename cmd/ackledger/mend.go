package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// maxBody is the largest mended body.
const maxBody = 64 << 20

func readBody(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage("--body-file: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, usage("--body-file: %w", err)
	}
	if len(body) > maxBody {
		return nil, usage("--body-file: must be at most %s, %s is larger", size(maxBody), name)
	}
	return body, nil
}

// showMended prints the difference between the body that failed and the one that takes its place.
func (r *replaying) showMended(ctx context.Context, op ledger.Operator, out io.Writer) error {
	found, err := op.Find(ctx, r.cfg.Filter.Scope, r.cfg.Filter.IDs[0])
	if errors.Is(err, ledger.ErrNotFound) {
		return fmt.Errorf("the ledger knows nothing of %s", text(r.ids[0]))
	}
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return usage("--body-file: several scopes have seen %s: name one with --scope", text(r.ids[0]))
	}
	list := slices.DeleteFunc(slices.Clone(found[0].Archived), func(a ledger.ArchiveRecord) bool { return a.Kind == ledger.KindMismatch })
	switch {
	case len(list) == 0 || !list[len(list)-1].Purged.IsZero():
		return fmt.Errorf("%s has no archived body to compare with", text(r.ids[0]))
	case list[len(list)-1].Sealed():
		return fmt.Errorf("%s is sealed by the workers' cipher: mend it in a program that has the cipher", text(r.ids[0]))
	}
	if _, ok := list[len(list)-1].LeftOut(); ok {
		return fmt.Errorf("%s was too large to be archived with its body: it cannot be mended, produce it anew", text(r.ids[0]))
	}
	was := list[len(list)-1].Body
	_, err = fmt.Fprintf(out, "--- the body that failed, %s\n+++ %s, %s\n%s", size(int64(len(was))), text(r.body), size(int64(len(r.cfg.Body))),
		difference(was, r.cfg.Body))
	return err
}

// maxDifference bounds the lines that are compared one by one.
const maxDifference = 2000

// difference shows what changes from one body to the other, line by line; JSON is laid out first.
func difference(was, is []byte) string {
	if bytes.Equal(was, is) {
		return "(the same bytes)\n"
	}
	if !utf8.Valid(was) || !utf8.Valid(is) {
		return "(not text)\n"
	}
	a, b := linesOf(was), linesOf(is)
	if strings.Join(a, "\n") == strings.Join(b, "\n") {
		return "(only white space changes)\n"
	}
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < min(len(a), len(b))-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var out strings.Builder
	say := func(sign string, lines []string) {
		for _, l := range lines {
			fmt.Fprintf(&out, "%s%s\n", sign, safe(l))
		}
	}
	const around = 3
	say(" ", a[max(start-around, 0):start])
	merge(a[start:len(a)-end], b[start:len(b)-end], say)
	say(" ", a[len(a)-end:min(len(a)-end+around, len(a))])
	return out.String()
}

// linesOf splits a body; JSON gets a line for each member.
func linesOf(body []byte) []string {
	var laid bytes.Buffer
	if json.Indent(&laid, body, "", "  ") == nil {
		body = laid.Bytes()
	}
	return strings.Split(string(body), "\n")
}

// merge says which lines go, stay and come, by the longest common subsequence. Too many lines go and come as wholes.
func merge(a, b []string, say func(string, []string)) {
	if len(a) > maxDifference || len(b) > maxDifference {
		say("-", a)
		say("+", b)
		return
	}
	length := make([][]int16, len(a)+1)
	for i := range length {
		length[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			say(" ", a[i:i+1])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			say("-", a[i:i+1])
			i++
		default:
			say("+", b[j:j+1])
			j++
		}
	}
}

// safe is text of several lines that moves no terminal's cursor.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

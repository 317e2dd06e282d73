package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// FailedBody returns the archived delivery whose body a mended one would take the place of: the last one of the message itself. The
// error says why there is none.
func FailedBody(r *ledger.Record) (*ledger.ArchiveRecord, error) {
	list, id := r.Archived, Text(string(r.ID))
	at := len(list) - 1
	for at >= 0 && list[at].Kind == ledger.KindMismatch {
		at--
	}
	switch {
	case at < 0 || !list[at].Purged.IsZero():
		return nil, fmt.Errorf("%s has no archived body", id)
	case list[at].Sealed():
		return nil, fmt.Errorf("%s is sealed by the workers' cipher: mend it in a program that has the cipher", id)
	}
	if _, ok := list[at].LeftOut(); ok {
		return nil, fmt.Errorf("%s was too large to be archived with its body: it cannot be mended, produce it anew", id)
	}
	return &list[at], nil
}

// maxDifference bounds the lines that are compared one by one.
const maxDifference = 2000

// Difference shows what changes from one body to the other, line by line; JSON is laid out first.
func Difference(was, is []byte) string {
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
			fmt.Fprintf(&out, "%s%s\n", sign, Safe(l))
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

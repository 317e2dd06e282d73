package marks_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/internal/marks"
	"github.com/ackledger/ackledger/ledger"
)

// What is too large for the archive is archived without its body: the headers, the length and the hash stay, and it fits.
func TestExcerpt(t *testing.T) {
	const limit = 1000
	body := bytes.Repeat([]byte("b"), 2000)
	sum := sha256.Sum256(body)
	whole := ledger.Archive{Body: body, Group: "key", Headers: []ledger.Header{{Name: "a", Value: []byte("1")}, {Name: "a"}}}
	if fits := (&ledger.Archive{Body: body}); marks.Excerpt(fits, 2000) != fits {
		t.Error("what fits is left as it is")
	}
	e := marks.Excerpt(&whole, limit)
	left, ok := e.LeftOut()
	want := ledger.LeftOut{Where: "the body is in the log", Bytes: 2000, SHA256: hex.EncodeToString(sum[:])}
	if !ok || left != want || e.Body != nil || e.Size() > limit || e.Group != "key" {
		t.Errorf("%v, %+v, %d bytes", ok, left, e.Size())
	}
	if !e.UnmarkLeftOut() || !slices.EqualFunc(e.Headers, whole.Headers, func(a, b ledger.Header) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }) {
		t.Errorf("headers: %+v", e.Headers)
	}
	if _, ok := e.LeftOut(); ok || e.UnmarkLeftOut() {
		t.Error("the mark was taken away")
	}
	if _, ok := whole.LeftOut(); ok || len(whole.Body) != 2000 {
		t.Error("the original was changed")
	}
	if again := marks.Excerpt(e, limit); again != e {
		t.Error("an excerpt fits")
	}
}

// Headers and a key that are too large by themselves are counted instead of kept.
func TestExcerptOfHeadersAndKeys(t *testing.T) {
	a := ledger.Archive{Group: strings.Repeat("k", 5000), Headers: []ledger.Header{
		{Name: "large", Value: make([]byte, 900)}, {Name: "small", Value: []byte("s")}, {Name: strings.Repeat("n", 2000)},
	}}
	e := marks.Excerpt(&a, 1000)
	left, _ := e.LeftOut()
	if left.Headers != 2 || left.GroupSize != 5000 || left.Bytes != 0 || e.Group != "" || e.Size() > 1000 || e.Headers[0].Name != "small" {
		t.Errorf("%+v, %d bytes, %+v", left, e.Size(), e.Headers)
	}
}

// A key of exactly the length that an excerpt keeps is kept, and one byte more is not.
func TestExcerptKeepsKeysUpToTheirBound(t *testing.T) {
	for length, kept := range map[int]int{1 << 10: 1 << 10, 1<<10 + 1: 0} {
		a := ledger.Archive{Group: strings.Repeat("k", length), Body: make([]byte, 5000)}
		if e := marks.Excerpt(&a, 2000); len(e.Group) != kept || e.Size() > 2000 {
			t.Errorf("a key of %d bytes: %d kept, want %d", length, len(e.Group), kept)
		}
	}
}

// Headers are kept as long as they have room together: 256 bytes of the limit are the mark's.
func TestExcerptKeepsHeadersThatHaveRoom(t *testing.T) {
	header := func(bytes int) ledger.Header { return ledger.Header{Name: "n", Value: make([]byte, bytes-1)} }
	for _, c := range []struct{ second, left int }{{300, 0}, {301, 1}} {
		a := ledger.Archive{Body: make([]byte, 5000), Headers: []ledger.Header{header(444), header(c.second)}}
		e := marks.Excerpt(&a, 1000)
		if left, _ := e.LeftOut(); left.Headers != c.left || len(e.Headers) != 3-c.left || e.Size() > 1000 {
			t.Errorf("a second header of %d bytes: %d left out of %d, %d bytes", c.second, left.Headers, len(e.Headers), e.Size())
		}
	}
}

// A batch that nobody unpacked says which records it has, and that they are in the log.
func TestLeftOutBatch(t *testing.T) {
	a := ledger.Archive{Headers: []ledger.Header{marks.LeftOutBatch(7, 9)}}
	if left, ok := a.LeftOut(); !ok || left.Offsets != "7..9" || left.Where != "the batch is in the log, and was not unpacked" {
		t.Errorf("%+v, %v", left, ok)
	}
}

// The mark has room for any numbers.
func TestExcerptsMarkIsSmall(t *testing.T) {
	huge := ledger.Archive{Group: strings.Repeat("k", 1<<20), Body: make([]byte, 1<<20)}
	for range 100_000 {
		huge.Headers = append(huge.Headers, ledger.Header{Name: "0123456789"})
	}
	if e := marks.Excerpt(&huge, 256); e.Size() > 256 {
		t.Errorf("%d bytes", e.Size())
	}
}

// An excerpt that is still too large, as when it is to be sealed, says of the body what was true of the message.
func TestExcerptOfAnExcerpt(t *testing.T) {
	a := &ledger.Archive{Body: bytes.Repeat([]byte("b"), 3000)}
	for range 20 {
		a.Headers = append(a.Headers, ledger.Header{Name: "name", Value: bytes.Repeat([]byte("v"), 50)})
	}
	first := marks.Excerpt(a, 1200)
	second := marks.Excerpt(first, 600)
	was, _ := first.LeftOut()
	is, ok := second.LeftOut()
	if !ok || is.Bytes != 3000 || is.SHA256 != was.SHA256 || second.Size() > 600 {
		t.Errorf("%d bytes, %+v, want at most 600 bytes and the mark of %+v", second.Size(), is, was)
	}
	if is.Headers != 20-(len(second.Headers)-1) || is.Headers <= was.Headers {
		t.Errorf("%d headers are left out of 20, and %d are there", is.Headers, len(second.Headers)-1)
	}
	if again := marks.Excerpt(second, 300); len(again.Headers) != 1 {
		t.Errorf("%d headers, want the mark alone", len(again.Headers))
	}
}

package canonical_test

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/idempotency/canonical"
)

func TestFields(t *testing.T) {
	t.Parallel()
	text := `{"sent":"12:00", "order":{"id":7.0,"lines":[{"sku":"a"},{"sku":null}]}, "a/b":1, "m~n":2, "":3}`
	for _, c := range []struct {
		pointers []string
		want     string // "": an error
	}{
		{[]string{"/order/id"}, `{"/order/id":7}`},
		{[]string{"/order/lines/1/sku", "/order/lines/0"}, `{"/order/lines/0":{"sku":"a"},"/order/lines/1/sku":null}`},
		{[]string{"/order/lines/0", "/order/lines/1/sku"}, `{"/order/lines/0":{"sku":"a"},"/order/lines/1/sku":null}`},
		{[]string{"/a~1b", "/m~0n", "/"}, `{"/":3,"/a~1b":1,"/m~0n":2}`},
		{[]string{"/none", "/order/lines/2", "/order/lines/01", "/order/lines/-", "/sent/x", "/order/id/0"}, `{}`},
		{[]string{""}, `{"":{"":3,"a/b":1,"m~n":2,"order":{"id":7,"lines":[{"sku":"a"},{"sku":null}]},"sent":"12:00"}}`},
		{nil, ""},
		{[]string{"sent"}, ""},
		{[]string{"/m~n"}, ""},
		{[]string{"/sent", "/sent"}, ""},
		{[]string{"/\xff"}, ""},
	} {
		got, err := canonical.Fields([]byte(text), c.pointers...)
		if string(got) != c.want || (err == nil) != (c.want != "") || err != nil && !strings.HasPrefix(err.Error(), "canonical: ") {
			t.Errorf("%q: %s, %v; want %s", c.pointers, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "{", `{"order":1,"x":9007199254740993}`} { // of the whole text
		if got, err := canonical.Fields([]byte(bad), "/order"); err == nil {
			t.Errorf("%s becomes %s", bad, got)
		}
	}
}

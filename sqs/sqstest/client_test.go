package sqstest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// closedSoon is a request body as smithy-go makes it, once that has closed it: Read and WriteTo answer io.EOF.
type closedSoon struct{ *bytes.Reader }

func (closedSoon) Close() error                     { return nil }
func (closedSoon) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }

func TestHTTPClientLosesNoAnswer(t *testing.T) {
	t.Parallel()
	answer := bytes.Repeat([]byte("x"), 8<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "body" {
			t.Errorf("body %q, %v", body, err)
		}
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	client := HTTPClient()
	defer client.CloseIdleConnections()
	for range 5 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, closedSoon{bytes.NewReader([]byte("body"))})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 4
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if closing := resp.Body.Close(); err != nil || closing != nil || len(got) != len(answer) {
			t.Errorf("%d bytes of %d, %v", len(got), len(answer), err)
		}
	}
}

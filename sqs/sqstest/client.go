package sqstest

import (
	"bytes"
	"io"
	"net/http"
)

// HTTPClient returns an HTTP client for SDK clients in tests, such as those that [Server.Client] makes. It loses no answer
// on a busy machine, which the SDK's own does now and then where the network costs no time: smithy-go 1.28.8 closes a
// request's body as soon as it has the answer's head, while net/http may still ask the body whether there is more of it
// (transferWriter.writeBody). The closed body's WriteTo answers io.EOF, which is no error for Read but is one for WriteTo
// (smithy-go, transport/http/internal/io/safe.go), and net/http closes the connection, with the rest of the answer. Of a
// receive, up to ten messages are then in flight for nobody. Here net/http gets bodies that lie in memory.
func HTTPClient() *http.Client {
	return &http.Client{Transport: wholeBodies{&http.Transport{
		MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: unused / 2, // the client closes first
	}}}
}

// wholeBodies is a transport that sends request bodies from memory.
type wholeBodies struct{ *http.Transport }

func (t wholeBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return t.Transport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if closing := r.Body.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	whole := *r
	whole.Body = io.NopCloser(bytes.NewReader(body))
	return t.Transport.RoundTrip(&whole)
}

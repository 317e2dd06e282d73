package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A broker whose certificate nobody here trusts will not be trusted later: Run ends, and says so. With the authority
// that signed it, the same worker works.
func TestPitfall63_UnknownAuthority(t *testing.T) {
	t.Parallel()
	pair, roots := certificate(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	trusting := kgo.DialTLSConfig(&tls.Config{RootCAs: roots})
	s := newSite(t, c.ListenAddrs(), "orders", trusting)
	err = s.worker(nothing, nil, kgo.DialTLSConfig(&tls.Config{RootCAs: x509.NewCertPool()})).Run(t.Context())
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Run: %v", err)
	}
	s.send(0, "v")
	b := newBook()
	r := s.start(b.handle, nil, trusting)
	s.caughtUp()
	r.end()
}

// certificate is that of the standard library's test server, for 127.0.0.1, and who trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.TLS.Certificates[0], roots
}

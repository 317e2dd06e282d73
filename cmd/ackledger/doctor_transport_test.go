package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// far is a connection to another machine.
type far struct{ net.Conn }

func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432} }

// near is one by a socket of this machine.
type near struct{ net.Conn }

func (near) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "/run/server", Net: "unix"} }

// The handshake says whose the server is. With sslmode=allow the settings say nothing of TLS, and the doctor called a server
// verified that nobody had looked at.
func TestDoctorOfTheLedgersConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	dial := func(c *tls.Config) net.Conn {
		conn, err := tls.Dial("tcp", address, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	plain, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	for _, c := range []struct {
		name      string
		socket    net.Conn
		authority bool
		want      grade
		says      string
	}{
		{"verify-full", dial(&tls.Config{RootCAs: authorities}), false, good, "the server's name is verified"},
		{"verify-ca", dial(&tls.Config{InsecureSkipVerify: true}), true, warning, "its name was not looked at"},
		{"require, prefer, allow", dial(&tls.Config{InsecureSkipVerify: true}), false, warning, "nobody has looked whose it is"},
		{"plain, to this machine", plain, false, good, "does not leave this machine"},
		{"by a socket", near{plain}, false, good, "does not leave this machine"},
		{"plain", far{plain}, false, warning, "to 192.0.2.1:5432 is not encrypted"},
	} {
		got, says, remedy := gradeOf(c.socket, c.authority)
		if got != c.want || !strings.Contains(says, c.says) || (remedy == "") != (got == good) {
			t.Errorf("%s: %s, %s -> %s", c.name, got, says, remedy)
		}
	}
}

func TestDoctorOfTheConnectionToSQS(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]finding{
		"":                          {Grade: good, Text: "by HTTPS"},
		"https://sqs.example.com":   {Grade: good, Text: "by HTTPS"},
		"http://127.0.0.1:4566":     {Grade: good, Text: "does not leave this machine"},
		"http://queues.example.com": {Grade: warning, Text: "SQS at queues.example.com is not encrypted"},
	} {
		var o sqs.Options
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
		var f findings
		visitEndpoint(sqs.New(o), &f)
		if len(f) != 1 || f[0].Grade != want.Grade || !strings.Contains(f[0].Text, want.Text) {
			t.Errorf("%q: %+v", endpoint, f)
		}
	}
}

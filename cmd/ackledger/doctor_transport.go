package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// encryption is the check of what goes over a network.
const encryption = "encryption"

// gradeOf says whether what goes to the ledger's server is encrypted, and whether the server is who it says it is. It goes
// by the connection itself: of several hosts, or with sslmode=allow, the settings are those of one that was not taken.
// authority says that the certificate was held to an authority, as sslmode=verify-ca does beside the handshake.
func gradeOf(socket net.Conn, authority bool) (grade, string, string) {
	const remedy = "add sslmode=verify-full to the ledger's URL, and sslrootcert where the authority is your own"
	secure, isTLS := socket.(*tls.Conn)
	host, _, err := net.SplitHostPort(socket.RemoteAddr().String())
	switch {
	case isTLS && len(secure.ConnectionState().VerifiedChains) > 0:
		return good, "the ledger's connection is encrypted (" + tls.VersionName(secure.ConnectionState().Version) + "), and the server's name is verified", ""
	case isTLS && authority:
		return warning, "the ledger's connection is encrypted, the server's certificate is an authority's, and its name was not looked at", remedy
	case isTLS:
		return warning, "the ledger's connection is encrypted, and nobody has looked whose it is", remedy
	case socket.RemoteAddr().Network() == "unix" || err == nil && isLoopback(host):
		return good, "the ledger's connection is not encrypted, and does not leave this machine", ""
	}
	return warning, fmt.Sprintf("the ledger's connection to %s is not encrypted", socket.RemoteAddr()), remedy
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// visitTransport says the same of the brokers.
func (b *brokers) visitTransport(f *findings) {
	if b.encrypted() {
		f.add(good, encryption, "the brokers' connections are encrypted, and their names verified", "")
		return
	}
	for _, address := range b.addresses() {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		if !isLoopback(host) {
			f.add(warning, encryption, "the connection to the broker "+address+" is not encrypted", "--tls, and a listener for it")
			return
		}
	}
	f.add(good, encryption, "the brokers' connections are not encrypted, and do not leave this machine", "")
}

// visitEndpoint says the same of SQS.
func visitEndpoint(client *sqs.Client, f *findings) {
	base := client.Options().BaseEndpoint
	u, err := url.Parse(aws.ToString(base))
	switch {
	case base == nil || err != nil || u.Scheme == "https":
		f.add(good, encryption, "SQS is spoken to by HTTPS", "")
	case isLoopback(u.Hostname()):
		f.add(good, encryption, "the connection to SQS is not encrypted, and does not leave this machine", "")
	default:
		f.add(warning, encryption, "the connection to SQS at "+u.Host+" is not encrypted", "an endpoint that begins with https://")
	}
}

// visitFiles says who may read a ledger in a file: whole messages are in it.
func visitFiles(path string, f *findings) {
	var open, files []string
	for _, base := range []string{path, path + "-owners"} {
		if real, err := filepath.EvalSymlinks(base); err == nil { // SQLite makes its files beside the one that a link leads to
			base = real
		}
		files = append(files, base, base+"-wal", base+"-shm")
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			f.add(unknown, "files", err.Error(), "see the error")
			return
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			open = append(open, fmt.Sprintf("%s (%04o)", file, mode))
		}
	}
	if len(open) > 0 {
		f.add(warning, "files", "other users may read or write "+strings.Join(open, ", "), "chmod 600, unless they are meant to")
		return
	}
	f.add(good, "files", "only their owner may read and write them", "")
}

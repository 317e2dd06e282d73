package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The environment of Kafka's settings. The password is in none of the flags: other users of a machine see those.
const (
	brokersVariable  = "ACKLEDGER_BROKERS"
	passwordVariable = "ACKLEDGER_SASL_PASSWORD"
)

// brokers is how to reach a Kafka cluster.
type brokers struct {
	seeds                   []string
	tls, insecure           bool
	ca, cert, key           string // files
	sasl, user, passwordIn  string
	brokersText, passwordIs string // of the environment
}

func (b *brokers) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&b.seeds, "brokers", nil, "Kafka's brokers, host:port,… (default: "+brokersVariable+" in the environment)")
	flags.BoolVar(&b.tls, "tls", false, "speak TLS to the brokers")
	flags.StringVar(&b.ca, "tls-ca", "", "a file with the authorities' certificates (default: the system's); implies --tls")
	flags.StringVar(&b.cert, "tls-cert", "", "a file with this client's certificate; implies --tls")
	flags.StringVar(&b.key, "tls-key", "", "a file with its key")
	flags.StringVar(&b.sasl, "sasl", "", "plain, scram-sha-256 or scram-sha-512")
	flags.BoolVar(&b.insecure, "insecure", false, "send the password of --sasl plain without TLS: whoever is between reads it")
	flags.StringVar(&b.user, "sasl-user", "", "the user of --sasl")
	flags.StringVar(&b.passwordIn, "sasl-password-file", "", "a file with the password (default: "+passwordVariable+" in the environment)")
	b.brokersText, b.passwordIs = os.Getenv(brokersVariable), os.Getenv(passwordVariable)
}

// named says whether there are brokers to ask.
func (b *brokers) named() bool { return len(b.addresses()) > 0 }

// encrypted says whether the brokers are spoken to by TLS.
func (b *brokers) encrypted() bool { return b.tls || b.ca != "" || b.cert != "" }

func (b *brokers) addresses() []string {
	if len(b.seeds) > 0 {
		return b.seeds
	}
	return strings.FieldsFunc(b.brokersText, func(r rune) bool { return r == ',' || r == ' ' })
}

// options are those of every client that the command makes.
func (b *brokers) options() ([]kgo.Opt, error) {
	if !b.named() {
		return nil, usage("--brokers is missing: host:port,… (or %s in the environment)", brokersVariable)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(b.addresses()...), kgo.ClientID("ackledger"), kgo.DialTimeout(connectTimeout),
		kgo.RetryTimeout(30 * time.Second),
	}
	if b.encrypted() {
		c, err := b.tlsConfig()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(c))
	}
	if b.sasl == "" {
		if b.user != "" || b.passwordIn != "" {
			return nil, usage("--sasl is missing: plain, scram-sha-256 or scram-sha-512")
		}
		return opts, nil
	}
	if b.sasl == "plain" && !b.encrypted() && !b.insecure {
		return nil, usage("--sasl plain sends the password in clear without --tls: add --tls, or --insecure to do so")
	}
	password, err := b.password()
	if err != nil {
		return nil, err
	}
	switch b.sasl {
	case "plain":
		return append(opts, kgo.SASL(plain.Auth{User: b.user, Pass: password}.AsMechanism())), nil
	case "scram-sha-256":
		return append(opts, kgo.SASL(scram.Auth{User: b.user, Pass: password}.AsSha256Mechanism())), nil
	case "scram-sha-512":
		return append(opts, kgo.SASL(scram.Auth{User: b.user, Pass: password}.AsSha512Mechanism())), nil
	}
	return nil, usage("--sasl must be plain, scram-sha-256 or scram-sha-512, is %q", b.sasl)
}

func (b *brokers) password() (string, error) {
	if b.passwordIn == "" {
		if b.passwordIs == "" {
			return "", usage("--sasl needs a password: --sasl-password-file, or %s in the environment", passwordVariable)
		}
		return b.passwordIs, nil
	}
	text, err := os.ReadFile(b.passwordIn)
	if err != nil {
		return "", usage("--sasl-password-file: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func (b *brokers) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if b.ca != "" {
		pem, err := os.ReadFile(b.ca)
		if err != nil {
			return nil, usage("--tls-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--tls-ca: %s has no certificate in PEM", b.ca)
		}
	}
	if (b.cert == "") != (b.key == "") {
		return nil, usage("--tls-cert and --tls-key go together")
	}
	if b.cert != "" {
		pair, err := tls.LoadX509KeyPair(b.cert, b.key)
		if err != nil {
			return nil, usage("--tls-cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// client connects when it is first used.
func (b *brokers) client() (*kgo.Client, error) {
	opts, err := b.options()
	if err != nil {
		return nil, err
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, usage("--brokers: %w", err)
	}
	return c, nil
}

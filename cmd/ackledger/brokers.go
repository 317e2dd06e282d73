package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
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
	cloud                   *cloud // for --sasl aws-msk-iam
}

// flags declares the brokers' flags. A command that has those of AWS too gives them; nil: what the AWS SDK finds by itself.
func (b *brokers) flags(cmd *cobra.Command, c *cloud) {
	if b.cloud = c; c == nil {
		b.cloud = &cloud{}
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&b.seeds, "brokers", nil, "Kafka's brokers, host:port,… (default: "+brokersVariable+" in the environment)")
	flags.BoolVar(&b.tls, "tls", false, "speak TLS to the brokers")
	flags.StringVar(&b.ca, "tls-ca", "", "a file with the authorities' certificates (default: the system's); implies --tls")
	flags.StringVar(&b.cert, "tls-cert", "", "a file with this client's certificate; implies --tls")
	flags.StringVar(&b.key, "tls-key", "", "a file with its key")
	flags.StringVar(&b.sasl, "sasl", "", logins)
	flags.BoolVar(&b.insecure, "insecure", false, "send what --sasl plain, oauthbearer or aws-msk-iam shows without TLS: whoever is between reads it")
	flags.StringVar(&b.user, "sasl-user", "", "the user of --sasl plain and scram")
	flags.StringVar(&b.passwordIn, "sasl-password-file", "", "a file with the password, or the token of oauthbearer (default: "+passwordVariable+" in the environment)")
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
	login, err := b.login()
	if err != nil {
		return nil, err
	}
	if login != nil {
		opts = append(opts, kgo.SASL(login))
	}
	return opts, nil
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

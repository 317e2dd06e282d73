package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// logins are what --sasl takes.
const logins = "plain, scram-sha-256, scram-sha-512, oauthbearer or aws-msk-iam"

// login is how clients log in to the brokers; nil: they do not.
func (b *brokers) login() (sasl.Mechanism, error) {
	switch b.sasl {
	case "":
		if b.user != "" || b.passwordIn != "" {
			return nil, usage("--sasl is missing: %s", logins)
		}
		return nil, nil
	case "plain", "oauthbearer", "aws-msk-iam":
		if !b.encrypted() && !b.insecure {
			return nil, usage("--sasl %s sends what one logs in with in clear without --tls: add --tls, or --insecure to do so", b.sasl)
		}
	}
	if b.sasl == "aws-msk-iam" {
		if b.user != "" || b.passwordIn != "" {
			return nil, usage("--sasl aws-msk-iam takes neither user nor password: it logs in with AWS's credentials")
		}
		return aws.ManagedStreamingIAM(b.iam), nil
	}
	password, err := b.password()
	if err != nil {
		return nil, err
	}
	switch b.sasl {
	case "plain":
		return plain.Auth{User: b.user, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: b.user, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: b.user, Pass: password}.AsSha512Mechanism(), nil
	case "oauthbearer":
		return oauth.Oauth(b.token), nil
	}
	return nil, usage("--sasl must be %s, is %q", logins, b.sasl)
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

// token is asked for whenever a connection logs in, and again before its token expires. So a file may get new ones.
func (b *brokers) token(context.Context) (oauth.Auth, error) {
	token, err := b.password()
	return oauth.Auth{Token: token}, err
}

// iam is asked for as token is. The region is that of the broker's name, or AWS_REGION.
func (b *brokers) iam(ctx context.Context) (aws.Auth, error) {
	loaded, err := b.cloud.load(ctx)
	if err != nil {
		return aws.Auth{}, err
	}
	c, err := loaded.Credentials.Retrieve(ctx)
	if err != nil {
		return aws.Auth{}, fmt.Errorf("AWS's credentials for --sasl aws-msk-iam: %w", err)
	}
	return aws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken, UserAgent: "ackledger"}, nil
}

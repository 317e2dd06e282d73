package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// iamBroker is a broker that logs in as Amazon MSK does. It keeps what it is told.
func iamBroker(t *testing.T) (address string, logins func() []string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var mu sync.Mutex
	var all []string
	c.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked := req.(*kmsg.SASLHandshakeRequest)
		resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if asked.Mechanism != "AWS_MSK_IAM" {
			resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, string(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes))
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code // a stand-in knows no sessions; the login itself is what is looked at
		return resp, nil, true
	})
	return c.ListenAddrs()[0], func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// signed says whether a login is signed as the AWS SDK signs, by the secret.
func signed(t *testing.T, login map[string]string, secret string) bool {
	t.Helper()
	at, err := time.Parse("20060102T150405Z", login["x-amz-date"])
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "kafka://"+login["host"]+"/?Action=kafka-cluster%3AConnect&X-Amz-Expires="+login["x-amz-expires"], nil)
	if err != nil {
		t.Fatal(err)
	}
	access, _, _ := strings.Cut(login["x-amz-credential"], "/")
	const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of no body
	credentials := aws.Credentials{AccessKeyID: access, SecretAccessKey: secret, SessionToken: login["x-amz-security-token"]}
	uri, _, err := v4.NewSigner().PresignHTTP(t.Context(), credentials, r, nothing, "kafka-cluster", "eu-central-1", at)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(uri, "X-Amz-Signature="+login["x-amz-signature"])
}

// --sasl aws-msk-iam logs in with what AWS's own tools would use: the environment, or a profile.
func TestMSKIAM(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, profiles := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "credentials")
	done(t, "migrate", "--ledger", file)
	text := "[ops]\naws_access_key_id = AKIDOPS\naws_secret_access_key = hush-ops\n"
	if err := os.WriteFile(profiles, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := []string{
		"AWS_SHARED_CREDENTIALS_FILE=" + profiles, "AWS_CONFIG_FILE=" + filepath.Join(dir, "none"), "AWS_EC2_METADATA_DISABLED=true",
		"AWS_REGION=eu-central-1", "AWS_PROFILE=", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SESSION_TOKEN=",
	}
	environment := append(none, "AWS_ACCESS_KEY_ID=AKIDENV", "AWS_SECRET_ACCESS_KEY=hush-env", "AWS_SESSION_TOKEN=session")
	for name, c := range map[string]struct {
		env                            []string
		args                           string
		access, secret, session, error string
	}{
		"environment": {environment, "show orders-0-1", "AKIDENV", "hush-env", "session", "SASL_AUTHENTICATION_FAILED"},
		"profile":     {none, "doctor --topic orders --profile ops", "AKIDOPS", "hush-ops", "", "SASL_AUTHENTICATION_FAILED"},
		"nothing":     {none, "show orders-0-1", "", "", "", "AWS's credentials for --sasl aws-msk-iam"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, logins := iamBroker(t)
			args := append(strings.Fields(c.args), "--ledger", file, "--brokers", address, "--sasl", "aws-msk-iam", "--insecure")
			r := withEnv(t, c.env, args...)
			if r.code == exitDone || !strings.Contains(r.out+r.errors, c.error) || strings.Contains(r.out+r.errors, "hush") {
				t.Errorf("code %d: %s%s", r.code, r.out, r.errors)
			}
			all := logins()
			if (len(all) > 0) != (c.access != "") {
				t.Fatalf("%d logins", len(all))
			}
			for _, text := range all {
				login := map[string]string{}
				if err := json.Unmarshal([]byte(text), &login); err != nil {
					t.Fatal(errors.Join(err, errors.New(text)))
				}
				access, _, _ := strings.Cut(login["x-amz-credential"], "/")
				if login["version"] != "2020_10_22" || login["action"] != "kafka-cluster:Connect" || login["host"] != "127.0.0.1" ||
					login["user-agent"] != "ackledger" || access != c.access || login["x-amz-security-token"] != c.session ||
					!signed(t, login, c.secret) || signed(t, login, "another") {
					t.Errorf("login %s", text)
				}
			}
		})
	}
}

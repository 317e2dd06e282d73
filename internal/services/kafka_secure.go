package services

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// SecureKafka gives a broker two listeners beside the plain one, which stays for this package's own questions: TLS with a
// certificate of the client's (mutual TLS), and TLS with SASL/SCRAM-SHA-512.
type SecureKafka struct {
	// Authority is the one whose clients the TLS listener takes.
	Authority *Authority
	// Server is the broker's certificate.
	Server *Identity
	// Users are the names and passwords that SCRAM-SHA-512 takes.
	Users map[string]string
	// Tokens makes the listener with a login take OAUTHBEARER too: any token that [UnsecuredToken] makes.
	Tokens bool
}

// UnsecuredToken is a token that a broker with [SecureKafka.Tokens] takes: a JSON Web Token without a signature (RFC 7519, section 6).
// Whoever wants to can make one.
func UnsecuredToken(subject string, from, until time.Time) string {
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subject, from.Unix(), until.Unix())
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
}

// TLSBrokers are the addresses that want a client's certificate; nil without [KafkaOptions.Secure].
func (k *KafkaCluster) TLSBrokers() []string { return k.tls }

// SASLBrokers are the addresses that speak TLS and want a user and a password; nil without [KafkaOptions.Secure].
func (k *KafkaCluster) SASLBrokers() []string { return k.sasl }

// secureNode is where a broker's two secure listeners are.
type secureNode struct {
	*SecureKafka
	tls, sasl int // ports
}

// properties adds the listeners to a broker's properties, and writes the files that they name into dir.
func (s *secureNode) properties(base map[string]string, dir string) error {
	store, roots := filepath.Join(dir, "broker.pem"), filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(store, slices.Concat(s.Server.Key, s.Server.Cert), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(roots, s.Authority.PEM, 0o600); err != nil {
		return err
	}
	for _, name := range []string{"listeners", "advertised.listeners"} {
		base[name] += fmt.Sprintf(",SSL://%s,SASL_SSL://%s", loopback(s.tls), loopback(s.sasl))
	}
	base["listener.security.protocol.map"] += ",SSL:SSL,SASL_SSL:SASL_SSL"
	maps.Copy(base, map[string]string{
		"ssl.keystore.type":                                     "PEM",
		"ssl.keystore.location":                                 store,
		"ssl.truststore.type":                                   "PEM",
		"ssl.truststore.location":                               roots,
		"listener.name.ssl.ssl.client.auth":                     "required",
		"listener.name.sasl_ssl.ssl.client.auth":                "none",
		"sasl.enabled.mechanisms":                               "SCRAM-SHA-512",
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
	})
	if s.Tokens {
		base["sasl.enabled.mechanisms"] += ",OAUTHBEARER"
		base["listener.name.sasl_ssl.oauthbearer.sasl.jaas.config"] = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required " +
			`unsecuredLoginStringClaim_sub="broker";`
	}
	return nil
}

// format is what the storage is formatted with, so that the users are there at the first start.
func (s *secureNode) format() (args []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Users)) {
		args = append(args, "--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", name, s.Users[name]))
	}
	return args
}

func (s *SecureKafka) check() error {
	if s.Authority == nil || s.Server == nil || len(s.Users) == 0 {
		return fmt.Errorf("services: KafkaOptions.Secure must have an authority, a server's certificate and users, has %d users", len(s.Users))
	}
	return nil
}

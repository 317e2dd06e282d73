package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// EnvDynamoDB is the endpoint of a server that speaks DynamoDB's protocol, or [AWS] for a real account.
const EnvDynamoDB = "ACKLEDGER_TEST_DYNAMODB"

// ErrNoDynamoDB says that Dynoxide cannot be fetched for this platform, and is not on this machine. It is wrapped in an error of one line.
var ErrNoDynamoDB = errors.New("services: no Dynoxide here: install it (cargo install dynoxide-rs; macOS: brew install nubo-db/tap/dynoxide), " +
	"or name a running server in " + EnvDynamoDB)

// DynamoDBServer is a server that speaks DynamoDB's protocol (Dynoxide) and belongs to the caller. Its tables live in a file beside
// it: they outlive Stop and Kill.
type DynamoDBServer struct{ *Server }

// Endpoint is the URL for a client's BaseEndpoint. Any region and any credentials will do.
func (d *DynamoDBServer) Endpoint() string { return "http://" + d.Addr() }

// StartDynamoDB starts a server without tables on a free loopback port, and returns when it answers. It is fetched where its lock has a
// program for this platform, and otherwise the one of that name on PATH; where neither can be had the error is [ErrNoDynamoDB]. ctx
// bounds the start alone. The caller closes the server; it also ends with this process.
func StartDynamoDB(ctx context.Context) (*DynamoDBServer, error) { return startDynamoDB(ctx, true) }

// StartDynamoDBInMemory is [StartDynamoDB] of a server that is faster, and whose tables are gone after Stop or Kill.
func StartDynamoDBInMemory(ctx context.Context) (*DynamoDBServer, error) {
	return startDynamoDB(ctx, false)
}

func startDynamoDB(ctx context.Context, durable bool) (*DynamoDBServer, error) {
	program, version, err := dynoxide(ctx)
	if err != nil {
		return nil, err
	}
	base, err := tempBase(-1)
	if err != nil {
		return nil, err
	}
	dir, err := newFolder(base)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	server := &DynamoDBServer{&Server{
		addr: loopback(ports[0]), folder: dir, stopSignal: syscall.SIGTERM, killSignal: syscall.SIGKILL,
		command: command{
			name: "Dynoxide " + version, path: program, dir: dir.path, log: filepath.Join(dir.path, "log"),
			args: []string{"serve", "--host", "127.0.0.1", "--port", strconv.Itoa(ports[0])}, env: []string{"RUST_LOG=off"},
		},
	}}
	if durable {
		server.command.args = append(server.command.args, "--db-path", filepath.Join(dir.path, "tables.db"))
	}
	server.ready = func(ctx context.Context) error { return askDynamoDB(ctx, server.Endpoint()) }
	if err := server.Start(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

// dynoxide is the program, and its version if it was fetched.
func dynoxide(ctx context.Context) (program, version string, err error) {
	const name = "dynoxide"
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		if program, err = exec.LookPath(name); err != nil {
			return "", "", fmt.Errorf("%w: %w", ErrNoDynamoDB, err)
		}
		return program, "of " + program, nil
	}
	b, err := loadNPM(name, EnvDynamoDB)
	if err != nil {
		return "", "", err
	}
	b.finish = oneBinary(name)
	folder, err := fetch(ctx, b)
	return filepath.Join(folder, name), b.version, err
}

// askDynamoDB is the first request: ListTables, with a signature that looks like one.
func askDynamoDB(ctx context.Context, endpoint string) error {
	now := time.Now().UTC()
	return askAWS(ctx, endpoint, "DynamoDB_20120810.ListTables", http.Header{
		"X-Amz-Date": {now.Format("20060102T150405Z")},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=test/" + now.Format("20060102") +
			"/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0", 64)},
	})
}

var ownDynamoDB = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	server, err := StartDynamoDBInMemory(ctx)
	if err != nil {
		return "", err
	}
	return server.Endpoint(), nil
})

// DynamoDB returns the endpoint of the shared server, or what [EnvDynamoDB] says, [AWS] too. Tables get names of their own ([Name]);
// deleting them is left to the test. Where there is no server ([ErrNoDynamoDB]) the test is skipped.
func DynamoDB(tb testing.TB) string {
	tb.Helper()
	endpoint, named := fromEnv(tb, EnvDynamoDB)
	switch {
	case endpoint == AWS:
		return AWS
	case !named:
		own, err := ownDynamoDB()
		if errors.Is(err, ErrNoDynamoDB) {
			Missing(tb, err)
		}
		if err != nil {
			tb.Fatal(err)
		}
		return own
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	if err := askDynamoDB(ctx, endpoint); err != nil {
		tb.Fatalf("services: %s=%s: %v", EnvDynamoDB, endpoint, err)
	}
	return endpoint
}

package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ElasticMQServer is an ElasticMQ server that belongs to the caller. Its queues live in memory: they are gone after Stop
// or Kill, unless it is durable.
type ElasticMQServer struct {
	*Server
}

// Endpoint is the URL for an SQS client's BaseEndpoint. Any region and any credentials will do.
func (e *ElasticMQServer) Endpoint() string { return "http://" + e.Addr() }

// elasticMQConf: "strict" limits refuse what AWS refuses (10 messages a batch, long polls of 20 s, queue names).
const elasticMQConf = `include classpath("application.conf")
node-address { protocol = http, host = "127.0.0.1", port = PORT, context-path = "" }
rest-sqs { enabled = true, bind-port = PORT, bind-hostname = "127.0.0.1", sqs-limits = strict }
rest-stats { enabled = false }
`

// durableConf keeps queues and messages in a database beside the server (H2, which writes what it commits at once).
const durableConf = `messages-storage {
  enabled = true, driver-class = "org.h2.Driver", uri = "jdbc:h2:FOLDER/queues;WRITE_DELAY=0", username = "", password = ""
  prune-data-on-init = false
}
`

// StartDurableElasticMQ is [StartElasticMQ] of a server whose standard queues outlive Stop and Kill, with the messages,
// their attributes, visibility and receipt handles. It is slower. Not for FIFO queues: ElasticMQ 1.7.1 brings their
// messages back without their order.
func StartDurableElasticMQ(ctx context.Context) (*ElasticMQServer, error) {
	return startElasticMQ(ctx, elasticMQConf+durableConf)
}

// StartElasticMQ starts a server without queues on a free loopback port, and returns when it answers. ctx bounds the
// start alone. The caller closes the server; it also ends with this process.
func StartElasticMQ(ctx context.Context) (*ElasticMQServer, error) {
	return startElasticMQ(ctx, elasticMQConf)
}

func startElasticMQ(ctx context.Context, settings string) (*ElasticMQServer, error) {
	b, err := loadBundle("elasticmq", EnvSQS)
	if err != nil {
		return nil, err
	}
	jars, err := fetch(ctx, b)
	if err != nil {
		return nil, err
	}
	java, err := javaPath(b.env)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
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
	conf := filepath.Join(dir.path, "elasticmq.conf")
	server := &ElasticMQServer{Server: &Server{
		addr: loopback(ports[0]), folder: dir, stopSignal: syscall.SIGTERM, killSignal: syscall.SIGKILL,
		command: command{
			name: "ElasticMQ " + b.version, path: java, dir: dir.path, log: filepath.Join(dir.path, "log"),
			args: []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dconfig.file=" + conf, "-cp", filepath.Join(jars, "*"),
				"org.elasticmq.server.Main"},
		},
	}}
	server.ready = func(ctx context.Context) error { return askSQS(ctx, server.Endpoint()) }
	text := strings.NewReplacer("PORT", strconv.Itoa(ports[0]), "FOLDER", dir.path).Replace(settings)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	if err := server.Start(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

// askSQS is the first request: ListQueues, unsigned.
func askSQS(ctx context.Context, endpoint string) error {
	return askAWS(ctx, endpoint, "AmazonSQS.ListQueues", nil)
}

// askAWS sends an empty request of an operation in the JSON protocol of AWS.
func askAWS(ctx context.Context, endpoint, operation string, more http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	maps.Copy(req.Header, more)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", operation)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", operation, resp.Status, body)
	}
	return nil
}

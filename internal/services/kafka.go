package services

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaOptions says what [StartKafka] starts. The zero value is one broker.
type KafkaOptions struct {
	// Brokers is 1 (also for 0) or 2. The first one is also the controller. Two are for who tests a broker that goes
	// away under a client.
	Brokers int
	// Controller makes the controller a process of its own. For who tests that any broker goes away, and who leads then.
	Controller bool
	// Properties are added to every server.properties and win over what this package writes there. For who tests
	// against a setting of the broker, such as group.consumer.session.timeout.ms.
	Properties map[string]string
	// Secure adds listeners with TLS and with TLS and SASL/SCRAM, to a cluster of one broker. For who tests logins.
	Secure *SecureKafka
}

// KafkaCluster is an Apache Kafka cluster that belongs to the caller.
type KafkaCluster struct {
	nodes      []*Server
	controller *Server  // nil: broker 0
	tls, sasl  []string // addresses
}

// Brokers are the addresses (host:port) for a client's bootstrap list. They stay the same over Stop, Kill and Start.
func (k *KafkaCluster) Brokers() []string {
	var addrs []string
	for _, n := range k.nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Broker is one broker (0 or 1), to be stopped, killed and started by itself. Without [KafkaOptions.Controller] broker 0
// is also the controller: without it broker 1 serves on, but nobody elects leaders.
func (k *KafkaCluster) Broker(i int) *Server { return k.nodes[i] }

// Start starts the brokers that do not run, on the ports and data they had, and returns when each has answered a
// Metadata request that names it.
func (k *KafkaCluster) Start(ctx context.Context) error {
	for _, n := range k.all() {
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// all are the processes, the controller first.
func (k *KafkaCluster) all() []*Server {
	if k.controller == nil {
		return k.nodes
	}
	return append([]*Server{k.controller}, k.nodes...)
}

// Stop ends all brokers cleanly, the controller last: the others hand over their leaderships through it.
func (k *KafkaCluster) Stop() error { return k.backwards((*Server).Stop) }

// Kill ends all brokers with SIGKILL.
func (k *KafkaCluster) Kill() error { return k.backwards((*Server).Kill) }

// Close kills all brokers and removes their data.
func (k *KafkaCluster) Close() error { return k.backwards((*Server).Close) }

func (k *KafkaCluster) backwards(f func(*Server) error) error {
	var errs []error
	for _, n := range slices.Backward(k.all()) {
		errs = append(errs, f(n))
	}
	return errors.Join(errs...)
}

// StartKafka starts a KRaft cluster on free loopback ports with its data in temporary folders, and returns when every
// broker answers. ctx bounds the start alone. The caller closes the cluster; it also ends with this process.
func StartKafka(ctx context.Context, o KafkaOptions) (*KafkaCluster, error) {
	n := max(o.Brokers, 1)
	if o.Brokers < 0 || n > 2 {
		return nil, fmt.Errorf("services: KafkaOptions.Brokers must be 0 to 2, got %d", o.Brokers)
	}
	if o.Secure != nil {
		if n > 1 {
			return nil, fmt.Errorf("services: KafkaOptions.Secure is for one broker, Brokers is %d", n)
		}
		if err := o.Secure.check(); err != nil {
			return nil, err
		}
	}
	b, err := loadBundle("kafka", EnvKafka)
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
	ports, err := freePorts(n + 3)
	if err != nil {
		return nil, err
	}
	cluster, id, voter := &KafkaCluster{}, randomUUID(), 1
	var secure *secureNode
	if o.Secure != nil {
		secure = &secureNode{SecureKafka: o.Secure, tls: ports[n+1], sasl: ports[n+2]}
		cluster.tls, cluster.sasl = []string{loopback(secure.tls)}, []string{loopback(secure.sasl)}
	}
	if o.Controller {
		node := kafkaNode{id: n + 1, voter: n + 1, controller: ports[n], cluster: id}
		server, err := node.server(ctx, command{name: "Apache Kafka " + b.version + " (controller)", path: java}, jars, o.Properties)
		if err != nil {
			return nil, err
		}
		cluster.controller, voter = server, node.voter
	}
	for i, port := range ports[:n] {
		node := kafkaNode{id: i + 1, voter: voter, port: port, controller: ports[n], cluster: id, secure: secure}
		server, err := node.server(ctx, command{name: fmt.Sprintf("Apache Kafka %s (broker %d)", b.version, i), path: java}, jars, o.Properties)
		if err != nil {
			return nil, errors.Join(err, cluster.Close())
		}
		cluster.nodes = append(cluster.nodes, server)
	}
	if err := cluster.Start(ctx); err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return cluster, nil
}

// kafkaNode is what distinguishes one broker.
type kafkaNode struct {
	id         int // node.id
	voter      int // node.id of the controller, which may be this one
	port       int // 0: it is no broker
	controller int // port of the controller
	cluster    string
	secure     *secureNode // nil: plain
}

// server writes the node's files and formats its data.
func (n kafkaNode) server(ctx context.Context, c command, jars string, extra map[string]string) (*Server, error) {
	base, err := tempBase(-1)
	if err != nil {
		return nil, err
	}
	dir, err := newFolder(base)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir.path, "server.properties")
	properties := n.properties(filepath.Join(dir.path, "data"))
	var users []string
	if n.secure != nil {
		if err := n.secure.properties(properties, dir.path); err != nil {
			return nil, errors.Join(err, dir.remove())
		}
		users = n.secure.format()
	}
	text := propertiesText(properties, extra)
	c.dir, c.log = dir.path, filepath.Join(dir.path, "log")
	// A small heap, and flags that start fast on two cores.
	run := []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*")}
	format := c
	format.name += " format"
	format.args = slices.Concat(run, []string{"kafka.tools.StorageTool", "format", "-t", n.cluster, "-c", conf}, users)
	c.args = slices.Concat(run, []string{"kafka.Kafka", conf})
	err = os.WriteFile(conf, []byte(text), 0o644)
	if err == nil {
		err = runOnce(ctx, format)
	}
	if err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	addr, ready := loopback(n.port), n.ask
	if n.port == 0 {
		addr, ready = loopback(n.controller), n.dial
	}
	return &Server{addr: addr, command: c, ready: ready, folder: dir,
		stopSignal: syscall.SIGTERM, killSignal: syscall.SIGKILL}, nil
}

// properties is a broker whose internal topics need no second one, and whose groups form without delay. The new group
// protocol (KIP-848) is on by default.
func (n kafkaNode) properties(data string) map[string]string {
	roles, listeners := "broker", "PLAINTEXT://"+loopback(n.port)
	if n.id == n.voter {
		roles, listeners = "broker,controller", listeners+",CONTROLLER://"+loopback(n.controller)
	}
	if n.port == 0 {
		return map[string]string{
			"process.roles":                  "controller",
			"node.id":                        strconv.Itoa(n.id),
			"controller.quorum.voters":       n.quorum(),
			"listeners":                      "CONTROLLER://" + loopback(n.controller),
			"controller.listener.names":      "CONTROLLER",
			"listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
			"log.dirs":                       data,
		}
	}
	return map[string]string{
		"process.roles":                                    roles,
		"node.id":                                          strconv.Itoa(n.id),
		"controller.quorum.voters":                         n.quorum(),
		"listeners":                                        listeners,
		"advertised.listeners":                             "PLAINTEXT://" + loopback(n.port),
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       "PLAINTEXT",
		"listener.security.protocol.map":                   "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                                         data,
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"share.coordinator.state.topic.num.partitions":     "4",
		"group.initial.rebalance.delay.ms":                 "0",
	}
}

func (n kafkaNode) quorum() string { return strconv.Itoa(n.voter) + "@" + loopback(n.controller) }

// dial sees that a controller listens: brokers, not clients, ask it.
func (n kafkaNode) dial(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", loopback(n.controller))
	if err != nil {
		return err
	}
	return conn.Close()
}

func propertiesText(base, extra map[string]string) string {
	all := maps.Clone(base)
	maps.Copy(all, extra)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", name, all[name])
	}
	return text.String()
}

// ask is the first request: Metadata from this very broker, which must name our cluster and the broker itself.
func (n kafkaNode) ask(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(loopback(n.port)))
	if err != nil {
		return err
	}
	defer client.Close()
	got, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if got.Cluster != n.cluster {
		return fmt.Errorf("another cluster answers: %s, not %s", got.Cluster, n.cluster)
	}
	if !slices.Contains(got.Brokers.NodeIDs(), int32(n.id)) {
		return fmt.Errorf("broker %d is not in the cluster's metadata yet", n.id)
	}
	return nil
}

// randomUUID is a cluster id as Kafka writes it: 16 bytes in URL-safe base64, no dash in front (it would look like a
// flag).
func randomUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	b[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(b[:])
}

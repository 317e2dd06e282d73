package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// patience bounds every wait. It is long: what takes longer hangs.
const patience = 90 * time.Second

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ackledger-examples-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	return m.Run()
}

// programs is the folder for the programs of all examples; build puts them there, once.
var programs string

var build = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", programs, "./...").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

func binary(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programs, name)
}

// program is one that runs. Its lines are those of standard output; standard error must stay empty, but for a log.
type program struct {
	logs   bool // its standard error is a log in JSON
	t      *testing.T
	cmd    *exec.Cmd
	stderr strings.Builder
	ended  chan struct{}
	err    error

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed at the next line
}

// start runs a program in a folder of its own.
func start(t *testing.T, env []string, path string, args ...string) *program {
	t.Helper()
	return startIn(t, t.TempDir(), env, path, args...)
}

func startIn(t *testing.T, dir string, env []string, path string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &program{t: t, cmd: exec.CommandContext(ctx, path, args...), ended: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), append(env, "TMPDIR="+p.cmd.Dir)...)
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, scan.Text())
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel() // kills what a failed test has left
		<-p.ended
	})
	return p
}

// waitLine waits for a line that begins so.
func (p *program) waitLine(prefix string) {
	p.t.Helper()
	for {
		p.mu.Lock()
		found := slices.ContainsFunc(p.lines, func(l string) bool { return strings.HasPrefix(l, prefix) })
		more := p.more
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-p.ended:
			p.t.Fatalf("ended (%v) without the line %q: %q\n%s", p.err, prefix, p.output(), &p.stderr)
		}
	}
}

func (p *program) signal() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("SIGTERM: %v", err)
	}
}

// end waits until the program has ended well, and returns its lines. Settings that a worker warns of are nobody's example.
func (p *program) end() []string {
	p.t.Helper()
	<-p.ended
	if p.err != nil || p.stderr.Len() > 0 && !p.logs {
		p.t.Fatalf("ended with %v\n%s\n%s", p.err, strings.Join(p.output(), "\n"), &p.stderr)
	}
	if strings.Contains(p.stderr.String(), `"msg":"consumer: Options.`) {
		p.t.Errorf("its settings are unwise: %s", &p.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(p.cmd.Dir, "ackledger-*")); err != nil || len(left) > 0 {
		p.t.Errorf("left behind: %q, %v", left, err)
	}
	return p.output()
}

func (p *program) output() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// realSQS is the environment of a program that is to find a server of the test's as if it were AWS.
func realSQS(s *sqstest.Server) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + s.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}
}

func createQueue(t *testing.T, s *sqstest.Server, name string) string {
	t.Helper()
	url, err := s.CreateQueue(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func sendOrder(t *testing.T, c *awssqs.Client, url, id string) {
	t.Helper()
	_, err := c.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(`{"id":"` + id + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
}

func produceOrder(t *testing.T, brokers []string, topic, id string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(t.Context(), kgo.StringRecord(`{"id":"`+id+`"}`)).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

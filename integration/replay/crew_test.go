package replay_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/replay"
)

// child is one replay process.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr strings.Builder
	ready  chan struct{} // closed when it begins to replay, or has ended
	ended  chan struct{}
	report replay.Report
	err    error
}

func start(t *testing.T, o orders) *child {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(os.Args[0]), ready: make(chan struct{}), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := services.StartChild(c.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		if lines.Scan(); true {
			close(c.ready)
		}
		for lines.Scan() {
			_ = json.Unmarshal(lines.Bytes(), &c.report) // cut by a kill
		}
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// end waits until the process has ended by itself.
func (c *child) end() replay.Report {
	c.t.Helper()
	if wrong := c.outcome(); wrong != "" {
		c.t.Fatal(wrong)
	}
	return c.report
}

// outcome waits until the process has ended by itself, and says what went wrong: a server that did not answer in time, most
// likely, and then the next one goes on.
func (c *child) outcome() (wrong string) {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(5 * time.Minute):
		c.t.Fatal("a replay does not end")
	}
	if c.err != nil {
		return fmt.Sprintf("replay: %v\n%s", c.err, &c.stderr)
	}
	return ""
}

// storm starts replays and kills each at a random moment; every other time two are at work, and one of them goes on.
func storm(t *testing.T, kills int, next func(i int) orders) {
	t.Helper()
	landed := 0
	for i := range kills {
		c := start(t, next(i))
		var other *child
		if i%2 == 1 {
			other = start(t, next(i+1))
		}
		<-c.ready
		time.Sleep(time.Duration(rand.Int64N(int64(1500 * time.Millisecond)))) // the moment is what is tested
		if c.lives() {
			landed++
		}
		c.kill()
		if other != nil {
			<-other.ready
			time.Sleep(time.Duration(rand.Int64N(int64(500 * time.Millisecond)))) // the same
			other.kill()
		}
	}
	t.Logf("%d of %d kills met a replay under way", landed, kills)
	if landed*2 < kills {
		t.Errorf("only %d of %d kills met a replay that was under way", landed, kills)
	}
}

func (c *child) lives() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

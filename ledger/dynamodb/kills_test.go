package dynamodb_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
)

// stormVariable names the table of a storm, "endpoint|table". In a process that has it, this test binary is a worker of that storm.
const stormVariable = "ACKLEDGER_DYNAMODB_STORM"

// stormOver is what a worker says when nothing is left. Whatever else it says is a promise that was broken.
const stormOver = "nothing is left"

// stormChild works until nothing is left, or it is killed.
func stormChild(place string) {
	endpoint, table, _ := strings.Cut(place, "|")
	s := newStorm(table, endpoint, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // its parent may be gone
	defer cancel()
	s.work(ctx, rand.Uint64())
	fmt.Println(stormOver)
}

// TestKills is the storm with workers that are processes, of which one after the other is killed, mostly within a claim or a commit.
func TestKills(t *testing.T) {
	t.Parallel()
	const crew = 3
	kills, most := 4, 4*time.Minute
	if os.Getenv("ACKLEDGER_LONG") != "" {
		kills, most = 200, 30*time.Minute
	}
	c := client(t)
	s := newStorm(fresh(t, c), services.DynamoDB(t), t.Errorf)
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	left := make(chan struct{}, kills)
	for range kills {
		left <- struct{}{}
	}
	var all sync.WaitGroup
	for range crew {
		all.Go(func() {
			for s.life(ctx, left) {
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		t.Fatalf("messages are left after %s", most)
	}
	t.Logf("%d processes were killed", kills-len(left))
	s.check(t, storeOf(c, s.table, s.endpoint))
}

// life is one of a worker's: it is killed after a while, or ends by itself when nothing is left. It says whether another must begin.
func (s *storm) life(ctx context.Context, kills chan struct{}) (again bool) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), stormVariable+"="+s.endpoint+"|"+s.table)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.broken("%v", err)
		return false
	}
	select {
	case <-kills:
		end := time.AfterFunc(500*time.Millisecond+rand.N(2*time.Second), func() { _ = cmd.Process.Kill() }) // an error means that it has ended
		defer end.Stop()
		again = true
	default:
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == stormOver {
			again = false
		} else if !strings.HasPrefix(lines.Text(), "coverage:") {
			s.broken("a worker says: %s", lines.Text())
		}
	}
	_ = cmd.Wait() // it was killed
	return again && ctx.Err() == nil
}

package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/wire"
)

// echo is a server that sends back what it gets, behind a proxy.
func echo(t *testing.T) *wire.Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	p, err := wire.New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *wire.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// call sends data and reads the echo, for a while.
func call(c net.Conn, data []byte, patience time.Duration) ([]byte, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.Write(data); err != nil {
		return nil, err
	}
	got := make([]byte, len(data))
	n, err := io.ReadFull(c, got)
	return got[:n], err
}

var data = bytes.Repeat([]byte("0123456789"), 1000)

func works(t *testing.T, c net.Conn) {
	t.Helper()
	if got, err := call(c, data, 10*time.Second); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(data), err)
	}
}

// ended wants the connection closed, not merely silent.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := call(c, data, 10*time.Second)
	if timeout := net.Error(nil); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("the connection is there still: %v", err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]wire.Fault{
		"nothing":   {},
		"in pieces": {Piece: 7},
		"delayed":   {Delay: 50 * time.Millisecond, Jitter: 10 * time.Millisecond},
		"limit":     {Limit: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := echo(t)
			c := dial(t, p)
			p.Set(wire.Fault{}, f)
			began := time.Now()
			works(t, c)
			if took := time.Since(began); took < f.Delay {
				t.Errorf("it took %v", took)
			}
			works(t, dial(t, p))
			p.Heal()
			works(t, c)
		})
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	p := echo(t)
	c := dial(t, p)
	works(t, c)
	for requests, answers := range map[wire.Fault]wire.Fault{{}: {Lose: true}, {Lose: true}: {}} {
		c := dial(t, p)
		works(t, c) // the proxy has it: what it takes only once the fault is over lives on
		p.Set(requests, answers)
		var timeout net.Error
		if got, err := call(c, data, 50*time.Millisecond); len(got) > 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("requests %+v, answers %+v: %d bytes, %v", requests, answers, len(got), err)
		}
		p.Heal()
		ended(t, c)
		works(t, dial(t, p))
	}
	ended(t, c)
}

func TestCutWithin(t *testing.T) {
	t.Parallel()
	p := echo(t)
	c := dial(t, p)
	p.Set(wire.Fault{}, wire.Fault{Limit: 1234})
	if got, err := call(c, data, 10*time.Second); len(got) != 1234 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	p := echo(t)
	c := dial(t, p)
	works(t, c)
	p.Cut()
	ended(t, c)
	c = dial(t, p)
	works(t, c)
	p.Set(wire.Fault{Refuse: true}, wire.Fault{})
	ended(t, c)
	ended(t, dial(t, p))
	p.Heal()
	works(t, dial(t, p))
}

// Faults that begin and end while connections come and go in the middle of their data held toxiproxy's lock for ever.
func TestFaultsBetweenConnections(t *testing.T) {
	t.Parallel()
	p := echo(t)
	done := make(chan struct{})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if c, err := net.Dial("tcp", p.Addr()); err == nil {
					_, _ = call(c, data, rand.N(5*time.Millisecond)) // it may end in the middle
					_ = c.Close()
				}
			}
		})
	}
	faults := []wire.Fault{{}, {Lose: true}, {Limit: 700}, {Piece: 40}, {Delay: time.Millisecond}, {Refuse: true}}
	for range 300 {
		p.Set(faults[rand.IntN(len(faults))], faults[rand.IntN(len(faults))])
		if rand.IntN(3) == 0 {
			p.Cut()
		}
		time.Sleep(rand.N(3 * time.Millisecond)) // how long a fault lasts
	}
	close(done)
	clients.Wait()
	p.Heal()
	works(t, dial(t, p))
}

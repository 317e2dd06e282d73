package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// cutter is a proxy before the database that breaks connections at a chosen message.
type cutter struct {
	target string
	listen net.Listener

	mu     sync.Mutex
	marker []byte
	late   bool
	says   []byte // what the client gets for an answer that is lost
	down   bool   // after a cut, and until it is mended: nobody gets through
	stays  bool
	all    bool
	frozen chan struct{} // closed at the end: until then what is frozen says nothing
	freeze bool
	held   chan struct{} // until it is closed the message that is cut at waits; nil: it does not
	cuts   int
	conns  map[net.Conn]struct{}
}

// newCutter starts a proxy and returns it with the URL that leads through it.
func newCutter(t *testing.T, dsn string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{target: u.Host, conns: map[net.Conn]struct{}{}, frozen: make(chan struct{})}
	if c.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = c.listen.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := c.listen.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		if err := c.listen.Close(); err != nil {
			t.Error(err)
		}
		close(c.frozen)
		c.closeAll()
		wg.Wait()
	})
	return c, u.String()
}

// cutBefore breaks the connection that sends marker, and the server never gets it.
func (c *cutter) cutBefore(marker string) { c.arm(marker, false, false) }

// cutAfter breaks the connection that sends marker once the server has answered it. With stays, nobody gets a
// connection after that, until mend.
func (c *cutter) cutAfter(marker string, stays bool) { c.arm(marker, true, stays) }

// answerAfter is cutAfter, and the client gets these messages instead of the server's.
func (c *cutter) answerAfter(marker string, says []byte) {
	c.arm(marker, true, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.says = says
}

func (c *cutter) arm(marker string, late, stays bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marker, c.late, c.stays = []byte(marker), late, stays
}

// freezeAfter lets the server have the message with marker, and nothing that the connection sends after that: as a process
// that is stopped, or a network that is cut without a word.
func (c *cutter) freezeAfter(marker string) {
	c.arm(marker, false, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freeze = true
}

// delay breaks the connection that sends COMMIT, and the server gets the message when deliver is called.
func (c *cutter) delay() (deliver func()) {
	held := make(chan struct{})
	c.arm("commit\x00", false, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	return func() { close(held) }
}

// closeLater makes the cut close every other connection too.
func (c *cutter) closeLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = true
}

func (c *cutter) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = false
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

func (c *cutter) cutAll() {
	c.mu.Lock()
	all := c.all
	c.mu.Unlock()
	if all {
		c.closeAll()
	}
}

func (c *cutter) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
	}
}

// keep notes a connection, so that the test's end closes it; false while nobody gets through.
func (c *cutter) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return false
	}
	c.conns[conn] = struct{}{}
	return true
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !c.keep(client) || !c.keep(server) {
		return
	}
	answered := &gate{to: client, cut: c.cutAll}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(answered, server)
		_ = client.Close()
	}()
	c.forward(client, server, answered)
	_ = server.Close()
	<-done
}

// forward passes on what the client sends until it is to be cut.
func (c *cutter) forward(client, server net.Conn, answers *gate) {
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		cut, late := c.hit(buf[:n])
		if cut && c.isFreezing() {
			_, _ = server.Write(buf[:n])
			<-c.frozen
			return
		}
		if cut && !late {
			if held := c.holds(); held != nil {
				_ = client.Close()
				select {
				case <-held:
					_, _ = server.Write(buf[:n])
				case <-c.frozen:
				}
			}
			return
		}
		if cut {
			answers.shut(c.lastWords())
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if cut {
			answers.wait()
			return
		}
	}
}

func (c *cutter) lastWords() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.says
}

func (c *cutter) holds() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

func (c *cutter) isFreezing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeze
}

// hit says whether this is the message to cut at. It is cut once.
func (c *cutter) hit(message []byte) (cut, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.marker) == 0 || !bytes.Contains(message, c.marker) {
		return false, false
	}
	c.marker, c.down = nil, c.stays
	c.cuts++
	return true, c.late
}

var errShut = errors.New("the answer is lost")

// gate passes answers on until it is shut: then it swallows the first one, gives the last words for it, and ends.
type gate struct {
	to       net.Conn
	cut      func() // called before the client hears that the answer is lost: it finds no other connection then
	mu       sync.Mutex
	closed   bool
	last     []byte
	swallown chan struct{}
}

func (g *gate) shut(last []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.last, g.swallown = true, last, make(chan struct{})
}

func (g *gate) wait() { <-g.swallown }

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_, _ = g.to.Write(g.last)
		g.cut()
		close(g.swallown)
		return 0, errShut
	}
	return g.to.Write(b)
}

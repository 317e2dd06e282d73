package wire

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// direction is one direction of a proxy.
type direction struct {
	number string

	mu      sync.Mutex
	fault   Fault
	cuts    int // connections from before the last one end
	changed chan struct{}
}

func (d *direction) set(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault.Lose || f.Refuse {
		d.cuts++ // what was lost does not come later
	}
	d.fault = f
	d.tell()
}

func (d *direction) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cuts++
	d.tell()
}

func (d *direction) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *direction) now() (Fault, int, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault, d.cuts, d.changed
}

// toxic does on each connection what its direction says.
type toxic struct {
	Number string `json:"number"`
}

var _ toxics.Toxic = (*toxic)(nil)

// Pipe is toxiproxy's: it moves one direction of one connection until it ends.
func (t *toxic) Pipe(stub *toxics.ToxicStub) {
	d, there := directions.Load(t.Number)
	if !there { // the proxy is closed
		end(stub)
		return
	}
	p := pipe{stub: stub, direction: d.(*direction)}
	p.fault, p.cuts, p.changed = p.now()
	for {
		if p.fault.Refuse {
			end(stub)
			return
		}
		select {
		case <-stub.Interrupt:
			return
		case <-p.changed:
			if !p.look() {
				end(stub)
				return
			}
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			if !p.pass(c) {
				end(stub)
				return
			}
		}
	}
}

// end closes a connection. What it still sends is taken and dropped, so that its goroutine ends, too.
func end(stub *toxics.ToxicStub) {
	stub.Close()
	go func() {
		for c := <-stub.Input; c != nil; c = <-stub.Input {
		}
	}()
}

// pipe is one direction of one connection.
type pipe struct {
	*direction
	stub    *toxics.ToxicStub
	fault   Fault
	cuts    int
	changed <-chan struct{}
	passed  int // bytes since the fault began
}

// look takes over what has changed; false: the connection ends.
func (p *pipe) look() bool {
	var cuts int
	p.fault, cuts, p.changed = p.now()
	p.passed = 0
	return cuts == p.cuts
}

// pass moves data on; false: the connection ends.
func (p *pipe) pass(c *stream.StreamChunk) bool {
	f := p.fault
	if f.Lose {
		return true
	}
	data, whole := c.Data, true
	if f.Limit > 0 && p.passed+len(data) >= f.Limit {
		data, whole = data[:f.Limit-p.passed], false
	}
	if f.Delay+f.Jitter > 0 && !p.wait(f.Delay+rand.N(f.Jitter+1)-time.Since(c.Timestamp)) {
		return false
	}
	p.passed += len(data)
	for len(data) > 0 {
		n := len(data)
		if f.Piece > 0 {
			n = min(n, f.Piece)
		}
		if !p.write(&stream.StreamChunk{Data: data[:n], Timestamp: c.Timestamp}) {
			return false
		}
		data = data[n:]
	}
	return whole
}

// wait holds data up; false: the connection was cut meanwhile.
func (p *pipe) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-p.changed:
			if !p.look() {
				return false
			}
		}
	}
}

// write hands data to the other side; false: the connection was cut, or nobody takes it.
func (p *pipe) write(c *stream.StreamChunk) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case p.stub.Output <- c:
			return true
		case <-p.changed:
			if !p.look() {
				return false
			}
		case <-timer.C:
			return false
		}
	}
}

// patience is how long the other side may not take data: toxiproxy does not say that it has gone.
const patience = time.Minute

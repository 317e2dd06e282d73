package plan

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Gauge is a number on a page.
type Gauge int

// The numbers.
const (
	Ready     Gauge = iota // 1: the process takes a SIGTERM for what it is
	Running                // handlers that run
	Begun                  // handlers that began
	Succeeded              // handlers that returned nil
	Errors                 // faults of handlers, from here
	Panics
	Goexits
	Slows
	Hangs
	AfterEffects
	Poisons // processes killed by a message
	Refused // dead letters that the target refused
	Unsent  // tries to send a dead letter that failed for another reason
	Deafs   // handlers that went on after the end of their context
	Memory  // bytes of heap, at most
	gauges
)

// Page is memory that a process shares with its file, so that others read it, also after the process was killed. All
// methods may be called from any goroutine, and on both sides.
type Page struct{ mem []byte }

const pageSize = 4096

// OpenPage opens the page at path, and creates it if there is none.
func OpenPage(path string) (*Page, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(pageSize)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("plan: page %s: %w", path, err)
	}
	return &Page{mem}, nil
}

func (p *Page) at(g Gauge) *int64 {
	_ = [gauges]struct{}{}[g] // a gauge that is none is a defect of the caller
	return (*int64)(unsafe.Pointer(&p.mem[8*g]))
}

// Add adds n to a number.
func (p *Page) Add(g Gauge, n int64) { atomic.AddInt64(p.at(g), n) }

// Get reads a number.
func (p *Page) Get(g Gauge) int64 { return atomic.LoadInt64(p.at(g)) }

// Raise sets a number to n if that is more. One process does.
func (p *Page) Raise(g Gauge, n int64) {
	if n > p.Get(g) {
		atomic.StoreInt64(p.at(g), n)
	}
}

// Close gives the memory back; what is in the file stays.
func (p *Page) Close() error { return syscall.Munmap(p.mem) }

package plan

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Class says how a message is to end.
type Class string

// The classes. Every message but those of the first two is doomed: it ends in the archive.
const (
	Fine    Class = "fine"    // succeeds, at the latest at attempt LastFault + 1: its effect commits with its success (InTx)
	Plain   Class = "plain"   // the same, but its effect commits by itself, and its handler returns nil after that
	Bad     Class = "bad"     // its handler says Terminal
	Failing Class = "failing" // its handler always fails: exhausted
	Poison  Class = "poison"  // kills each process that runs it
)

// Groups is among how many FIFO groups, or keys, the messages are spread.
const Groups = 40

// Body is the body of the n-th message: its class, then its number.
func Body(seed uint64, n int) string { return Of(ClassOf(seed, n), n) }

// Of is the body of the n-th message, of a class.
func Of(c Class, n int) string { return fmt.Sprintf("%s %09d", c, n) }

// Number is that of a body, in digits that sort.
func Number(body string) string {
	_, n, _ := strings.Cut(body, " ")
	return n
}

// Group is the group or key of the n-th message.
func Group(n int) string { return fmt.Sprintf("group-%d", n%Groups) }

// Succeeds says whether messages of the class are to succeed.
func (c Class) Succeeds() bool { return c == Fine || c == Plain }

// ClassOf draws the class of the n-th message. Of 10,000, 2,000 are plain, 50 bad, 10 failing and 4 poison, about.
func ClassOf(seed uint64, n int) Class {
	switch d := draw(seed, "class", n, 0) % 10_000; {
	case d < 4:
		return Poison
	case d < 14:
		return Failing
	case d < 64:
		return Bad
	case d < 2064:
		return Plain
	}
	return Fine
}

// Parse returns the class in a body.
func Parse(body []byte) Class {
	class, _, _ := strings.Cut(string(body), " ")
	return Class(class)
}

// Fault is what a handler does instead of its work.
type Fault uint8

// Faults of handlers. The zero value is none.
const (
	NoFault Fault = iota
	Error
	Panic
	Goexit
	Slow        // works for long, then well
	Hang        // until its context is cancelled
	AfterEffect // fails after its effect
)

// LastFault is the last attempt at which a handler of a fine message may fail.
const LastFault = 6

// Draw draws what the handler of a message does at an attempt, and how long it works.
func Draw(seed uint64, body []byte, attempt int) (Fault, time.Duration) {
	d := draw(seed, string(body), attempt, 1)
	work := time.Duration(d>>32%16_000) * time.Microsecond
	if attempt > LastFault {
		return NoFault, work
	}
	switch d := d % 1000; {
	case d < 150:
		return Error, work
	case d < 260:
		return Panic, work
	case d < 340:
		return Goexit, work
	case d < 390:
		return Slow, 80 * time.Millisecond
	case d < 392:
		return Hang, 0
	case d < 440:
		return AfterEffect, work
	}
	return NoFault, work
}

// Deafness draws how long the handler of a message goes on after its context has ended, if it is one of the so many of a
// thousand that do. Zero: it is not.
func Deafness(seed uint64, body []byte, attempt, permille int, longest time.Duration) time.Duration {
	d := draw(seed, string(body), attempt, 3)
	if attempt > LastFault || int(d%1000) >= permille {
		return 0
	}
	const eighths = 8
	return longest/eighths + time.Duration(d>>32%1000)*(longest-longest/eighths)/1000
}

// Calls are the outside calls of a message that has some, in their order. Each is a step of the message.
var Calls = []string{"charge", "ship"}

// HasCalls draws whether a message has outside calls: one of eight that are to succeed does. It makes them at each attempt, before
// anything else.
func HasCalls(seed uint64, body []byte) bool {
	return Parse(body).Succeeds() && draw(seed, string(body), 0, 4)%8 == 0
}

// The events of an outside call.
const (
	CallMade     = "made"     // it was made
	CallReturned = "returned" // its result was given to its handler, by this attempt's call or from the ledger
)

// Refuses draws whether the n-th dead letter of a process is refused, as percent of them are.
func Refuses(seed uint64, process string, n, percent int) bool {
	return int(draw(seed, process, n, 2)%100) < percent
}

// draw is chance that is the same in every process.
func draw(seed uint64, what string, n, salt int) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(n))
	binary.LittleEndian.PutUint64(b[16:], uint64(salt))
	_, _ = h.Write(b[:]) // a hash takes everything
	_, _ = h.Write([]byte(what))
	// FNV's low bits of similar inputs are similar: mix them (splitmix64's finalizer).
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

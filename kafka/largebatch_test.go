package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kgo"
)

// small is a limit that the bombs of these tests are over.
const small = 1 << 20

var smallLimit = kgo.MaxDecompressBatchBytes(small)

// A batch unpacked to more than the client takes. The client stopped reading its partition, the worker took that for trouble
// that heals, and Health said nothing of it any more after the next look at the topics: nothing of the partition was handled,
// for ever. Run ends, and says where the batch is.
func TestPitfall123_BatchOverTheLimit(t *testing.T) { onBoth(t, 2, largeBatchEnds) }

func largeBatchEnds(s *site) {
	t := s.t
	s.send(0, numbers("before ", 5)...)
	s.sendBatch(bomb(t, kgo.ZstdCompression(), 3*small, 4))
	b := newBook()
	r := s.start(b.handle, nil, smallLimit)
	err := r.wait()
	if !errors.Is(err, ErrLargeBatch) {
		t.Fatalf("Run: %v", err)
	}
	for _, part := range []string{s.topic, "partition 0", "offsets 5 to 8", fmt.Sprint(small), "kgo.MaxDecompressBatchBytes"} {
		if !strings.Contains(err.Error(), part) || !strings.Contains(r.Health().LastError, part) {
			t.Errorf("%q is not in %q, or not in Health's %q", part, err, r.Health().LastError)
		}
	}
	if at := s.committed(0); at > 5 {
		t.Errorf("committed %d, past the batch", at)
	}
	b.once(t, numbers("before ", 5))
}

// With LargeBatchPass the batch is passed, wherever it is, and archived by its place alone. The commit waits for that.
func TestPitfall123_BatchIsPassed(t *testing.T) { onBoth(t, 2, largeBatchPassed) }

func largeBatchPassed(s *site) {
	t := s.t
	s.sendBatch(bomb(t, kgo.ZstdCompression(), 3*small, 4)) // 0 to 3: nothing was read of the partition before it
	s.send(0, numbers("between ", 5)...)
	s.sendBatch(bomb(t, kgo.GzipCompression(), 3*small, 1)) // 9
	s.sendBatch(bomb(t, kgo.Lz4Compression(), 3*small, 2))  // 10 and 11
	s.send(0, numbers("behind ", 5)...)
	s.send(1, numbers("other ", 5)...)
	values := append(append(numbers("between ", 5), numbers("behind ", 5)...), numbers("other ", 5)...)
	c, seal := quick(), &lock{}
	c.LargeBatch, c.Cipher, c.DeadLetterTimeout = LargeBatchPass, seal, c.Drain
	letters := new(counting)
	c.DeadLetter = letters
	b := newBook()
	r := s.start(b.handle, c, smallLimit)
	eventually(t, "all others are handled", func() bool { return b.len() == len(values) })
	eventually(t, "the passed batches are reported", func() bool {
		return strings.Contains(strings.Join(r.Health().Warnings, "; "), "3 batches were passed") &&
			strings.Contains(strings.Join(r.Health().Warnings, "; "), "offsets 10 to 11")
	})
	if at := s.committed(0); at != 0 {
		t.Errorf("committed %d while nothing is archived, want 0", at)
	}
	seal.open.Store(true)
	s.caughtUp()
	r.end()
	b.once(t, values)
	if n := letters.n.Load(); n > 0 {
		t.Errorf("%d dead letters were published: they have no body", n)
	}
	s.passed(map[string]bool{"0..3": true, "9..9": true, "10..11": true})
	s.readAgainWithRoom(values)
}

// passed checks what is archived of batches that were passed.
func (s *site) passed(want map[string]bool) {
	t := s.t
	t.Helper()
	n := 0
	for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if err := d.Open(t.Context(), &lock{}); err != nil {
			t.Fatal(err)
		}
		left, ok := d.LeftOut()
		if !ok || !want[left.Offsets] || d.Body != nil || d.Kind != ledger.KindInvalid || len(d.Errors) != 1 ||
			!strings.Contains(d.Errors[0].Error, s.topic) || d.Status.State != ledger.Failed || d.Sent {
			t.Errorf("archived: %+v, left out %+v (%v)", d, left, ok)
		}
	}
	if n != len(want) {
		t.Errorf("%d are archived, want %d", n, len(want))
	}
	for l, err := range replay.Archive(s.ledger).Letters(t.Context(), &ledger.Filter{Cipher: &lock{}}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Unreadable == nil {
			t.Errorf("a replay takes %s for a message", l.Message.ID)
		}
	}
}

// readAgainWithRoom resets the group's offset: a worker with a larger limit handles what the batches have, and that alone.
func (s *site) readAgainWithRoom(handled []string) {
	t := s.t
	t.Helper()
	s.setOffset(0, 0)
	var sizes atomic.Int64
	var again atomic.Int64
	known := map[string]bool{}
	for _, v := range handled {
		known[v] = true
	}
	r := s.start(func(_ context.Context, m *consumer.Message) error {
		if known[string(m.Body)] {
			again.Add(1)
		}
		sizes.Add(int64(len(m.Body)))
		return nil
	}, nil)
	s.caughtUp()
	r.end()
	if want := int64(3*3*small + 3 + 1); sizes.Load() != want || again.Load() > 0 {
		t.Errorf("records of %d bytes are handled, want %d; and %d again", sizes.Load(), want, again.Load())
	}
}

// lock is a cipher that seals nothing before it is open.
type lock struct{ open atomic.Bool }

func (l *lock) Seal(_ context.Context, plain []byte) ([]byte, error) {
	if !l.open.Load() {
		return nil, errors.New("the key is away")
	}
	return append([]byte("sealed "), plain...), nil
}

func (l *lock) Open(_ context.Context, sealed []byte) ([]byte, error) {
	return sealed[len("sealed "):], nil
}

// counting counts dead letters.
type counting struct{ n atomic.Int64 }

func (c *counting) Publish(context.Context, *consumer.DeadLetter) error { c.n.Add(1); return nil }
func (c *counting) Source(context.Context) (string, error)              { return "", nil }

// bombHeap bounds, in limits, what a worker takes that meets a batch of a gigabyte, garbage, the fake cluster and what the test made
// of it included. The client's buffers double as they grow, and what they left behind is collected when the heap has doubled.
// snappy says its size before.
var bombHeap = map[string]uint64{"snappy": 1, "zstd": 4, "gzip": 8, "lz4": 8}

// A megabyte that unpacks to a gigabyte is unpacked before anything is claimed: a process that dies of it counts no crash for
// it, and neither does the next one. The client unpacks no more than follows from what the ledger archives.
func TestPitfall124_DecompressionBomb(t *testing.T) { // the heap is measured: one after the other, beside nothing else
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			s, limit := fakeSite(t, 1), "8388608"
			s.topic += "-large"
			if _, err := s.adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &limit}, s.topic); err != nil {
				t.Fatal(err)
			}
			if name == "snappy" { // a gigabyte is not less than 48 MiB of it
				s.sendBatch(appendBatch(nil, 2, 1, append(binary.AppendUvarint(nil, 1<<30), 0, 0)))
			} else {
				s.sendBatch(bomb(t, codec, 1<<30, 1))
			}
			runtime.GC()
			highest := heapDuring(t, func() {
				if err := s.worker(nothing, nil).Run(t.Context()); !errors.Is(err, ErrLargeBatch) {
					t.Errorf("Run: %v", err)
				}
			})
			if most := bombHeap[name] * uint64(unpackLimit(ledger.DefaultLimits.Archive)); highest > most {
				t.Errorf("the heap grew by %d MiB, want at most %d MiB", highest>>20, most>>20)
			}
			t.Logf("the heap grew by %d MiB at most", highest>>20)
		})
	}
}

func TestUnpackLimit(t *testing.T) {
	t.Parallel()
	for archive, want := range map[int]int{1: 16 << 20, 8 << 20: 16 << 20, 64 << 20: 128 << 20, 2 << 30: math.MaxInt32} {
		if got := unpackLimit(archive); got != want {
			t.Errorf("an archive of %d bytes: %d, want %d", archive, got, want)
		}
	}
}

// A decompression bomb was unpacked up to the client's own limit of a gigabyte. The limit follows from the archive's; the caller's own
// stands.
func TestPitfall124_LimitOfABatch(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.ledger = limited(20 << 20)
	for want, opts := range map[int][]kgo.Opt{40 << 20: nil, small: {smallLimit}, 1 << 30: {kgo.MaxDecompressBatchBytes(1 << 30)}} {
		w := s.worker(nothing, nil, opts...)
		cl, err := kgo.NewClient(w.options(t.Context())...)
		if err != nil {
			t.Fatal(err)
		}
		if got := cl.OptValue(kgo.MaxDecompressBatchBytes); got != want {
			t.Errorf("a batch may unpack to %v bytes, want %d", got, want)
		}
		cl.CloseAllowingRebalance()
	}
}

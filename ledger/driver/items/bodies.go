package items

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// A large payload lies in chunks, which are written ahead of the delivery that names them. What is purged leaves blank ones, until the TTL
// that they had: a request that writes one late finds that, and writes nothing. Chunks of a delivery that was never filed, since its owner
// lost the message meanwhile, go by their TTL. The sweep does not look for them: it cannot tell them from those that are to be named next.

// payload is body and headers, behind so many bytes of the group.
func payload(a *ledger.Archive, aside int) []byte {
	headers := storage.EncodeHeaders(a.Headers)
	b := binary.AppendUvarint([]byte(a.Group[:aside]), uint64(len(headers)))
	return append(append(b, headers...), a.Body...)
}

// putChunks writes a large payload. The names of its chunks are of the delivery, the payload, the life of the message and what they are
// written over. So a transaction that is run again leaves no second copy, which no purge would find, and no other delivery has these chunks.
// Where they are blank somebody was ahead, and the transaction is run again; if nobody was, other chunks are taken.
func (t *tx) putChunks(stored *storedArchive, c *cell, whole []byte, expiry time.Time) (chunks int, err error) {
	message := t.cell(MessageName(keyOf(c.name)))
	of := binary.AppendVarint(getBytes(c.is, attrVersion), getNumber[int64](message.is, attrAt))
	for try := uint64(0); ; try++ {
		sum := sha256.Sum256(append(binary.AppendUvarint(slices.Clone(of), try), whole...))
		stored.Body = fmt.Sprintf("%x%x", c.name.Sort[2:], sum[:8])
		chunks, there, err := t.putAll(c.name, stored.Body, whole, expiry)
		if err != nil || there {
			return chunks, err
		}
		names := []Name{c.name, message.name}
		same, err := t.unchanged(names)
		if err != nil {
			return 0, err
		}
		if !same {
			t.wants = append(t.wants, names...)
			return 0, errWants
		}
	}
}

// putAll writes the chunks of one body, unless one of them is blank.
func (t *tx) putAll(archive Name, body string, whole []byte, expiry time.Time) (chunks int, there bool, err error) {
	for part := range slices.Chunk(whole, t.bounds.Item*7/8) { // what is left is for the name
		i := chunkName(archive, body, chunks).Item()
		i[attrData], i[attrTTL] = Bytes(part), Number(expiry.Unix()+1)
		if there, err := t.putChunk(i); err != nil || !there {
			return 0, false, err
		}
		chunks++
	}
	return chunks, true, nil
}

// putChunk writes a chunk, unless an earlier run has, for as long. It says whether it is there: one that is blank stays so.
func (t *tx) putChunk(i Item) (there bool, err error) {
	c := &cell{name: NameOf(i)}
	for n := 0; ; n++ {
		c.write(maps.Clone(i))
		set := &Set{Changes: []Change{c.change()}}
		if err := t.table.Write(t.ctx, []*Set{set}); err != nil || set.Written {
			return true, err
		}
		found, err := t.table.Get(t.ctx, []Name{c.name})
		if err != nil {
			return false, err
		}
		if c.was = found[c.name]; c.was != nil && (blank(c.was) || c.was[attrTTL].Number >= i[attrTTL].Number) {
			return !blank(c.was), nil
		}
		if n == 0 {
			continue
		}
		if why := Rest(t.ctx, n); why != nil {
			return false, conflict(why)
		}
	}
}

// blank says whether a chunk is one that was purged.
func blank(chunk Item) bool { return chunk[attrData].Kind == 0 }

// blanks are what a purge leaves of a payload.
func (s *storedArchive) blanks(a *ledger.ArchiveRecord, archive Name) (list []Item) {
	for _, n := range s.chunks(archive) {
		i := n.Item()
		i[attrVersion], i[attrTTL] = newVersion(), Number(a.At.Add(a.Keep).Unix()+1)
		list = append(list, i)
	}
	return list
}

// chunks are the names of the parts of an archived delivery's payload.
func (s *storedArchive) chunks(archive Name) (names []Name) {
	for n := range s.Chunks {
		names = append(names, chunkName(archive, s.Body, n))
	}
	return names
}

func chunkName(archive Name, body string, n int) Name {
	return Name{archive.Place, kindBody + archive.Sort[1:2] + body + string(binary.BigEndian.AppendUint32(nil, uint32(n)))}
}

// errPart says that a body cannot be read whole: its delivery was purged meanwhile, or it is lost.
var errPart = errors.New("a part of the body is missing")

// fill reads body and headers of a delivery, and a group that is with them.
func (s *Store) fill(ctx context.Context, i Item, a *ledger.ArchiveRecord, stored *storedArchive) error {
	whole := getBytes(i, attrResult)
	if names := stored.chunks(NameOf(i)); len(names) > 0 && stored.Purged.IsZero() {
		found, err := s.table.Get(ctx, names)
		if err != nil {
			return err
		}
		for _, n := range names {
			if found[n] == nil || blank(found[n]) {
				return fmt.Errorf("archive: message %x: %w", a.Key.Sum(), errPart)
			}
			whole = append(whole, getBytes(found[n], attrData)...)
		}
	}
	if len(whole) == 0 {
		return nil
	}
	if stored.Aside > 0 {
		aside := min(stored.Aside, len(whole))
		a.Group, whole = string(whole[:aside]), whole[aside:]
	}
	size, n := binary.Uvarint(whole)
	if n <= 0 || size > uint64(len(whole)-n) {
		return fmt.Errorf("archive: the body of %x cannot be read", a.Key.Sum())
	}
	var headers []byte
	if size > 0 {
		headers = whole[n : n+int(size)]
	}
	var err error
	if a.Headers, err = storage.DecodeHeaders(headers); err == nil && stored.HasBody {
		a.Body = append([]byte{}, whole[n+int(size):]...)
	}
	return err
}

package ranges

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"slices"
	"sort"
)

// Span is the offsets From <= o < To.
type Span struct{ From, To int64 }

// Len is the number of offsets in the span; zero if it is empty.
func (s Span) Len() int64 { return max(s.To-s.From, 0) }

// Has says whether the offset lies in the span.
func (s Span) Has(offset int64) bool { return s.From <= offset && offset < s.To }

// Touches says whether the spans share an offset, or lie side by side.
func (s Span) Touches(t Span) bool { return s.From <= t.To && t.From <= s.To }

// Meets says whether the spans share an offset.
func (s Span) Meets(t Span) bool { return s.From < t.To && t.From < s.To }

// Contains says whether all of t lies in the span.
func (s Span) Contains(t Span) bool { return s.From <= t.From && t.To <= s.To }

// above is what is left of the span behind t, if something is put there.
func (s Span) above(t Span) Span {
	if s.Meets(t) {
		s.From = t.To
	}
	if s.Len() == 0 {
		return Span{}
	}
	return s
}

// Set is a set of offsets, held as disjoint spans in ascending order that do not touch. The zero value is empty. Adding at
// the end, as it happens when messages finish in order, costs nothing but a comparison.
type Set struct{ spans []Span }

// Spans returns the spans in ascending order; they are not to be changed.
func (s *Set) Spans() []Span { return s.spans }

// Empty says whether there is no offset in the set.
func (s *Set) Empty() bool { return len(s.spans) == 0 }

// Count is the number of offsets.
func (s *Set) Count() int64 {
	var n int64
	for _, span := range s.spans {
		n += span.Len()
	}
	return n
}

// after is the index of the first span that ends at or behind the offset.
func (s *Set) after(offset int64) int {
	n := len(s.spans)
	if n > 0 && s.spans[n-1].To < offset {
		return n
	}
	return sort.Search(n, func(i int) bool { return s.spans[i].To >= offset })
}

// Has says whether the offset is in the set.
func (s *Set) Has(offset int64) bool {
	i := s.after(offset + 1)
	return i < len(s.spans) && s.spans[i].From <= offset
}

// Meets says whether an offset of the span is in the set.
func (s *Set) Meets(span Span) bool {
	i := s.after(span.From + 1)
	return i < len(s.spans) && s.spans[i].From < span.To
}

// Covers says whether all of the span is in the set.
func (s *Set) Covers(span Span) bool {
	if span.Len() == 0 {
		return true
	}
	i := s.after(span.To)
	return i < len(s.spans) && s.spans[i].From <= span.From
}

// Add puts all of the span in.
func (s *Set) Add(span Span) {
	if span.Len() == 0 {
		return
	}
	i := s.after(span.From)
	j := i
	for j < len(s.spans) && s.spans[j].From <= span.To {
		span.From, span.To = min(span.From, s.spans[j].From), max(span.To, s.spans[j].To)
		j++
	}
	if j == i+1 {
		s.spans[i] = span
		return
	}
	s.spans = slices.Replace(s.spans, i, j, span)
}

// AddAll puts all of the other set in.
func (s *Set) AddAll(other Set) {
	for _, span := range other.spans {
		s.Add(span)
	}
}

// Remove takes all of the span out.
func (s *Set) Remove(span Span) {
	if span.Len() == 0 {
		return
	}
	i := s.after(span.From + 1)
	j := i
	var left []Span
	for j < len(s.spans) && s.spans[j].From < span.To {
		if s.spans[j].From < span.From {
			left = append(left, Span{s.spans[j].From, span.From})
		}
		if s.spans[j].To > span.To {
			left = append(left, Span{span.To, s.spans[j].To})
		}
		j++
	}
	s.spans = slices.Replace(s.spans, i, j, left...)
}

// Without returns what of the span is not in the set, in ascending order.
func (s *Set) Without(span Span) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		at := span.From
		for i := s.after(span.From + 1); i < len(s.spans) && s.spans[i].From < span.To; i++ {
			if at < s.spans[i].From && !yield(Span{at, s.spans[i].From}) {
				return
			}
			at = s.spans[i].To
		}
		if at < span.To {
			yield(Span{at, span.To})
		}
	}
}

// Clone returns a copy that shares nothing with s.
func (s *Set) Clone() Set { return Set{slices.Clone(s.spans)} }

// Encode gives the stored form, relative to base, which is not above the first offset: nil for the empty set; else the
// distances from one bound to the next as unsigned varints.
func (s *Set) Encode(base int64) []byte {
	if len(s.spans) == 0 {
		return nil
	}
	out := make([]byte, 0, 4*len(s.spans))
	for _, span := range s.spans {
		out = binary.AppendUvarint(out, uint64(span.From-base))
		out = binary.AppendUvarint(out, uint64(span.To-span.From))
		base = span.To
	}
	return out
}

var errEncoding = errors.New("ranges: a stored set of offsets cannot be read")

// DecodeSet reads what Encode wrote.
func DecodeSet(b []byte, base int64) (Set, error) {
	var s Set
	for len(b) > 0 {
		skip, n := binary.Uvarint(b)
		if n <= 0 {
			return Set{}, errEncoding
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size == 0 || skip > math.MaxInt64 || size > math.MaxInt64 {
			return Set{}, errEncoding
		}
		from := base + int64(skip)
		base = from + int64(size)
		if from < 0 || base < from {
			return Set{}, errEncoding
		}
		s.Add(Span{from, base})
		b = b[n+m:]
	}
	return s, nil
}

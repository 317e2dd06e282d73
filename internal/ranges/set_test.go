package ranges

import (
	"testing"

	"pgregory.net/rapid"
)

// The twin of a Set is a plain map of offsets.
func TestSet_AgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		twin := map[int64]bool{}
		span := rapid.Custom(func(t *rapid.T) Span {
			from := rapid.Int64Range(0, 40).Draw(t, "from")
			return Span{from, from + rapid.Int64Range(0, 12).Draw(t, "len")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				x := span.Draw(t, "span")
				s.Add(x)
				for o := x.From; o < x.To; o++ {
					twin[o] = true
				}
			},
			"remove": func(t *rapid.T) {
				x := span.Draw(t, "span")
				s.Remove(x)
				for o := x.From; o < x.To; o++ {
					delete(twin, o)
				}
			},
			"": func(t *rapid.T) { sameAsMap(t, &s, twin, span.Draw(t, "look")) },
		})
	})
}

func sameAsMap(t *rapid.T, s *Set, twin map[int64]bool, look Span) {
	if int(s.Count()) != len(twin) || s.Empty() != (len(twin) == 0) {
		t.Fatalf("count %d, want %d: %v", s.Count(), len(twin), s.Spans())
	}
	for o := int64(-1); o < 60; o++ {
		if s.Has(o) != twin[o] {
			t.Fatalf("has %d: %v, want %v: %v", o, s.Has(o), twin[o], s.Spans())
		}
	}
	for i, span := range s.Spans() {
		if span.Len() == 0 || i > 0 && s.Spans()[i-1].To >= span.From {
			t.Fatalf("spans touch or are empty: %v", s.Spans())
		}
	}
	missing := map[int64]bool{}
	for span := range s.Without(look) {
		for o := span.From; o < span.To; o++ {
			missing[o] = true
		}
	}
	all := true
	for o := look.From; o < look.To; o++ {
		all = all && twin[o]
		if missing[o] == twin[o] {
			t.Fatalf("without %v: offset %d wrong: %v", look, o, s.Spans())
		}
	}
	if s.Covers(look) != all {
		t.Fatalf("covers %v: %v, want %v: %v", look, s.Covers(look), all, s.Spans())
	}
	back, err := DecodeSet(s.Encode(0), 0)
	if err != nil || len(back.Spans()) != len(s.Spans()) || back.Count() != s.Count() {
		t.Fatalf("encoded %v, read %v, %v", s.Spans(), back.Spans(), err)
	}
}

func FuzzDecodeSet(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSet(b, 0)
		if err != nil {
			return
		}
		again, err := DecodeSet(s.Encode(0), 0)
		if err != nil || again.Count() != s.Count() {
			t.Fatalf("%x: %v read as %v, %v", b, s.Spans(), again.Spans(), err)
		}
	})
}

package ranges

import "github.com/ackledger/ackledger/ledger"

// Saved is one of this owner's ranges as it is to be, with the messages that leave it for rows.
type Saved struct {
	Token uint64
	Done  Set
	Back  Set
	Rows  []Row // Offset, Fingerprint; the rest is the range's
	// Known says that an earlier write may have closed it: then it may be gone.
	Known    bool
	Messages int64
}

// Save says what a transaction has to write so that this owner's ranges are as given. lost are the tokens of those that
// are not this owner's any more. It is pure.
func Save(f *Facts, saved []Saved) (c Change, lost []uint64) {
	c = Change{Version: f.Version, Token: f.Token, Top: f.Top}
	if f.Locked {
		return c, nil
	}
	var add []Segment
	for i := range saved {
		s := &saved[i]
		r := find(f.Ranges, s.Token)
		if r == nil || r.Holder != ledger.Mine {
			if !s.Known || r != nil {
				lost = append(lost, s.Token)
			}
			continue
		}
		settled, done := f.settled(r), r.Done.Clone()
		for _, row := range s.Rows {
			if settled.Has(row.Offset) {
				continue // its InTx had committed when the settlement that moves it came, and a row would win over that
			}
			row.Token, row.At, row.Expiry = r.Token, r.At, r.At.Add(r.Window)
			c.Rows = append(c.Rows, row)
		}
		r.Done.AddAll(s.Done)
		r.Back, r.Messages = s.Back.Clone(), s.Messages
		for _, span := range done.Spans() { // the same of one that is given back; a segment speaks for itself
			r.Back.Remove(span)
		}
		r.Messages += s.Back.Count() - r.Back.Count()
		settled.AddAll(r.Done)
		settled.AddAll(r.Back)
		if !settled.Covers(r.Span) || r.Locked { // who has it locked is about to end: it goes later
			c.Alter = append(c.Alter, *r)
			continue
		}
		c.Close = append(c.Close, r.Token)
		add = append(add, segments(r, f.Now)...)
	}
	c.put(f.Segments, add)
	return c, lost
}

// settled is what of a range is done as the ledger has it: successes that were committed with their effects lie in segments.
func (f *Facts) settled(r *Range) Set {
	all := r.Done.Clone()
	for _, seg := range f.Segments {
		if !seg.Rows {
			all.Add(Span{max(seg.From, r.From), min(seg.To, r.To)})
		}
	}
	return all
}

func find(ranges []Range, token uint64) *Range {
	for i := range ranges {
		if ranges[i].Token == token {
			return &ranges[i]
		}
	}
	return nil
}

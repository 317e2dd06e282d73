package flow

import "slices"

// Weight is how many bytes are in hand, against a limit. The largest message does not count where it is more than a quarter of
// the limit: it would keep out all others for as long as it waits for a retry. So what bounds memory is the limit and one
// message. It is pure, and no use is concurrent.
type Weight struct {
	Limit int64
	total int64
	large []int64 // messages of more than a quarter of the limit
}

// Add takes one message in.
func (w *Weight) Add(n int64) {
	w.total += n
	if n > w.Limit/4 {
		w.large = append(w.large, n)
	}
}

// Remove lets one message go that was added.
func (w *Weight) Remove(n int64) {
	w.total -= n
	if at := slices.Index(w.large, n); at >= 0 {
		w.large = slices.Delete(w.large, at, at+1)
	}
}

// AddAll takes several messages in, none of which is large; negative: they go.
func (w *Weight) AddAll(n int64) { w.total += n }

// Total is all that is in hand.
func (w *Weight) Total() int64 { return w.total }

// Counted is what counts against the limit.
func (w *Weight) Counted() int64 {
	if len(w.large) == 0 {
		return w.total
	}
	return w.total - slices.Max(w.large)
}

// Room is how much more is wanted; zero or less: nothing.
func (w *Weight) Room() int64 { return w.Limit - w.Counted() }

// Crowd is how many large messages take all the room together; zero: they do not.
func (w *Weight) Crowd() int {
	if len(w.large) < 2 || w.Room() > 0 {
		return 0
	}
	return len(w.large)
}

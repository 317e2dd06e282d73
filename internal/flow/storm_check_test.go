package flow

import "slices"

// settle ends an event.
func (w *storm) settle() {
	w.carryOut()
	var told Telling
	for w.f.Tell(&told) {
		for _, fin := range told.Finished {
			w.finished(fin)
		}
		if w.r.IntN(20) == 0 && !w.calm {
			if d, log := w.drop(); d.Ended() && slices.ContainsFunc(told.Finished, func(fin Finished) bool { return fin.sample().Key.Pos.Log == log }) {
				w.fatal("a drop has ended while the broker is told of log %s", log)
			}
		}
		w.f.Told(&told)
		w.carryOut()
	}
	w.check()
}

// runs says whether a handler has an item.
func (w *storm) runs(it *Item) bool {
	return slices.ContainsFunc(w.hands, func(h *handled) bool { return slices.Contains(h.items()[h.d.applied:h.d.limit], it) })
}

// carryOut does what the flow wants done at once.
func (w *storm) carryOut() {
	for {
		c := commands(w.f)
		for _, off := range c.CallOff {
			if !w.runs(off.Dispatch.Items[off.At]) {
				w.fatal("%q is called off, and no goroutine has it", off.Dispatch.Items[off.At].Key.ID)
			}
		}
		for _, d := range c.Recall {
			for _, h := range w.hands {
				if h.d == d && !h.recalled {
					h.recalled = true
					w.did["recalled"]++
					w.f.Recalled(d, w.r.IntN(d.N+1))
				}
			}
		}
		for _, d := range c.Ended {
			if w.drops[d]++; d == w.last && w.f.s.working > 0 {
				w.fatal("the drain has ended, and %d work", w.f.s.working)
			}
		}
		if len(c.Recall) == 0 {
			break
		}
	}
}

func (w *storm) finished(fin Finished) {
	items := []*Item{fin.Item}
	if fin.Range != nil {
		items = fin.Range.Records.Expand(0, fin.Range.Len)
		w.did["whole"]++
	}
	for _, it := range items {
		name := string(it.Key.ID)
		if w.left[name]--; w.left[name] != 0 {
			w.fatal("%q is finished again", name)
		}
		delete(w.left, name)
		if !fin.Verdict.Ack && !w.back[name] {
			w.fatal("%q is given back: %+v", name, fin.Verdict)
		}
	}
}

func (w *storm) check() {
	items, names, whole := map[string]int{}, map[string]bool{}, map[string]bool{}
	held, told := 0, 0
	add := func(it *Item) {
		if held++; it.told {
			told++
		}
		if name := string(it.Key.ID); names[name] || (w.left[name] != 1) != it.told {
			w.fatal("%q is in hand twice, or is finished, told %v", name, it.told)
		} else {
			names[name] = true
		}
	}
	for it := w.f.all; it != nil; it = it.allNext {
		items[it.Key.Pos.Log]++
		add(it)
		if has := it.phase >= claiming && it.phase <= settling; has != it.holds && (has || !it.maybe) {
			w.fatal("%q in phase %d has its key: %v", it.Key.ID, it.phase, it.holds)
		}
		if it.dispatch != nil != w.runs(it) {
			w.fatal("%q in phase %d is dispatched: %v", it.Key.ID, it.phase, it.dispatch != nil)
		}
	}
	running := 0
	w.ranges = slices.DeleteFunc(w.ranges, func(r *Range) bool { return !r.whole })
	for _, r := range w.ranges {
		for _, it := range r.Records.Expand(0, r.Len) {
			add(it)
		}
		if r.phase != queued {
			whole[r.log] = true
		}
		if r.Ordered && r.dispatch != nil {
			running++
		}
	}
	for log := range whole {
		if items[log] > 0 {
			w.fatal("%d items of log %s are in hand beside ranges that are ours", items[log], log)
		}
	}
	for _, h := range w.hands {
		for _, it := range h.items()[h.d.applied:h.d.limit] {
			if it.OrderingKey != "" && h.d.rng == nil && !it.isHead() && !h.d.ordered {
				w.fatal("an item runs before its turn")
			}
		}
	}
	if held-told != len(w.left) || w.f.s.held != held || running > 1 {
		w.fatal("%d in hand, of %d the broker knows, the flow says %d, %d are not finished; %d ordered ranges run", held, told, w.f.s.held, len(w.left), running)
	}
	w.checkStops()
}

// checkStops checks what must hold while nothing may start, and of what a broker takes back.
func (w *storm) checkStops() {
	for _, h := range w.hands {
		if !w.f.MayStart() && !h.recalled {
			w.fatal("a handler may begin, although nothing may start")
		}
	}
	if !w.f.MayStart() && len(w.ranges) > 0 {
		w.fatal("%d ranges are whole, although nothing may start", len(w.ranges))
	}
	for name, until := range w.grace {
		if until <= w.woke && w.left[name] > 0 {
			w.fatal("%q is not given back when the grace is over", name)
		}
	}
}

// settles begins a call that settles.
func (w *storm) settles(b *Batch) {
	names := func(b *Batch) (names []string) {
		for i := range b.Items {
			names = append(names, string(b.Items[i].Item.Key.ID))
		}
		for _, r := range b.Ranges {
			for _, it := range r.Records.Expand(0, r.Len) {
				names = append(names, string(it.Key.ID))
			}
		}
		return names
	}
	mine := names(b)
	for _, o := range w.batches {
		for _, name := range names(o) {
			if slices.Contains(mine, name) {
				w.fatal("%q is being settled twice", name)
			}
		}
	}
	for i, r := range b.Ranges {
		for _, before := range w.f.s.logs[r.log].ranges {
			if before == r {
				break
			}
			if !slices.Contains(b.Ranges[:i], before) {
				w.fatal("a range of log %s is settled before one that was offered earlier", r.log)
			}
		}
	}
	w.batches = append(w.batches, b)
}

// ended checks what must hold when nothing is to be done any more.
func (w *storm) ended() {
	f := w.f
	if n := []int{f.s.held, f.s.ahead, f.s.taken, f.s.working, f.s.waitCount, len(f.s.logs), len(f.s.sequences), f.s.inflight.n,
		len(f.dispatches), f.watched, f.claiming, f.settling, f.doneRecords, int(f.s.bytes.Total()), len(f.calls)}; !slices.Equal(n, make([]int, len(n))) {
		w.fatal("left behind: %v", n)
	}
}

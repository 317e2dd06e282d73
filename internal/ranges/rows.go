package ranges

import (
	"context"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// repeat notes a settlement of what its range has as settled, which holds as [ledger.DecideSettle] says. Its row is asked
// first: the token may be a row's that has the number of a range.
func (c *settling) repeat(i int, back bool) {
	if kind := c.in[i].Kind; back && kind != ledger.Release || kind == ledger.RecordStep {
		return
	}
	if c.again == nil {
		c.again = map[int]bool{}
	}
	c.again[i] = true
}

// moved leaves to their rows what a claim has taken out of its range, and closed that, since the settlements were sorted, and
// what was in a range that is not remembered any more. The owner is locked.
func (c *settling) moved() {
	for _, p := range c.place {
		past, ok := p.log.past[p.of]
		if !ok && p.log.open[p.of] != nil {
			continue
		}
		_, offset := SplitSum(c.ticket(p.item).Sum())
		switch k := p.item - len(c.in); {
		case k >= 0:
			if !ok || past.moved.Meets(Span{offset, c.whole[k].Last + 1}) {
				c.out[p.item] = ledger.ErrParts
			}
		case (!ok || past.moved.Has(offset)) && !slices.Contains(c.rows, p.item):
			c.rows = append(c.rows, p.item)
		}
	}
	slices.Sort(c.rows)
}

// answer tells the settlements whose ranges could not be written; their rows are not asked.
func (c *settling) answer() {
	for _, p := range c.place {
		switch {
		case p.log.locked:
			c.out[p.item] = errHeld
		case slices.Contains(p.log.lost, p.of):
			c.out[p.item] = Lost(c.ticket(p.item))
		}
	}
	c.rows = slices.DeleteFunc(c.rows, func(i int) bool { return c.out[i] != nil })
}

// settleRows settles what has a row.
func (c *settling) settleRows(ctx context.Context) error {
	if len(c.rows) == 0 {
		return nil
	}
	settlements := c.in
	if len(c.rows) < len(c.in) {
		settlements = make([]ledger.Settlement, len(c.rows))
		for at, i := range c.rows {
			settlements[at] = c.in[i]
		}
	}
	errs, err := c.owner.Store.Settle(ctx, settlements)
	if err != nil {
		return err
	}
	for at, i := range c.rows {
		if c.out[i] = errs[at]; ledger.IsLost(errs[at]) && c.again[i] {
			c.out[i] = nil
		}
	}
	return nil
}

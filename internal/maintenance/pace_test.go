package maintenance_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

const (
	playBlock = 5000                  // rows that come together, lie together and go together
	playWork  = 15 * time.Millisecond // what a transaction of the sweep takes for them, as measured
)

// playedTable plays a table, from when it is empty: each row goes once the sweep meets it after its window, and its place
// is used again.
type playedTable struct {
	window, every time.Duration // every so long a block of rows comes
	came          []time.Duration
	free          []int
	next, clock   time.Duration
	worked        time.Duration
}

// at lets time pass, with the rows that come in it.
func (p *playedTable) at(clock time.Duration) {
	p.clock = clock
	for ; p.next <= clock; p.next += p.every {
		if n := len(p.free); n > 0 {
			p.came[p.free[n-1]] = p.next
			p.free = p.free[:n-1]
			continue
		}
		p.came = append(p.came, p.next)
	}
}

const goneBlock = time.Duration(-1)

// pass is one pass of the sweep, and the pause after it.
func (p *playedTable) pass(pace *maintenance.Pace, cfg ledger.MaintainConfig) {
	began, r := p.clock, ledger.SweepReport{}
	for i := range len(p.came) {
		var looked, removed int64
		if p.came[i] != goneBlock {
			looked = playBlock
			if p.came[i]+p.window < p.clock {
				removed, p.came[i], p.free = playBlock, goneBlock, append(p.free, i)
			}
		}
		r.Rows, r.Messages = r.Rows+looked, r.Messages+removed
		p.worked += playWork
		p.at(p.clock + playWork + pace.Pause(playWork, removed, looked))
	}
	pace.PassEnded()
	r.Took = p.clock - began
	p.at(p.clock + maintenance.PassPause(cfg, &r))
}

// TestSweepPaceKeepsUp: while little expires the sweep takes a fifth of one connection at most; however fast rows expire,
// up to what it can remove at all, it keeps the table at a bounded multiple of the rows that are in their window.
func TestSweepPaceKeepsUp(t *testing.T) {
	t.Parallel()
	cfg, err := maintenance.WithDefaults(ledger.MaintainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rows   int64
		window time.Duration
		share  float64 // of the time that it works
		size   float64 // of the table, over the rows of a window
	}{
		"1/1000 of 20 million a minute": {20e6, 1000 * time.Minute, 0.2, 1.05},
		"1/100 of 20 million a minute":  {20e6, 100 * time.Minute, 0.6, 1.3},
		"50,000 a second for 400 s":     {20e6, 400 * time.Second, 1, 2.6},
		"50,000 a second for 20 min":    {60e6, 20 * time.Minute, 1, 2.6},
		"5,000 a second for an hour":    {18e6, time.Hour, 0.6, 1.6},
		"50,000 a second for 10 s":      {500e3, 10 * time.Second, 1, 10}, // the pause of a minute is more than its window
		"10 a second for 12 hours":      {432e3, 12 * time.Hour, 0.2, 1.05},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &playedTable{window: c.window, every: time.Duration(float64(c.window) / float64(c.rows) * playBlock)}
			pace := maintenance.NewPace(cfg.Batch, time.Second)
			var half int
			end := max(8*c.window, time.Hour)
			for p.clock < end {
				p.pass(pace, cfg)
				if p.clock < end/2 {
					half = len(p.came)
				}
			}
			size := float64(len(p.came)) * playBlock / float64(c.rows)
			share := float64(p.worked) / float64(p.clock)
			t.Logf("works %.0f %% of the time; the table has %.2f times the rows of a window", 100*share, size)
			if share > c.share || size > c.size {
				t.Errorf("works %.2f of the time, want %.2f at most; the table has %.2f times the rows of a window, want %.2f at most",
					share, c.share, size, c.size)
			}
			if len(p.came) > half+half/20 {
				t.Errorf("the table still grows: %d blocks after half of the time, %d at the end", half, len(p.came))
			}
		})
	}
}

package maintenance

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Tally adds up what a pass meets, and makes the statistics of it. Ages of pending messages go into buckets that grow by
// a tenth each, so that a tally stays small however many are pending and tallies of parts can be added. Pure; stores
// keep one a pass. The zero value is empty and ready. Not safe for concurrent use.
type Tally struct {
	scopes    map[string]*scopeTally
	abandoned []ledger.Abandoned
}

type scopeTally struct {
	stats ledger.ScopeStats
	ages  map[int]int64
}

// ageGrowth is the ratio of two neighbouring buckets' bounds.
const ageGrowth = 1.1

// AgeBucket is the bucket of an age: the smallest b with 1.1^b microseconds at least that age. Stores that count in SQL
// compute ceil(ln(greatest(microseconds, 1)) / ln(1.1)).
func AgeBucket(age time.Duration) int {
	return int(math.Ceil(math.Log(math.Max(float64(age)/float64(time.Microsecond), 1)) / math.Log(ageGrowth)))
}

// BucketAge is the longest age of a bucket.
func BucketAge(bucket int) time.Duration {
	us := math.Pow(ageGrowth, float64(bucket))
	if us > float64(math.MaxInt64/int64(time.Microsecond)) {
		return math.MaxInt64
	}
	return time.Duration(us * float64(time.Microsecond))
}

func (t *Tally) scope(name string) *scopeTally {
	s := t.scopes[name]
	if s == nil {
		if t.scopes == nil {
			t.scopes = make(map[string]*scopeTally)
		}
		s = &scopeTally{stats: ledger.ScopeStats{Scope: name}, ages: make(map[int]int64)}
		t.scopes[name] = s
	}
	return s
}

// Add counts n messages of a scope that are in a state other than pending.
func (t *Tally) Add(scope string, state ledger.State, n int64) {
	switch s := &t.scope(scope).stats; state {
	case ledger.Succeeded:
		s.Succeeded += n
	case ledger.Failed:
		s.Failed += n
	}
}

// AddPending counts n pending messages of one age bucket, the oldest of which has the given age, and how many of them
// are abandoned.
func (t *Tally) AddPending(scope string, bucket int, n, abandoned int64, oldest time.Duration) {
	s := t.scope(scope)
	s.stats.Pending += n
	s.stats.Abandoned += abandoned
	s.stats.OldestPending = max(s.stats.OldestPending, oldest)
	s.ages[bucket] += n
}

// Abandon notes an abandoned message; the [ledger.MaxAbandoned] that expired first are kept.
func (t *Tally) Abandon(a ledger.Abandoned) {
	t.abandoned = append(t.abandoned, a)
	if len(t.abandoned) >= 2*ledger.MaxAbandoned {
		t.abandoned = t.Oldest()
	}
}

// Oldest returns the abandoned messages that expired first, at most [ledger.MaxAbandoned].
func (t *Tally) Oldest() []ledger.Abandoned {
	out := slices.Clone(t.abandoned)
	slices.SortStableFunc(out, func(a, b ledger.Abandoned) int { return a.Expiry.Compare(b.Expiry) })
	return out[:min(len(out), ledger.MaxAbandoned)]
}

// Abandoned is the number of abandoned messages of all scopes.
func (t *Tally) Abandoned() (n int64) {
	for _, s := range t.scopes {
		n += s.stats.Abandoned
	}
	return n
}

// Scopes returns the statistics, the largest scope first, at most [ledger.MaxStatScopes].
func (t *Tally) Scopes() []ledger.ScopeStats {
	out := make([]ledger.ScopeStats, 0, len(t.scopes))
	for _, s := range t.scopes {
		s.stats.PendingAgeP95, s.stats.PendingAgeP99 = s.percentile(95), s.percentile(99)
		out = append(out, s.stats)
	}
	rows := func(s *ledger.ScopeStats) int64 { return s.Pending + s.Succeeded + s.Failed }
	slices.SortFunc(out, func(a, b ledger.ScopeStats) int {
		return cmp.Or(cmp.Compare(rows(&b), rows(&a)), cmp.Compare(a.Scope, b.Scope))
	})
	return out[:min(len(out), ledger.MaxStatScopes)]
}

// percentile is the age below which p of 100 pending messages are, never above the oldest one's.
func (s *scopeTally) percentile(p int64) time.Duration {
	need := (s.stats.Pending*p + 99) / 100
	for _, b := range slices.Sorted(maps.Keys(s.ages)) {
		if need -= s.ages[b]; need <= 0 {
			return min(BucketAge(b), s.stats.OldestPending)
		}
	}
	return 0
}

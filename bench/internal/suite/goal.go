package suite

import "math"

// Goal is one number that was aimed at.
type Goal struct {
	Text   string // what it says, with its bound
	Bound  float64
	AtMost bool   // the value is to be at most Bound; else at least
	Unit   string // "×" for ratios, "%", "B", …
	// Value computes the number from one round.
	Value func(Round) float64
}

// Round reads the values of one round.
type Round struct {
	rows map[string]*Row
	i    int
}

// Of is the value of that name that the case (Case.ID) had in this round; NaN if there is none.
func (r Round) Of(id, name string) float64 {
	row := r.rows[id]
	if row == nil || r.i >= len(row.Rounds) {
		return math.NaN()
	}
	v, ok := row.Rounds[r.i][name]
	if !ok {
		return math.NaN()
	}
	return v
}

// Rate is the case's messages a second in this round.
func (r Round) Rate(id string) float64 { return r.Of(id, Rate) }

// Verdict is a goal and what was measured.
type Verdict struct {
	Goal      Goal
	Median    float64 // NaN: what it needs was not measured
	Low, High float64 // over the rounds
}

// Known says whether everything that the goal needs was measured.
func (v Verdict) Known() bool { return !math.IsNaN(v.Median) }

// Met says whether the median keeps the bound.
func (v Verdict) Met() bool {
	if v.Goal.AtMost {
		return v.Median <= v.Goal.Bound
	}
	return v.Median >= v.Goal.Bound
}

// Always says whether each round keeps the bound.
func (v Verdict) Always() bool {
	if v.Goal.AtMost {
		return v.High <= v.Goal.Bound
	}
	return v.Low >= v.Goal.Bound
}

// Judge compares the outcome with the goals.
func Judge(o *Outcome, goals []Goal) []Verdict {
	rows := map[string]*Row{}
	for _, r := range o.Rows {
		rows[r.Case.ID()] = r
	}
	out := make([]Verdict, len(goals))
	for i, g := range goals {
		var values []float64
		for round := range o.Rounds {
			if v := g.Value(Round{rows, round}); !math.IsNaN(v) && !math.IsInf(v, 0) {
				values = append(values, v)
			}
		}
		v := Verdict{Goal: g, Median: Median(values)}
		v.Low, v.High = Spread(values)
		out[i] = v
	}
	return out
}

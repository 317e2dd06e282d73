// Package suite runs benchmark cases: the cases of a group in turn, round after round, so that whatever else the machine
// does meets all of them alike. It knows nothing of ledgers and brokers; those are in package cases.
//
//	cases ──▶ Runner: group by group, round by round ──▶ Outcome: every value of every round ──▶ goals, report
//
// A ratio of two cases is taken within a round, and the median is over the rounds.
package suite

// Package maintenance holds what the stores' maintenance has in common, beside the removing itself: the loop of a Maintain ([Run]), the pace
// of a pass ([Pace]), the statistics that it makes of what it meets ([Tally]), and the form in which they are stored ([Pass]).
//
// All but Run and [Pace.Rest] is pure: the times are the caller's, which are the database's.
package maintenance

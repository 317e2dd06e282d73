package postgres

import "time"

// serverClock estimates the database's clock from its answers, so that a statement can carry a deadline that the database
// itself checks. The estimate is never ahead of the database (as long as the clocks run at the same rate), so that when
// the caller's deadline has passed the database's has passed too.
type serverClock struct {
	db   time.Time // what the database said
	read time.Time // when its answer was here (monotonic)
}

// note takes the database's clock as of an answer that arrived at read.
func (c *serverClock) note(db, read time.Time) { c.db, c.read = db, read }

// at returns the database's time when this process' clock will be at t; zero if nothing is known yet.
func (c *serverClock) at(t time.Time) time.Time {
	if c.db.IsZero() {
		return time.Time{}
	}
	return c.db.Add(t.Sub(c.read))
}

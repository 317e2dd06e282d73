package postgres

import (
	"testing"
	"time"
)

func TestServerClock(t *testing.T) {
	t.Parallel()
	var c serverClock
	now := time.Now()
	if !c.at(now).IsZero() {
		t.Error("an unknown clock has a time")
	}
	db := now.Add(-time.Hour) // a worker's clock is an hour ahead
	c.note(db, now)
	if got := c.at(now.Add(10 * time.Second)); !got.Equal(db.Add(10 * time.Second)) {
		t.Errorf("the database's clock in 10 s: %s, want %s", got, db.Add(10*time.Second))
	}
}

package sim

import (
	"testing"
	"time"
)

// Worlds of workers that have retries wait in the ledger: none is broken, whatever goes wrong, and all comes to its end.
func TestWorldsOfParking(t *testing.T) {
	t.Parallel()
	parked, revived, kills := 0, 0, 0
	for seed := range uint64(150) {
		c := Drawn(seed)
		if c.Callers > 0 {
			continue
		}
		c.Watched, c.Keys, c.Parks, c.Workers = false, 0, true, 1+int(seed%3)
		c.Moods[retried] = max(c.Moods[retried], float64(4*(seed%4)))
		r, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		parked, revived, kills = parked+r.Parked, revived+r.Revived, kills+r.Kills
	}
	t.Logf("%d parked, %d came back, %d processes killed", parked, revived, kills)
	if parked < 400 || revived < parked || kills < 100 {
		t.Errorf("%d parked, %d came back, %d processes killed: too little happened", parked, revived, kills)
	}
}

// Worlds of workers that park keys: members come and go, and no message of a key runs before an earlier one of it has ended.
func TestWorldsOfParkedKeys(t *testing.T) {
	t.Parallel()
	parked, behind, revived, kills := 0, 0, 0, 0
	for n := range uint64(201) {
		seed := n
		if n == 200 { // all that is in hand waits behind lanes while the breaker is open
			seed = 456
		}
		c := Drawn(seed)
		if c.Callers > 0 {
			continue
		}
		c.Watched, c.Visibility, c.HoldMax, c.Parks, c.Workers = false, 0, 0, true, 1+int(seed%3)
		c.Keys = 1 + int(seed%5)
		c.Moods[retried] = max(c.Moods[retried], float64(2*(seed%4)))
		r, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		parked, behind, revived, kills = parked+r.Parked, behind+r.Behind, revived+r.Revived, kills+r.Kills
	}
	t.Logf("%d parked, %d times behind others, %d came back, %d processes killed", parked, behind, revived, kills)
	if parked < 400 || behind < 200 || revived < parked || kills < 100 {
		t.Errorf("%d parked, %d times behind others, %d came back, %d processes killed: too little happened", parked, behind, revived, kills)
	}
}

// Worlds of workers that park the groups of a FIFO queue: whoever gets the next message of a group, it runs after those before it.
func TestWorldsOfParkedGroups(t *testing.T) {
	t.Parallel()
	parked, behind, revived, kills := 0, 0, 0, 0
	for seed := range uint64(200) {
		c := Drawn(seed)
		if c.Callers > 0 {
			continue
		}
		c.Watched, c.HoldMax, c.Ranged, c.Mixed, c.Parks, c.Workers = false, 0, false, false, true, 1+int(seed%3)
		c.Visibility = max(c.Visibility, 2*time.Second)
		c.Keys = 1 + int(seed%5)
		c.Moods[retried] = max(c.Moods[retried], float64(2*(seed%4)))
		r, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		parked, behind, revived, kills = parked+r.Parked, behind+r.Behind, revived+r.Revived, kills+r.Kills
	}
	t.Logf("%d parked, %d times behind others, %d came back, %d processes killed", parked, behind, revived, kills)
	if parked < 400 || behind < 200 || revived < parked || kills < 100 {
		t.Errorf("%d parked, %d times behind others, %d came back, %d processes killed: too little happened", parked, behind, revived, kills)
	}
}

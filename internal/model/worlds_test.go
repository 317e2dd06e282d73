package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSmallWorlds(t *testing.T) {
	for _, world := range Small() {
		t.Run(world.Name, func(t *testing.T) {
			t.Parallel()
			report, err := Explore(world, 200_000, 20)
			if err != nil {
				t.Fatal(err)
			}
			if !report.Complete || report.Recovered == 0 {
				t.Fatalf("not gone through: %+v", report)
			}
			t.Logf("%d states, %d steps, %d recoveries", report.States, report.Steps, report.Recovered)
		})
	}
}

// large are worlds with more of everything, for walks.
func large() []Config {
	base := Config{
		Workers: 3, Messages: []Kind{Flaky, Innocent, Flaky}, Copies: []Copy{{Message: 1}},
		Losses: 4, Lates: 3, Dups: 4, Rebalances: 4, Exits: 2, Moves: 1, Failures: 1, Crashes: 2, Leases: 2, DeadLetters: true, Replays: 2,
	}
	var worlds []Config
	for _, broker := range []Broker{Queue, Log} {
		for _, handler := range []string{"plain", "transactions", "parked", "killer", "another body"} {
			for _, source := range []string{"dead letters", "topic", "archive in place"} {
				w := base
				w.Name = fmt.Sprintf("%s, %s, replay from %s", []string{"queue", "log"}[broker], handler, source)
				w.Broker, w.Tx, w.Park = broker, handler == "transactions", handler == "parked"
				switch handler {
				case "killer":
					w.Messages = []Kind{Killer, Innocent, Flaky}
				case "another body":
					w.Copies = []Copy{{Message: 0, Other: true}}
				case "parked":
					w.Replays, w.Moves = 0, 0 // a replay repeats an effect by an operator's will
					w.Copies = nil            // another record of the same key counts as a redrive
				}
				w.Topic = source == "topic"
				if source == "archive in place" {
					w.Moves = 0 // the archive does not have what the broker moved away
				}
				w.InPlace, w.FromArchive = source == "archive in place", source == "archive in place"
				worlds = append(worlds, w)
			}
		}
	}
	return append(worlds, watched(worlds)...)
}

// watched are the same worlds without a clock of the ledger's.
func watched(worlds []Config) []Config {
	worlds = slices.Clone(worlds)
	for i := range worlds {
		worlds[i].Name, worlds[i].Watched = worlds[i].Name+", no clock", true
	}
	return worlds
}

func TestWalks(t *testing.T) {
	for i, world := range large() {
		t.Run(world.Name, func(t *testing.T) {
			t.Parallel()
			report, err := Walk(world, uint64(i), 20, 200)
			if err != nil {
				t.Fatal(err)
			}
			if report.Walks != 20 || report.Recovered != 20 || report.Steps < 20*50 {
				t.Fatalf("hardly walked: %+v", report)
			}
		})
	}
}

// A parked message is Spent, that answer is lost, and the repeated claim finds a row of its own owner: it must not run, or
// the effect that another owner may have had happens again. It did run, as long as only rows of others counted.
func TestParkedClaimWithoutAnswer(t *testing.T) {
	r, err := Explore(Config{Workers: 1, Messages: []Kind{Innocent}, Park: true, Exits: 1, Losses: 1}, 10_000, 0)
	if err != nil || !r.Complete {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		world Config
		want  string
	}{
		{Config{Messages: []Kind{Flaky}}, "Workers must be from 1 to 3, is 0"},
		{Config{Workers: 1}, "Messages must be from 1 to 3, is 0"},
		{Config{Workers: 1, Messages: []Kind{Killer, Killer}}, "Messages: killers must be from 0 to 1, is 2"},
		{Config{Workers: 1, Messages: []Kind{Flaky}, Copies: make([]Copy, 5)}, "Copies must be from 1 to 5, is 6"},
		{Config{Workers: 1, Messages: []Kind{Flaky}, Copies: []Copy{{Message: 1}}}, "Message must be one of 1, is 1"},
		{Config{Workers: 1, Messages: []Kind{Flaky}, Lates: 101}, "Lates must be from 0 to 100, is 101"},
		{Config{Workers: 1, Messages: []Kind{Flaky}, Crashed: []int{1, 1}}, "Crashed must be for 1 messages at most, is for 2"},
	} {
		_, explored := Explore(c.world, 10, 0)
		_, walked := Walk(c.world, 1, 1, 10)
		for _, err := range []error{explored, walked} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.world, err, c.want)
			}
		}
	}
}

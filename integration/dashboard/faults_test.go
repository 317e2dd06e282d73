package dashboard

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// course is the value of a series at each minute.
type course func(minute float64) float64

// history is the series of each target.
type history map[string]map[string]course

const (
	ofWorker  = `messaging_system="kafka",messaging_destination_name="c/orders",messaging_consumer_group_name="payments"`
	partition = `ackledger_kafka_lag{` + ofWorker + `,messaging_destination_partition_id="0"}`
	deadKind  = `ackledger_dead_letters_total{` + ofWorker + `,kind="terminal"}`
	unsent    = `ackledger_dead_letters_forwarded_total{` + ofWorker + `,outcome="unsent"}`
	lost      = `ackledger_leases_lost_total{` + ofWorker + `}`
	unknown   = `ackledger_settles_unknown_total{` + ofWorker + `}`
	refused   = `ackledger_settles_refused_total{` + ofWorker + `,reason="too_large"}`
	ready     = `ackledger_ready{` + ofWorker + `}`
	breaker   = `ackledger_breaker_open{` + ofWorker + `}`
	paused    = `ackledger_paused{` + ofWorker + `}`
	alive     = `ackledger_alive{` + ofWorker + `}`
	passAge   = `ackledger_ledger_pass_age_seconds`
	abandoned = `ackledger_ledger_abandoned{scope="kafka:c/orders/payments"}`
	archived  = `ackledger_ledger_table_bytes{table="archive",part="table"}`
	weighed   = `ackledger_archive_bytes{` + ofWorker + `,scope="kafka:c/orders/payments"}`
	gaveUp    = `ackledger_ledger_pool_waits_total{pool="intx",outcome="gave_up"}`

	ends  = 85 // minutes
	fault = 55 // the minute in which a fault begins
)

func stalledBy(reason string) string {
	return `ackledger_stalled{` + ofWorker + `,reason="` + reason + `"}`
}

func always(v float64) course        { return func(float64) float64 { return v } }
func grows(perMinute float64) course { return func(m float64) float64 { return perMinute * m } }

// during is another course for some minutes.
func during(from, minutes float64, then, otherwise course) course {
	return func(m float64) float64 {
		if m >= from && m < from+minutes {
			return then(m)
		}
		return otherwise(m)
	}
}

// jumps is a counter that was raised once.
func jumps(at, by float64) course {
	return func(m float64) float64 {
		if m >= at {
			return by
		}
		return 0
	}
}

// saw goes from one value to the other, and back at once.
func saw(from, to, minutes float64) course {
	return func(m float64) float64 { return from + (to-from)*math.Mod(m, minutes)/minutes }
}

// healthy is a group of two workers with much to do, and with the short troubles that heal by themselves: a restart, a slow
// handler, an answer that was lost, a partition that waits for one record for a while.
func healthy() history {
	h := history{}
	for _, target := range []string{"a", "b"} {
		h[target] = map[string]course{
			ready: during(18, 2, always(math.NaN()), during(20, 3, always(0), always(1))), alive: during(20, 1, always(0), always(1)),
			stalledBy("slow"): always(2), stalledBy("deaf"): during(30, 5, always(1), always(0)), stalledBy("refused"): always(0),
			breaker: always(0), paused: during(40, 14, always(1), always(0)), stalledBy("paused"): during(40, 14, always(1), always(0)), stalledBy("breaker"): always(0), stalledBy("span"): always(0), stalledBy("room"): during(30, 8, always(2), always(0)),
			deadKind: always(4), unsent: always(0), lost: always(0), refused: always(0), unknown: jumps(25, 3),
			`ackledger_dead_letters_forwarded_total{` + ofWorker + `,outcome="sent"}`: always(4),
			`ackledger_handler_duration_seconds_count{` + ofWorker + `,outcome="ok"}`: during(20, ends, func(m float64) float64 {
				return 600 * (m - 20) // it began again
			}, grows(600)),
			`ackledger_handler_duration_seconds_count{` + ofWorker + `,outcome="error"}`: grows(100),
			`ackledger_takeovers_total{` + ofWorker + `}`:                                jumps(20, 30),
			passAge: during(35, 17, func(m float64) float64 { return (m - 35) * 60 }, saw(0, 60, 1)), abandoned: during(40, 10, always(3), always(0)),
			weighed: always(100e6), strings.Replace(weighed, "bytes", "budget", 1): always(1e9),
			`ackledger_ledger_owners{fate="live"}`: always(2),
			archived:                               func(m float64) float64 { return 1e9 + 1e6*m },
			`ackledger_ledger_table_bytes{table="message",part="table"}`:      grows(100e6),
			`ackledger_ledger_pool_waits_total{pool="intx",outcome="served"}`: grows(50), gaveUp: always(7),
		}
	}
	h["a"][partition] = during(30, 9, always(500), saw(900, 400, 3))
	h["b"][strings.Replace(partition, `"0"`, `"1"`, 1)] = during(30, 5, always(0), saw(300, 0, 4))
	return h
}

// scrapes are what the targets answer in turn.
func (h history) scrapes() (all []map[string]string) {
	for at := time.Duration(0); at < ends*time.Minute; at += scrapeInterval {
		answers := map[string]string{}
		for target, series := range h {
			var text strings.Builder
			for _, name := range slices.Sorted(maps.Keys(series)) {
				if v := series[name](at.Minutes()); !math.IsNaN(v) { // it is not there
					fmt.Fprintf(&text, "%s %v\n", name, v)
				}
			}
			answers[target] = text.String()
		}
		all = append(all, answers)
	}
	return all
}

// several are faults that more than one series of a worker tells of, and one alert.
func several(from func(then, before course) course) map[string]struct {
	of     map[string]course
	alert  string
	within float64
} {
	on := from(always(1), always(0))
	return map[string]struct {
		of     map[string]course
		alert  string
		within float64
	}{
		"the breaker is open": { // and the worker neither ready nor getting on
			map[string]course{breaker: on, stalledBy("breaker"): on, ready: from(always(0), always(1))}, "AckledgerBreakerOpen", 1},
		"an operator has forgotten a pause": { // so its partition stands, too
			map[string]course{paused: on, stalledBy("paused"): on, partition: from(always(500), saw(900, 400, 3))}, "AckledgerPaused", 16},
	}
}

// TestAlertsFireWhereTheirFaultIs: each fault is told by its alert, and by no other; before it, and without one, all are silent.
func TestAlertsFireWhereTheirFaultIs(t *testing.T) {
	t.Parallel()
	from := func(then, before course) course { return during(fault, ends, then, before) }
	since := func(perMinute float64) course {
		return from(func(m float64) float64 { return perMinute * (m - fault) }, always(0))
	}
	rules, told := readAlerts(t), map[string]bool{}
	for name, c := range map[string]struct {
		target, series string
		is             course
		want           []string
		within         float64 // minutes
	}{
		"none":                      {"a", ready, healthy()["a"][ready], nil, 0},
		"not ready":                 {"a", ready, from(always(0), always(1)), []string{"AckledgerNotReady"}, 6},
		"no worker":                 {"a", ready, from(always(math.NaN()), always(1)), []string{"AckledgerNoWorker"}, 6},
		"not alive":                 {"a", alive, from(always(0), always(1)), []string{"AckledgerNotAlive"}, 3},
		"deaf":                      {"a", stalledBy("deaf"), from(always(1), always(0)), []string{"AckledgerStalled"}, 11},
		"a settlement is repeated":  {"b", stalledBy("refused"), from(always(1), always(0)), []string{"AckledgerStalled"}, 11},
		"a partition waits":         {"b", stalledBy("span"), from(always(1), always(0)), []string{"AckledgerStalled"}, 11},
		"slow":                      {"a", stalledBy("slow"), from(always(50), always(2)), nil, 0},
		"a partition stands":        {"a", partition, from(always(500), saw(900, 400, 3)), []string{"AckledgerLagWithoutProgress"}, 16},
		"the backlog grows":         {"a", partition, from(grows(100), saw(900, 400, 3)), []string{"AckledgerLagWithoutProgress"}, 16},
		"the backlog shrinks":       {"a", partition, func(m float64) float64 { return 1e6 - 5000*m }, nil, 0},
		"nothing to do":             {"a", partition, from(always(0), saw(900, 400, 3)), nil, 0},
		"one dead letter":           {"a", deadKind, func(m float64) float64 { return 4 + jumps(ends-5, 1)(m) }, []string{"AckledgerDeadLetters"}, 0},
		"dead letters":              {"a", deadKind, since(100), []string{"AckledgerDeadLetterRate", "AckledgerDeadLetters"}, 8},
		"letters are unsent":        {"a", unsent, since(1), []string{"AckledgerUnsentLetters"}, 2},
		"a lease is lost":           {"b", lost, jumps(ends-5, 1), []string{"AckledgerLeasesLost"}, 0},
		"answers are lost":          {"a", unknown, since(2), []string{"AckledgerUnknownSettles"}, 12},
		"settlements are refused":   {"a", refused, jumps(ends-5, 1), []string{"AckledgerRefusedSettles"}, 0},
		"abandoned":                 {"a", abandoned, from(always(3), always(0)), []string{"AckledgerAbandoned"}, 16},
		"the archive grows":         {"a", archived, func(m float64) float64 { return 1e9 + since(20e6)(m) }, []string{"AckledgerArchiveGrowth"}, 20},
		"the budget is spent":       {"a", weighed, from(always(900e6), always(100e6)), []string{"AckledgerArchiveBudget"}, 2},
		"calls get no connection":   {"a", gaveUp, since(1), []string{"AckledgerPoolExhausted"}, 2},
		"one process sweeps enough": {"a", passAge, grows(60), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := healthy()
			h[c.target][c.series] = c.is
			h.check(t, c.want, c.within)
		})
		for _, alert := range c.want {
			told[alert] = true
		}
	}
	for name, c := range several(from) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := healthy()
			maps.Copy(h["a"], c.of)
			h.check(t, []string{c.alert}, c.within)
		})
		told[c.alert] = true
	}
	for name, is := range map[string]course{
		"the sweep is behind": from(func(m float64) float64 { return (m - fault) * 60 }, saw(0, 60, 1)),
		"nobody ever swept":   from(always(math.NaN()), saw(0, 60, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := healthy()
			h["a"][passAge], h["b"][passAge] = is, is
			h.check(t, []string{"AckledgerSweepBehind"}, 27)
		})
	}
	told["AckledgerSweepBehind"] = true
	for _, r := range rules {
		if !told[r.Alert] {
			t.Errorf("%s is tested by no fault", r.Alert)
		}
	}
}

// check says whether these alerts fire in the end, from some minutes after the fault at the latest, and no other does at any time.
func (h history) check(t *testing.T, want []string, within float64) {
	t.Helper()
	m, err := newMonitor(h.scrapes())
	if err != nil {
		t.Fatal(err)
	}
	began, last := m.began(), []string(nil)
	err = m.watch(t.Context(), readAlerts(t), func(at time.Time, a alarms) {
		minute := at.Sub(began).Minutes()
		last = a.names()
		for _, name := range last {
			if minute < fault || !slices.Contains(want, name) {
				t.Errorf("minute %v: %s: %v", minute, name, a[name])
			}
		}
		if within > 0 && minute >= fault+within && len(last) < len(want) {
			t.Errorf("minute %v: %v fire, want %v", minute, last, want)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(last, want) {
		t.Errorf("in the end %v fire, want %v", last, want)
	}
}

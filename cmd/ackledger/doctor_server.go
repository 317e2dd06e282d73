package main

import (
	"context"
	"fmt"
	"time"
)

// What the server is asked beside the ledger's tables.
const (
	connectionsAsked = `
SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type IS NULL OR backend_type = 'client backend'),
	current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`

	// A role without pg_read_all_stats is told of no standby's state. What a standby sends with its replies is of its own clock.
	standbysAsked = `
SELECT current_setting('synchronous_standby_names'), count(*), count(*) FILTER (WHERE r.sync_state IN ('sync', 'quorum')),
	count(*) FILTER (WHERE r.sync_state IN ('async', 'potential')),
	coalesce(max(extract(epoch FROM r.reply_time - clock_timestamp())), 0)::float8,
	coalesce(min(extract(epoch FROM r.reply_time - clock_timestamp())), 0)::float8
FROM pg_catalog.pg_stat_replication r WHERE coalesce(r.application_name, '') <> 'pg_basebackup'`

	diskAsked = `
SELECT pg_database_size(current_database()),
	(SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'),
	coalesce((SELECT max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
		s.restart_lsn)) FROM pg_catalog.pg_replication_slots s), 0)::bigint,
	coalesce((SELECT s.slot_name FROM pg_catalog.pg_replication_slots s ORDER BY s.restart_lsn LIMIT 1)::text, '')`
)

// surroundings are the checks of what the server has for all its databases.
func (p *patient) surroundings(ctx context.Context, schema string) {
	var used, most int
	say := func(check string) func(grade, string, string) {
		return func(g grade, says, remedy string) { p.f.add(g, check, says, remedy) }
	}
	if p.ask(ctx, "connections", connectionsAsked, nil, &used, &most) {
		say("connections")(gradeConnections(used, most))
	}
	var s standbys
	if p.ask(ctx, "standby", standbysAsked, nil, &s.names, &s.all, &s.synchronous, &s.asynchronous, &s.ahead, &s.behind) {
		say("standby")(s.grade())
	}
	var database, ours, kept int64
	var slot string
	if p.ask(ctx, "disk", diskAsked, []any{schema}, &database, &ours, &kept, &slot) {
		say("disk")(gradeDisk(database, ours, kept, slot))
	}
	var now time.Time
	before := time.Now()
	if p.ask(ctx, "clock", "SELECT clock_timestamp()", nil, &now) {
		say("clock")(gradeClock(before, now, time.Now(), s))
	}
}

// gradeConnections: workers wait for a connection of their pool, and one that the server refuses is an outage to them.
func gradeConnections(used, most int) (g grade, says, remedy string) {
	says = fmt.Sprintf("%d of the server's %d connections are taken", used, most)
	if used*5 > most*4 {
		return warning, says, "raise max_connections, make pools smaller (pool_max_conns), or put a pooler in between"
	}
	return good, says, ""
}

// standbys are a server's, as pg_stat_replication has them. ahead and behind are seconds from the server's clock to those of the last
// replies, the furthest each; a reply comes at least every wal_receiver_status_interval (10 s).
type standbys struct {
	names                          string
	all, synchronous, asynchronous int
	ahead, behind                  float64
}

// grade: with an asynchronous standby alone a failover loses what was acknowledged last; where a synchronous one is asked for and there
// is none, each COMMIT waits.
func (s *standbys) grade() (g grade, says, remedy string) {
	const wait = "bring it back, or take it out of synchronous_standby_names"
	switch {
	case s.names != "" && s.all == 0:
		return problem, fmt.Sprintf("synchronous_standby_names is %q, and no standby is there: each COMMIT waits", s.names), wait
	case s.all > 0 && s.synchronous+s.asynchronous == 0:
		return note, fmt.Sprintf("%d standbys are there; whether one is synchronous, this role is not told", s.all), "ask with pg_read_all_stats (or pg_monitor)"
	case s.names != "" && s.synchronous == 0:
		return problem, fmt.Sprintf("synchronous_standby_names is %q, and no standby is synchronous: each COMMIT waits", s.names), wait
	case s.all > 0 && s.synchronous == 0:
		return warning, fmt.Sprintf("%d standbys are asynchronous: after a failover, what was acknowledged last is handled twice or lost", s.all),
			"set synchronous_standby_names, and after a failover run `ackledger recover`"
	case s.all > 0:
		return good, fmt.Sprintf("%d of %d standbys are synchronous", s.synchronous, s.all), ""
	}
	return good, "there is none", ""
}

// slotLate is how much WAL a replication slot may keep before it is worth a word.
const slotLate = 10 << 30

// gradeDisk: no SQL says how much room is left.
func gradeDisk(database, ours, kept int64, slot string) (g grade, says, remedy string) {
	says = fmt.Sprintf("the ledger's tables have %s, the database %s; how much room is left the server does not say", size(ours), size(database))
	if kept > slotLate {
		return warning, fmt.Sprintf("replication slot %s keeps %s of WAL: %s", text(slot), size(kept), says),
			"bring its reader back, or SELECT pg_drop_replication_slot; set max_slot_wal_keep_size"
	}
	return good, says, ""
}

// How far clocks may be apart before it is worth a word. A standby's is known as of its last reply alone.
const (
	clockLate   = time.Second
	replyLate   = 30 * time.Second
	clockRemedy = "run NTP or chrony on both"
)

// gradeClock compares this machine's clock with the server's, which was asked between before and after, and with the standbys'.
func gradeClock(before, server, after time.Time, s standbys) (g grade, says, remedy string) {
	unsure := after.Sub(before) / 2
	apart := server.Sub(before.Add(unsure))
	says = fmt.Sprintf("the server's clock is %s from this machine's, to within %s", apart.Abs().Round(time.Millisecond), unsure.Round(time.Millisecond))
	switch {
	case apart.Abs() > clockLate+unsure:
		return warning, says + ": brokers' deadlines are counted by this one, leases and windows by the server's", clockRemedy
	case s.ahead > clockLate.Seconds():
		return warning, fmt.Sprintf("a standby's clock is %.1f s ahead of the server's: after a failover leases end that much earlier", s.ahead), clockRemedy
	case s.behind < -replyLate.Seconds():
		return warning, fmt.Sprintf("a standby's last reply is of %.0f s ago, by its clock: that is behind, or it has stopped; after a failover leases last that much longer", -s.behind), clockRemedy
	}
	return good, says, ""
}

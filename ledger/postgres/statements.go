package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// The ledger's SQL. All times cross the wire as microseconds since 1970, so that neither DateStyle nor TimeZone of a session
// can touch them.

// newNames puts the schema's name into statements, and what several of them share.
func newNames(schema string) *strings.Replacer {
	quoted := pgx.Identifier{schema}.Sanitize()
	return strings.NewReplacer("{s}", quoted, "{text}", "'"+strings.ReplaceAll(quoted, "'", "''")+"'",
		"{durable}", "set_config('synchronous_commit', 'on', true)", "{mark}", sqlMark, "{fold}", "interval '10 minutes'")
}

const (
	// The version, and the names of tables that are missing all the same.
	sqlMeta = `
SELECT schema_version, oldest_worker, (SELECT coalesce(string_agg(n, ', '), '')
	FROM unnest(ARRAY['archive', 'claim_range', 'message', 'owner', 'range_log', 'scope', 'segment']) n WHERE to_regclass({text} || '.' || n) IS NULL)
FROM {s}.meta`

	sqlJoin = `
INSERT INTO {s}.owner (id, lease_end, joined, host)
SELECT $1::bigint, n.at + $2::bigint * interval '1 microsecond', n.at, $3::bytea
FROM (SELECT clock_timestamp() AS at, {durable}) n
RETURNING (extract(epoch FROM joined) * 1000000)::bigint`

	sqlBeat = `
UPDATE {s}.owner SET lease_end = clock_timestamp() + $2::bigint * interval '1 microsecond'
WHERE id = $1::bigint AND fate = 1
RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, {durable}`

	// A row that its own beat holds is skipped, and one that a beat has just extended is checked again as it is now.
	sqlSeal = `
WITH overdue AS MATERIALIZED (
	SELECT id FROM {s}.owner WHERE fate = 1 AND lease_end < clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {s}.owner o SET fate = 3 FROM overdue WHERE o.id = overdue.id AND o.fate = 1
RETURNING o.id, o.host, {durable}`

	sqlLeave = `UPDATE {s}.owner SET fate = 2 WHERE id = $1::bigint AND fate = 1 RETURNING {durable}`

	sqlScopeFind = `SELECT name, id FROM {s}.scope WHERE name = ANY($1::bytea[])`
	sqlScopeMake = `
INSERT INTO {s}.scope (name)
SELECT n.name FROM unnest($1::bytea[]) WITH ORDINALITY AS n(name, place)
WHERE NOT EXISTS (SELECT FROM {s}.scope s WHERE s.name = n.name) ORDER BY n.place
ON CONFLICT (name) DO NOTHING RETURNING name, id`

	// sqlMark writes to the WAL if there is a synchronous standby: so the transaction's COMMIT waits for it, and for all that
	// was written before. Else a COMMIT of one that changed nothing waits for nobody, and what it has seen may be lost with
	// the primary: another's COMMIT can be seen without the standby when its wait was broken off.
	sqlMark = `CASE WHEN current_setting('synchronous_standby_names') <> '' THEN pg_logical_emit_message(true, 'ackledger', ''::text) END`

	// sqlConfirm makes sure of what was read before. What a standby shows, it has.
	sqlConfirm = `SELECT {durable}, {mark} WHERE NOT pg_is_in_recovery()`

	// sqlTune goes ahead of a statement in the same round trip and the same implicit transaction. It fixes the shape of
	// the plan, which is right at any size of the tables: each key is looked up by the primary key. Statistics that are
	// missing, stale or wrong cannot lead to a scan that grows, and the generic plan saves the planning. (The costs that
	// enable_seqscan adds would also switch the JIT compiler on.)
	// Under a search_path of the handler's it means the same.
	sqlTune = `SELECT pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true),
pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)`
)

// sqlFresh is the first rule of the claim table alone, which nearly all claims need: it takes the keys that have no row,
// and answers how many, and, if these are not all, which. For the rest, and when another transaction takes one of the keys
// at the same time (23505), there is sqlClaim. It is a plain INSERT, since ON CONFLICT writes each row twice to the WAL.
// The key order is that of the arrays. A scope or window that all entries share comes once.
//
// All keys are looked up in one walk along the index, and those that have a row are hashed (NOT IN): mostly there are none.
const sqlFresh = `
WITH me AS MATERIALIZED (
	SELECT o.fate, c.at, c.at + $8::bigint * interval '1 microsecond' AS expiry,
		o.fate = 1 AND (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok,
		{durable}, set_config('lock_timeout', $3::text, true)
	FROM {s}.owner o, (SELECT clock_timestamp() AS at OFFSET 0) c WHERE o.id = $1::bigint
), fresh AS (
	INSERT INTO {s}.message (token, at, expiry, owner, scope, state, attempts, crashes, key, fingerprint, id)
	SELECT 1, (SELECT at FROM me), CASE WHEN e.keep IS NULL THEN (SELECT expiry FROM me)
			ELSE (SELECT at FROM me) + e.keep * interval '1 microsecond' END,
		$1::bigint, coalesce(e.scope, $7::integer), 1, 0, 0, e.key, e.print, e.id
	FROM unnest($4::uuid[], $5::uuid[], $6::bytea[], $9::integer[], $10::bigint[]) AS e(key, print, id, scope, keep)
	WHERE (SELECT ok FROM me) AND e.key NOT IN (SELECT m.key FROM {s}.message m WHERE m.key = ANY($4::uuid[]))
	RETURNING key
)
SELECT me.fate::integer, me.ok, f.written,
	CASE WHEN f.written < cardinality($4::uuid[]) THEN ARRAY(SELECT key FROM fresh) END
FROM me, (SELECT count(*) AS written FROM fresh) f`

// sqlFreshOne is sqlFresh for one key, which is what comes at low rates: without arrays and CTEs it takes little more than a
// bare INSERT. No row of an answer says that nothing was written, for whatever reason; sqlClaim finds out.
const sqlFreshOne = `
INSERT INTO {s}.message (token, at, expiry, owner, scope, state, attempts, crashes, key, fingerprint, id)
SELECT 1, c.at, c.at + $8::bigint * interval '1 microsecond', $1::bigint, $7::integer, 1, 0, 0, $4::uuid, $5::uuid, $6::bytea
FROM (SELECT clock_timestamp() AS at, {durable}, set_config('lock_timeout', $3::text, true) OFFSET 0) c
WHERE EXISTS (SELECT FROM {s}.owner o WHERE o.id = $1::bigint AND o.fate = 1)
	AND (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint
	AND NOT EXISTS (SELECT FROM {s}.message m WHERE m.key = $4::uuid)
RETURNING 1, true, 1::bigint, NULL::uuid[]`

// sqlClaim is the claim table in one statement; [ledger.Decide] is its truth. In turn:
//
// me: this owner, live and before the deadline, else nothing below happens. entry: what is asked, with what the
// statement's snapshot shows. known: the rows that are there. What has succeeded in the snapshot is only read, since nothing
// is written of it: a repetition needs no lock, and its COMMIT waits for a synchronous standby alone ({mark}). The others are
// locked in key order, as they are NOW, which may be newer than the snapshot; a row that another transaction holds is
// skipped. fact: what the table asks about them. A row whose token or state moved on since the snapshot is unseen (rule 2):
// its owner and archive cannot be trusted to be in the snapshot. fresh: keys without a row in the snapshot; the plain look
// first matters, since ON CONFLICT would wait for a row that is being updated. What appears nowhere in the answer is Busy.
//
// No join may be turned around into a scan of a table, whatever the planner believes of its size: rows are looked up in
// LATERAL queries that cannot be, and written by ON CONFLICT DO UPDATE, which finds each by the primary key. Those rows
// are there and locked, so that nothing is inserted; the first row of the answer counts what was written.
const sqlClaim = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at
), me AS MATERIALIZED (
	SELECT o.fate, o.fate = 1 AND (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok,
		{durable}, {mark}, set_config('lock_timeout', $3::text, true)
	FROM {s}.owner o, clock c WHERE o.id = $1::bigint
), entry AS MATERIALIZED (
	SELECT e.*, s.token AS seen_token, s.state AS seen_state
	FROM unnest($4::uuid[], $5::uuid[], $6::integer[], $7::bytea[], $8::bytea[], $9::bigint[], $10::bigint[],
		$11::smallint[]) AS e(key, print, scope, id, delivery, keep, stamp, flags)
	LEFT JOIN LATERAL (SELECT m.token, m.state FROM {s}.message m WHERE m.key = e.key OFFSET 0) s ON true
	WHERE (SELECT ok FROM me) AND (s.token IS NOT NULL OR coalesce(e.flags, 0) & 4 = 0)
), known AS MATERIALIZED (
	SELECT m.*, e.print, e.delivery, e.keep, e.seen_token, e.seen_state, coalesce(e.stamp, 0) AS stamp,
		coalesce(e.flags, 0) & 1 <> 0 AS solo, coalesce(e.flags, 0) & 2 <> 0 AS park,
		coalesce(e.flags, 0) & 8 <> 0 AS keep_failed, coalesce(e.flags, 0) & 16 <> 0 AS from_care
	FROM (SELECT * FROM entry WHERE seen_state <> 2 ORDER BY key) e
	CROSS JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = e.key FOR NO KEY UPDATE SKIP LOCKED) m
	UNION ALL
	SELECT m.*, e.print, e.delivery, e.keep, e.seen_token, e.seen_state, 0, false, false, false, false
	FROM entry e CROSS JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = e.key OFFSET 0) m
	WHERE e.seen_state = 2
), fact AS MATERIALIZED (
	SELECT l.*, o.lease_end, h.holder,
		l.crashes + (l.state = 1 AND coalesce(h.holder, 0) = 4)::integer AS counted,
		l.token <> l.seen_token OR l.state <> l.seen_state OR l.state = 1 AND h.holder IS NULL
			OR l.state = 3 AND l.failed_delivery IS NOT NULL AND
			(SELECT true FROM {s}.archive a WHERE a.key = l.key AND a.delivery = l.failed_delivery) IS NULL AS unseen,
		(SELECT true FROM {s}.archive a WHERE a.key = l.key AND a.delivery = l.delivery
			AND a.expiry >= (SELECT at FROM clock)) IS NOT NULL AS archived,
		l.fingerprint = '00000000-0000-0000-0000-000000000000'
			OR substring(uuid_send(l.fingerprint), 1, 8) = substring(uuid_send(l.print), 1, 8)
			OR substring(uuid_send(l.fingerprint), 9, 8) = substring(uuid_send(l.print), 9, 8) AS agrees
	FROM known l
	LEFT JOIN LATERAL (SELECT p.fate, p.lease_end FROM {s}.owner p WHERE p.id = l.owner OFFSET 0) o ON true
	CROSS JOIN LATERAL (SELECT CASE
		WHEN l.owner IS NULL THEN 0
		WHEN l.owner = $1::bigint THEN 1
		ELSE o.fate + 1 END AS holder) h
), decided AS MATERIALIZED (
	SELECT f.*, CASE
		WHEN f.unseen THEN 2
		WHEN f.archived THEN 3
		WHEN NOT f.agrees THEN 4
		WHEN f.state = 2 THEN 5
		WHEN f.state = 1 AND f.parked AND NOT f.from_care AND (SELECT true FROM {s}.parked p WHERE p.key = f.key) IS NOT NULL THEN 11
		WHEN f.state = 1 AND (f.holder = 2 OR f.due > (SELECT at FROM clock)) THEN 6
		WHEN f.state = 1 AND (f.counted >= 5 OR f.park AND (f.holder IN (3, 4) OR f.holder = 1 AND f.token > 1)) THEN 7
		WHEN f.counted >= 2 AND NOT f.solo THEN 8
		WHEN f.state = 3 AND (f.from_care OR f.stamp <> f.token AND (f.stamp <> 0 OR f.keep_failed)) THEN 9
		ELSE 10 END AS rule
	FROM fact f
), written AS MATERIALIZED (
	SELECT d.rule, d.holder, d.key, d.id, d.scope, d.token + 1 AS token, d.generation,
		CASE d.fingerprint WHEN '00000000-0000-0000-0000-000000000000' THEN d.print ELSE d.fingerprint END AS fingerprint,
		CASE d.state WHEN 3 THEN 0 ELSE d.attempts END AS attempts,
		CASE d.state WHEN 3 THEN least(d.counted, 2) ELSE least(d.counted, 32767) END AS crashes,
		CASE d.state WHEN 3 THEN NULL ELSE d.errors END AS errors,
		CASE d.state WHEN 3 THEN (SELECT at FROM clock) ELSE d.at END AS at,
		CASE d.state WHEN 3 THEN greatest(d.expiry, (SELECT at FROM clock) + d.keep * interval '1 microsecond') ELSE d.expiry END AS expiry, d.from_care OR d.parked AS parked
	FROM decided d WHERE d.rule IN (7, 10)
), taken AS (
	INSERT INTO {s}.message (key, fingerprint, id, scope, state, owner, token, attempts, crashes, errors, at, expiry, parked)
	SELECT w.key, w.fingerprint, w.id, w.scope, 1, $1::bigint, w.token, w.attempts, w.crashes, w.errors, w.at, w.expiry, w.parked
	FROM written w
	ON CONFLICT (key) DO UPDATE SET state = 1, owner = excluded.owner, token = excluded.token, due = NULL,
		result = NULL, failed_delivery = NULL, attempts = excluded.attempts, crashes = excluded.crashes,
		errors = excluded.errors, at = excluded.at, expiry = excluded.expiry, fingerprint = excluded.fingerprint, parked = excluded.parked
	RETURNING key
), fresh AS (
	INSERT INTO {s}.message (token, at, expiry, owner, scope, state, attempts, crashes, key, fingerprint, id, parked)
	SELECT 1, (SELECT at FROM clock), (SELECT at FROM clock) + e.keep * interval '1 microsecond', $1::bigint,
		e.scope, 1, 0, 0, e.key, e.print, e.id, CASE WHEN coalesce(e.flags, 0) & 16 <> 0 THEN true END
	FROM entry e WHERE e.seen_token IS NULL ORDER BY e.key
	ON CONFLICT (key) DO NOTHING RETURNING key
)
SELECT 0 AS rule, NULL::uuid AS key, (SELECT count(*) FROM taken) AS token, me.fate::integer AS attempts, 0 AS crashes, 0 AS generation,
	me.ok::integer AS holder, 0::bigint AS wait, NULL::bytea AS result, NULL::bytea AS errors FROM me
UNION ALL
SELECT 1, f.key, 1, 0, 0, 0, 0, 0, NULL, NULL FROM fresh f
UNION ALL
SELECT w.rule, w.key, w.token, w.attempts, w.crashes, coalesce(w.generation, 0), w.holder, 0, NULL, w.errors
FROM written w
UNION ALL
SELECT d.rule, d.key, d.token, d.state, d.counted, 0, CASE d.rule WHEN 6 THEN d.holder ELSE 0 END,
	CASE WHEN d.rule <> 6 THEN 0
		WHEN d.holder = 2 THEN greatest((extract(epoch FROM d.lease_end - (SELECT at FROM clock)) * 1000000)::bigint, 0)
		ELSE (extract(epoch FROM d.due - (SELECT at FROM clock)) * 1000000)::bigint END,
	CASE WHEN d.rule IN (3, 5, 9) THEN d.result END, NULL
FROM decided d WHERE d.rule NOT IN (7, 10)`

// sqlClaimNoParking is sqlClaim for a schema that parks nothing.
var sqlClaimNoParking = strings.NewReplacer(
	`		WHEN f.state = 1 AND f.parked AND NOT f.from_care AND (SELECT true FROM {s}.parked p WHERE p.key = f.key) IS NOT NULL THEN 11
`, "",
	", d.from_care OR d.parked AS parked", "",
	", w.parked", "",
	", parked = excluded.parked", "",
	", CASE WHEN coalesce(e.flags, 0) & 16 <> 0 THEN true END", "",
	", parked)", ")",
).Replace(sqlClaim)

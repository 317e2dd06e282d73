package postgres

import "strings"

// What operators ask. Parameters are cast, so that they have a type in every exec mode; times are microseconds since 1970.

const (
	// sqlRanged is what ranges know of a message without a row: 2 finished, 1 in a range that is open; null: nothing.
	sqlRanged = `coalesce(
		(SELECT 2 FROM (SELECT g.last, g.kind FROM {s}.segment g WHERE g.log = {log} AND g.first <= {offset}
			ORDER BY g.first DESC LIMIT 1) g WHERE g.last > {offset} AND g.kind = 1),
		(SELECT 1 FROM {s}.claim_range g WHERE g.log = {log} AND g.first <= {offset} AND g.last > {offset} LIMIT 1))`

	// sqlStatusFields: see statusFields.
	sqlStatusFields = `coalesce(m.state, ` + sqlRanged + `, 0)::integer, coalesce(m.token, 0)::bigint, m.fingerprint,
	coalesce(m.generation, 0),
	CASE WHEN m.state IS NULL THEN 2 WHEN m.owner IS NULL THEN 0 ELSE coalesce(o.fate, 1) + 1 END,
	CASE WHEN m.state IS NOT NULL AND m.owner IS NULL THEN 0 WHEN o.fate IS NULL THEN 1000000
		ELSE (extract(epoch FROM o.lease_end - clock_timestamp()) * 1000000)::bigint END,
	greatest(coalesce((extract(epoch FROM m.due - clock_timestamp()) * 1000000)::bigint, 0), 0), m.failed_delivery`

	sqlJoinOwner = `LEFT JOIN LATERAL (SELECT p.fate, p.lease_end FROM {s}.owner p WHERE p.id = m.owner OFFSET 0) o ON true`

	// sqlFinished is what lies finished in a scope's ranges.
	sqlFinished = `
SELECT g.log, g.name, g.epoch, g.prefix, s.first, s.last, s.messages
FROM {s}.range_log g JOIN {s}.segment s ON s.log = g.log AND s.kind = 1 WHERE g.scope = $1::integer ORDER BY g.log, s.first`

	sqlScopes = `SELECT name FROM {s}.scope ORDER BY name`

	// sqlBegin is how a list begins: the time, the scope's number (-1: no such scope), and how many pages the messages take.
	sqlBegin = `
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	coalesce((SELECT id FROM {s}.scope WHERE name = $1::bytea), -1),
	pg_relation_size({text} || '.message') / current_setting('block_size')::bigint`

	sqlArchivedID = `
SELECT DISTINCT s.name, a.key FROM (SELECT a.scope, a.key FROM {s}.archive a WHERE a.id = $1::bytea LIMIT 500) a
JOIN {s}.scope s ON s.id = a.scope`

	// sqlLogsOf are the logs whose records may have such an id. There are as many logs as partitions and epochs.
	sqlLogsOf = `
SELECT s.name, g.log, g.prefix FROM {s}.range_log g JOIN {s}.scope s ON s.id = g.scope
WHERE substring($1::bytea FROM 1 FOR octet_length(g.prefix)) = g.prefix`

	// The sources of sqlDead, each with an index: of all, of a scope, of kinds, of ids. A page ends behind all that failed at
	// one moment (in one statement of a worker), so that the next one begins by the time alone: no index holds more.
	sqlDeadAfter = `a.purged_at IS NULL AND a.at > timestamptz 'epoch' + $1::bigint * interval '1 microsecond'
		AND a.at <= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'`
	sqlDeadOrder = ` ORDER BY a.at FETCH FIRST ($3::bigint) ROWS WITH TIES`

	sqlDeadAll   = `SELECT a.* FROM {s}.archive a WHERE ` + sqlDeadAfter + sqlDeadOrder
	sqlDeadScope = `SELECT a.* FROM {s}.archive a WHERE a.scope = $4::integer AND ` + sqlDeadAfter + sqlDeadOrder
	sqlDeadKinds = `SELECT a.* FROM unnest($5::bytea[]) k(kind) CROSS JOIN LATERAL (
		SELECT a.* FROM {s}.archive a WHERE a.kind = k.kind AND ($4::integer = 0 OR a.scope = $4::integer) AND ` +
		sqlDeadAfter + sqlDeadOrder + `) a` + sqlDeadOrder
	sqlDeadIDs = `SELECT a.* FROM unnest($5::bytea[]) k(id) CROSS JOIN LATERAL (
		SELECT a.* FROM {s}.archive a WHERE a.id = k.id OFFSET 0) a
		WHERE ($4::integer = 0 OR a.scope = $4::integer) AND ` + sqlDeadAfter + sqlDeadOrder

	// sqlDeadBodies reads bodies and headers, in the order asked for; what was purged meanwhile is left out. (Where a row is
	// looked up by its key, purged_at is asked for outside or otherwise, or the index of a list might seem to do as well.)
	sqlDeadBodies = `
SELECT k.place, a.headers, a.body
FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS k(key, delivery, place)
CROSS JOIN LATERAL (SELECT a.headers, a.body, a.purged_at FROM {s}.archive a
	WHERE a.key = k.key AND a.delivery = k.delivery OFFSET 0) a
WHERE a.purged_at IS NULL ORDER BY k.place`
)

// statusFields are those of statusRow, of the message m (or what ranges know of its key) and its owner o, all of which may
// be missing. An owner that the snapshot does not show counts as live, like that of a range: whoever asks for the message
// next finds out.
func statusFields(key string) string {
	half := func(from string) string {
		return "('x' || encode(substring(uuid_send(" + key + "), " + from + ", 8), 'hex'))::bit(64)::bigint"
	}
	return strings.NewReplacer("{log}", half("1"), "{offset}", half("9")).Replace(sqlStatusFields)
}

var (
	sqlStatus = `
SELECT ` + statusFields("k.key") + `
FROM unnest($1::uuid[]) WITH ORDINALITY AS k(key, place)
LEFT JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = k.key OFFSET 0) m ON true
` + sqlJoinOwner + ` ORDER BY k.place`

	// sqlListPages reads the messages in a range of the table's pages, sqlListKeys those of keys.
	sqlListPages = `
SELECT m.key, ` + sqlMessageFields + `, ` + statusFields("m.key") + `
FROM {s}.message m JOIN {s}.scope s ON s.id = m.scope
` + sqlJoinOwner + `
WHERE m.ctid >= $1::text::tid AND m.ctid < $2::text::tid AND ($3::integer = 0 OR m.scope = $3::integer)
	AND ($4::integer = 0 OR m.state = $4::integer)
	AND m.at <= timestamptz 'epoch' + $5::bigint * interval '1 microsecond'`

	sqlListKeys = `
SELECT m.key, ` + sqlMessageFields + `, ` + statusFields("m.key") + `
FROM unnest($1::uuid[]) k(key)
CROSS JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = k.key OFFSET 0) m
JOIN {s}.scope s ON s.id = m.scope
` + sqlJoinOwner

	// sqlDead is a page of dead letters without their bodies, from {source}: the oldest after a place.
	sqlDead = `
SELECT ` + sqlArchiveFields + `, coalesce(octet_length(a.body), 0) + coalesce(octet_length(a.headers), 0),
	a.token <> 0 AND EXISTS (SELECT FROM {s}.archive b WHERE b.key = a.key AND b.token > a.token),
	` + statusFields("a.key") + `
FROM ({source}) a
JOIN {s}.scope s ON s.id = a.scope
LEFT JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = a.key OFFSET 0) m ON true
` + sqlJoinOwner + `
ORDER BY a.at, a.key, a.delivery`
)

const (
	sqlFrozenLimit = `SELECT set_config('idle_in_transaction_session_timeout', $1::text, true)`

	// sqlRenew is the guarded write; null keeps the fingerprint and the delivery.
	sqlRenew = `
WITH me AS MATERIALIZED (SELECT {durable}, set_config('lock_timeout', '1000', true))
UPDATE {s}.message m SET token = m.token + 1, generation = coalesce(m.generation, 0) + 1,
	fingerprint = coalesce($3::uuid, m.fingerprint), failed_delivery = coalesce($4::bytea, m.failed_delivery)
FROM {s}.archive a, me
WHERE m.key = $1::uuid AND m.state = 3 AND m.token = $2::bigint AND a.key = $1::uuid AND a.delivery = m.failed_delivery
	AND a.purged_at IS NULL
RETURNING m.token::bigint, m.generation, a.delivery, a.position`

	sqlRenewKept = `UPDATE {s}.archive SET token = $3::bigint WHERE key = $1::uuid AND delivery = $2::bytea`

	sqlRenewMended = `
INSERT INTO {s}.archive (token, sent_at, at, expiry, scope, attempts, generation, published, key, fingerprint, delivery, id,
	kind, source, grp, position, errors, headers, body)
SELECT $3::bigint, a.sent_at, clock_timestamp(), a.expiry, a.scope, a.attempts, $4::integer, false, a.key, $5::uuid,
	$6::bytea, a.id, a.kind, a.source, a.grp, $8::bytea, a.errors, a.headers, $7::bytea
FROM {s}.archive a WHERE a.key = $1::uuid AND a.delivery = $2::bytea`

	// sqlReopen makes messages pending that succeeded and still have the given tokens; a row that another transaction holds
	// is skipped. Their archived deliveries get another name, or they would be acknowledged when they come again. One whose row was to
	// go soon, since a range or segment speaks for it, is known for as long as that says, at least; it is covered no more where none does.
	sqlReopen = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at, {durable}, set_config('lock_timeout', '1000', true)
), ask AS MATERIALIZED (
	SELECT q.* FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS q(key, token, detail)
), locked AS MATERIALIZED (
	SELECT q.key, q.detail, m.place, q.token + 1 AS token,
		('x' || encode(substring(uuid_send(q.key) FROM 1 FOR 8), 'hex'))::bit(64)::bigint AS log,
		('x' || encode(substring(uuid_send(q.key) FROM 9), 'hex'))::bit(64)::bigint AS at_offset
	FROM (SELECT a.* FROM ask a, clock ORDER BY a.key) q
	CROSS JOIN LATERAL (SELECT m.ctid AS place FROM {s}.message m
		WHERE m.key = q.key AND m.state = 2 AND m.token = q.token FOR NO KEY UPDATE SKIP LOCKED) m
), cover AS MATERIALIZED (
	SELECT l.key, greatest(
		(SELECT max(r.keep) * interval '1 microsecond' FROM {s}.claim_range r
			WHERE r.log = l.log AND r.first <= l.at_offset AND r.last > l.at_offset),
		(SELECT CASE WHEN s.last > l.at_offset AND s.kind = 1 THEN s.expiry - c.at END FROM {s}.segment s
			WHERE s.log = l.log AND s.first <= l.at_offset ORDER BY s.first DESC LIMIT 1)) AS rest
	FROM locked l, clock c
), done AS (
	UPDATE {s}.message m SET state = 1, owner = NULL, due = NULL, token = l.token, attempts = 0, crashes = 0, errors = NULL,
		result = NULL, failed_delivery = NULL, generation = nullif(coalesce(m.generation, 0) + $4::integer, 0), at = c.at,
		covered = CASE WHEN v.rest IS NOT NULL THEN m.covered END,
		expiry = c.at + greatest(m.expiry - m.at, CASE WHEN m.covered THEN v.rest END)
	FROM locked l JOIN cover v ON v.key = l.key, clock c WHERE m.ctid = l.place
	RETURNING m.key, l.token, l.detail
), named AS (
	UPDATE {s}.archive a SET delivery = ('reopened:' || d.token || ':')::bytea || a.delivery
	FROM done d WHERE a.key = ANY(ARRAY[d.key]) RETURNING 1
), noted AS (
	INSERT INTO {s}.audit (actor, action, key, detail) SELECT $5::text, 'reopen', d.key, d.detail FROM done d
)
SELECT count(*) FROM done`

	// sqlPurge empties archived deliveries whose message is in the state and has the token that it was listed with, and
	// which no other transaction holds (state 2 with token 0: it succeeded in a range). What is empty goes with its message.
	sqlPurge = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at, {durable}, set_config('lock_timeout', '1000', true)
), ask AS MATERIALIZED (
	SELECT q.* FROM unnest($1::uuid[], $2::bytea[], $3::integer[], $4::bigint[], $5::bytea[])
		AS q(key, delivery, state, token, detail)
), locked AS MATERIALIZED (
	SELECT k.key, m.state, m.token, m.expiry
	FROM (SELECT DISTINCT a.key FROM ask a, clock ORDER BY a.key) k
	CROSS JOIN LATERAL (SELECT m.state, m.token, m.expiry FROM {s}.message m WHERE m.key = k.key
		FOR NO KEY UPDATE SKIP LOCKED) m
), free AS MATERIALIZED (
	SELECT q.*, l.expiry AS till FROM ask q LEFT JOIN locked l ON l.key = q.key
	WHERE CASE q.state WHEN 0 THEN (SELECT true FROM {s}.message m WHERE m.key = q.key) IS NULL
		WHEN 2 THEN l.state = 2 AND l.token = q.token OR q.token = 0 AND l.state IS NULL
			AND (SELECT true FROM {s}.message m WHERE m.key = q.key) IS NULL
		ELSE l.state = q.state AND l.token = q.token END
), target AS MATERIALIZED (
	SELECT f.key, f.till, f.detail, a.place
	FROM (SELECT * FROM free ORDER BY key, delivery) f
	CROSS JOIN LATERAL (SELECT a.ctid AS place, a.purged_at FROM {s}.archive a
		WHERE a.key = f.key AND a.delivery = f.delivery FOR NO KEY UPDATE SKIP LOCKED) a
	WHERE coalesce(a.purged_at, 'infinity') = 'infinity'
), done AS (
	UPDATE {s}.archive a SET body = NULL, headers = NULL, errors = NULL, grp = '', purged_at = c.at,
		expiry = least(a.expiry, coalesce(t.till, c.at))
	FROM target t, clock c WHERE a.ctid = t.place
	RETURNING t.key, t.detail
), noted AS (
	INSERT INTO {s}.audit (actor, action, key, detail) SELECT $6::text, 'purge', d.key, d.detail FROM done d
)
SELECT count(*) FROM done`

	// sqlAudit adds audit rows, in their order.
	sqlAudit = `
WITH me AS MATERIALIZED (SELECT {durable}, set_config('lock_timeout', '1000', true))
INSERT INTO {s}.audit (actor, action, key, detail)
SELECT q.actor, q.action, q.key, q.detail
FROM me, unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[]) WITH ORDINALITY AS q(actor, action, key, detail, place)
ORDER BY q.place`

	sqlMayAudit = `SELECT has_table_privilege({text} || '.audit', 'SELECT')`

	// sqlReplayed looks for the last replay of deliveries, since they failed, among the latest audit rows of their messages.
	sqlReplayed = `
SELECT k.place, (extract(epoch FROM u.at) * 1000000)::bigint
FROM unnest($1::uuid[], $2::bytea[], $3::bigint[]) WITH ORDINALITY AS k(key, name, since, place)
CROSS JOIN LATERAL (
	SELECT w.at FROM (SELECT v.* FROM {s}.audit v WHERE v.key = k.key ORDER BY v.id DESC LIMIT 100) w
	WHERE w.action = 'replay' AND w.at >= timestamptz 'epoch' + k.since * interval '1 microsecond'
		AND position(k.name IN w.detail) > 0 ORDER BY w.id DESC LIMIT 1) u`

	sqlAudits = `
SELECT id, (extract(epoch FROM at) * 1000000)::bigint, actor, coalesce(role, ''), action, key, detail
FROM {s}.audit WHERE id > $1::bigint AND at <= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
ORDER BY id LIMIT $3::bigint`

	sqlAuditsKey = `
SELECT id, (extract(epoch FROM at) * 1000000)::bigint, actor, coalesce(role, ''), action, key, detail
FROM (SELECT * FROM {s}.audit a WHERE a.key >= $5::uuid AND a.key <= $4::uuid
	AND (a.key = $4::uuid OR a.action = 'reopen') OFFSET 0) a
WHERE id > $1::bigint AND at <= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
ORDER BY id LIMIT $3::bigint`
)

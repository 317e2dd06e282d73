package postgres

import "strings"

// parkBehind is storage.Behind.
const parkBehind = `timestamptz '9999-12-30 00:00:00+00'`

// sqlPark is Release for a batch of distinct keys, with the whole messages in the same statement. Rows are locked as by sqlSettle. What
// has a lane waits behind the last before it there, of those that nobody else has locked: that one does not go before this commits, so
// whoever removes it sees this. Where none is to be locked it is due, and due_parked looks for itself. A place below zero is the one behind
// the last.
var sqlPark = strings.Replace(`
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at
), me AS MATERIALIZED (
	SELECT (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok, {durable},
		set_config('lock_timeout', $3::text, true)
	FROM clock c
), ask AS MATERIALIZED (
	SELECT a.* FROM unnest($4::uuid[], $5::bigint[], $6::bigint[], $7::smallint[], $8::bytea[], $9::bytea[], $10::integer[],
		$11::bytea[], $12::uuid[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bytea[], $17::bytea[], $18::integer[],
		$19::timestamptz[], $20::bigint[], $21::bigint[], $22::bytea[], $23::bigint[])
		AS a(key, token, after, counted, errors, delivery, scope, id, print, body, headers, source, grp, position, attempts,
		sent_at, keep, weight, lane, wish)
	WHERE (SELECT ok FROM me)
), locked AS MATERIALIZED (
	SELECT a.*, m.place, (SELECT at FROM clock) + a.after * interval '1 microsecond' AS due,
		CASE WHEN a.wish >= 0 THEN a.wish ELSE coalesce((SELECT p.place + 1 FROM {s}.parked p WHERE p.scope = a.scope AND p.lane = a.lane
			ORDER BY p.place DESC LIMIT 1), 0) END AS stand
	FROM (SELECT * FROM ask ORDER BY key) a
	CROSS JOIN LATERAL (SELECT m.ctid AS place FROM {s}.message m
		WHERE m.key = a.key AND m.token = a.token AND m.state = 1 AND m.owner = $1::bigint
		FOR NO KEY UPDATE SKIP LOCKED) m
), before AS MATERIALIZED (
	SELECT l.key FROM locked l
	CROSS JOIN LATERAL (SELECT p.key FROM {s}.parked p WHERE p.scope = l.scope AND p.lane = l.lane AND p.place < l.stand
		ORDER BY p.place DESC LIMIT 1 FOR UPDATE SKIP LOCKED) p
	WHERE l.lane IS NOT NULL
), done AS (
	UPDATE {s}.message m SET owner = NULL, due = l.due, attempts = least(m.attempts + l.counted, 32767), parked = true,
		expiry = greatest(m.expiry, l.due + l.keep * interval '1 microsecond'
			+ CASE WHEN l.lane IS NULL THEN interval '0' ELSE interval '720 hours' END),
		errors = CASE l.counted WHEN 0 THEN m.errors ELSE l.errors END
	FROM locked l WHERE m.ctid = l.place
	RETURNING m.key
), filed AS (
	INSERT INTO {s}.parked (due, at, sent_at, keep, weight, place, scope, attempts, key, fingerprint, delivery, id, source, grp, position, lane,
		headers, body)
	SELECT CASE WHEN b.key IS NULL THEN l.due ELSE {behind} END, (SELECT at FROM clock), l.sent_at, l.keep, l.weight, l.stand, l.scope,
		l.attempts, l.key, l.print, l.delivery, l.id, l.source, l.grp, l.position, l.lane, l.headers, l.body
	FROM locked l LEFT JOIN before b ON b.key = l.key ORDER BY l.key
	ON CONFLICT (key) DO UPDATE SET due = excluded.due, at = excluded.at, sent_at = excluded.sent_at, keep = excluded.keep,
		weight = excluded.weight, place = excluded.place, lane = excluded.lane, attempts = excluded.attempts, fingerprint = excluded.fingerprint, delivery = excluded.delivery,
		source = excluded.source, grp = excluded.grp, position = excluded.position, headers = excluded.headers, body = excluded.body
)
SELECT (SELECT ok FROM me), count(*), CASE WHEN count(*) < cardinality($4::uuid[]) THEN array_agg(key) END FROM done`, "{behind}", parkBehind, 1)

const (
	// sqlFindParked reads which of some messages are parked.
	sqlFindParked = `SELECT p.key FROM {s}.parked p WHERE p.key = ANY($1::uuid[])`

	sqlDueParked = `
WITH me AS MATERIALIZED (SELECT {durable})
SELECT d.keys, d.rest FROM me, {s}.due_parked($1::integer, $2::bigint, $3::bigint, $4::bigint) d`

	// sqlParked reads messages in the order of the keys.
	sqlParked = `
SELECT p.key, p.fingerprint, p.delivery, p.id, p.source, p.grp, p.position, p.headers, p.body, p.attempts, p.keep,
	(extract(epoch FROM p.sent_at) * 1000000)::bigint, (extract(epoch FROM p.due) * 1000000)::bigint, (extract(epoch FROM p.at) * 1000000)::bigint,
	p.lane, coalesce(p.place, 0)
FROM unnest($1::uuid[]) WITH ORDINALITY AS a(key, place)
CROSS JOIN LATERAL (SELECT * FROM {s}.parked p WHERE p.key = a.key OFFSET 0) p ORDER BY a.place`

	// sqlListParked reads parked messages of a scope behind a place, with their messages.
	sqlListParked = `
SELECT p.key, p.fingerprint, p.delivery, p.id, p.source, p.grp, p.position, CASE WHEN $5::boolean THEN p.headers END,
	CASE WHEN $5::boolean THEN p.body END, coalesce(m.attempts, p.attempts), p.keep, (extract(epoch FROM p.sent_at) * 1000000)::bigint,
	(extract(epoch FROM p.due) * 1000000)::bigint, (extract(epoch FROM p.at) * 1000000)::bigint, p.lane, coalesce(p.place, 0),
	CASE WHEN NOT $5::boolean THEN coalesce(octet_length(p.body), 0) ELSE 0 END, m.errors, {status}
FROM (SELECT * FROM {s}.parked p WHERE p.scope = $1::integer
	AND (p.due, p.key) > (timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3::uuid) ORDER BY p.due, p.key LIMIT $4::bigint) p
LEFT JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = p.key OFFSET 0) m ON true
{owner} ORDER BY p.due, p.key`

	// What changes parked messages locks those that are pending with the token that they were listed with, and that no live owner has.
	sqlParkedAsk = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at, {durable}, set_config('lock_timeout', '1000', true)
), ask AS MATERIALIZED (
	SELECT q.* FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS q(key, token, detail)
), held AS MATERIALIZED (
	SELECT q.key, q.detail, m.*
	FROM (SELECT a.* FROM ask a, clock ORDER BY a.key) q
	CROSS JOIN LATERAL (SELECT m.ctid AS place, m.token, m.owner, m.attempts, m.generation, m.expiry, m.errors FROM {s}.message m
		WHERE m.key = q.key AND m.state = 1 AND m.token = q.token AND m.parked FOR NO KEY UPDATE SKIP LOCKED) m
), locked AS MATERIALIZED (
	SELECT h.* FROM held h WHERE h.owner IS NULL OR (SELECT o.fate FROM {s}.owner o WHERE o.id = h.owner) <> 1
)`

	sqlRunParked = sqlParkedAsk + `, there AS MATERIALIZED (
	SELECT l.* FROM locked l WHERE EXISTS (SELECT FROM {s}.parked p WHERE p.key = l.key)
), done AS (
	UPDATE {s}.message m SET due = NULL FROM there t WHERE m.ctid = t.place RETURNING m.key, t.detail
), moved AS (
	UPDATE {s}.parked p SET due = c.at FROM done d, clock c WHERE p.key = d.key AND p.due < ` + parkBehind + ` RETURNING 1
), noted AS (
	INSERT INTO {s}.audit (actor, action, key, detail) SELECT $4::text, 'run-now', d.key, d.detail FROM done d
)
SELECT count(*) FROM done`

	// sqlDropParked makes dead letters. What is parked of them goes by the trigger.
	sqlDropParked = sqlParkedAsk + `, there AS MATERIALIZED (
	SELECT l.detail, l.place AS stand, l.token, l.attempts AS tried, l.generation, l.expiry, l.errors, p.*
	FROM locked l JOIN {s}.parked p ON p.key = l.key
	WHERE NOT EXISTS (SELECT FROM {s}.archive a WHERE a.key = p.key AND a.delivery = p.delivery)
), done AS (
	UPDATE {s}.message m SET state = 3, owner = NULL, due = NULL, result = NULL, failed_delivery = t.delivery
	FROM there t WHERE m.ctid = t.stand RETURNING m.key, t.detail
), filed AS (
	INSERT INTO {s}.archive (token, sent_at, at, expiry, scope, attempts, generation, published, key, fingerprint,
		delivery, id, kind, source, grp, position, errors, headers, body)
	SELECT t.token, t.sent_at, c.at, greatest(c.at + t.keep * interval '1 microsecond', t.expiry), t.scope, t.tried, t.generation, false,
		t.key, t.fingerprint, t.delivery, t.id, 'dropped', t.source, t.grp, t.position, t.errors, t.headers, t.body
	FROM there t, clock c ORDER BY t.key
), noted AS (
	INSERT INTO {s}.audit (actor, action, key, detail) SELECT $4::text, 'drop', d.key, d.detail FROM done d
)
SELECT count(*) FROM done`

	// sqlParkedLane counts what is parked of a lane, and says how long the first of it waits.
	sqlParkedLane = `
WITH l AS MATERIALIZED (
	SELECT p.key, p.place FROM {s}.parked p WHERE p.scope = $1::integer AND p.lane = $2::bytea ORDER BY p.place LIMIT $3::bigint
)
SELECT (SELECT count(*) FROM l), coalesce((SELECT greatest((extract(epoch FROM m.due - clock_timestamp()) * 1000000)::bigint, 0)
	FROM (SELECT key FROM l ORDER BY place LIMIT 1) f
	CROSS JOIN LATERAL (SELECT m.due FROM {s}.message m WHERE m.key = f.key OFFSET 0) m), 0)`

	// sqlParkedLanes goes from lane to lane along the index.
	sqlParkedLanes = `
WITH RECURSIVE l(lane) AS (
	(SELECT p.lane FROM {s}.parked p WHERE p.scope = $1::integer AND p.lane >= $2::bytea ORDER BY p.lane LIMIT 1)
	UNION ALL
	SELECT n.lane FROM l CROSS JOIN LATERAL (SELECT p.lane FROM {s}.parked p WHERE p.scope = $1::integer AND p.lane > l.lane
		ORDER BY p.lane LIMIT 1) n
	WHERE substr(l.lane, 1, octet_length($2::bytea)) = $2::bytea
)
SELECT lane FROM l WHERE substr(lane, 1, octet_length($2::bytea)) = $2::bytea LIMIT $3::bigint`

	sqlCountParked = `
SELECT s.name, count(*), coalesce(sum(p.weight), 0)::bigint,
	greatest((extract(epoch FROM clock_timestamp() - min(p.due)) * 1000000)::bigint, 0)
FROM {s}.parked p JOIN {s}.scope s ON s.id = p.scope GROUP BY s.name`

	sqlSumParked = `
SELECT count(*), coalesce(sum(p.weight), 0)::bigint,
	coalesce(greatest((extract(epoch FROM clock_timestamp() - min(p.due)) * 1000000)::bigint, 0), 0)
FROM {s}.parked p WHERE p.scope = (SELECT s.id FROM {s}.scope s WHERE s.name = $1::bytea)`
)

var sqlParkWait = waiting(sqlPark)

package postgres

// sqlRangeOpen puts new ranges into logs that are of the version that the owner knows: one statement and one round trip
// for the batches of any number of logs. A version that somebody raises while it waits is seen as it is then.
const sqlRangeOpen = `
WITH me AS MATERIALIZED (
	SELECT o.fate, c.at, o.fate = 1 AND (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok,
		{durable}, set_config('lock_timeout', $3::text, true)
	FROM {s}.owner o, (SELECT clock_timestamp() AS at OFFSET 0) c WHERE o.id = $1::bigint
), ask AS MATERIALIZED (
	SELECT a.* FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
		AS a(log, known, version, token, top)
	WHERE (SELECT ok FROM me) ORDER BY a.log
), moved AS (
	UPDATE {s}.range_log g SET version = a.version, token = a.token, top = a.top
	FROM ask a WHERE g.log = ANY(ARRAY[a.log]) AND g.version = a.known
	RETURNING g.log
), opened AS (
	INSERT INTO {s}.claim_range (log, token, first, last, owner, messages, keep, at, done)
	SELECT r.log, r.token, r.first, r.last, $1::bigint, r.messages, r.keep, me.at, r.done
	FROM me CROSS JOIN unnest($9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bytea[])
		AS r(log, token, first, last, messages, keep, done)
	WHERE r.log IN (SELECT log FROM moved)
)
SELECT me.fate::integer, me.ok, ARRAY(SELECT log FROM moved) FROM me`

// sqlRangeOver takes ranges away that are over, and lets the segments before them grow over them. All that it changes is
// locked first and looked at as it is then, so that it changes both or neither; what its snapshot does not show, or what has
// changed, is left to a look at the logs. It shares the lock of a log with sqlRangeOpen, which puts something new above what
// this looks at: else each claim would wait for the COMMIT of the settlement before it, and each settlement for a claim's.
// A range in which an InTx has put a segment is not for this: that would lie in the one that grows.
const sqlRangeOver = `
WITH me AS MATERIALIZED (
	SELECT o.fate, c.at, o.fate = 1 AND (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok,
		{durable}, set_config('lock_timeout', $3::text, true)
	FROM {s}.owner o, (SELECT clock_timestamp() AS at OFFSET 0) c WHERE o.id = $1::bigint
), ask AS MATERIALIZED (
	SELECT a.* FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
		AS a(log, token, segment, first, last, messages, keep)
	WHERE (SELECT ok FROM me) ORDER BY a.log
), held AS MATERIALIZED (
	SELECT a.* FROM ask a
	CROSS JOIN LATERAL (SELECT FROM {s}.range_log g WHERE g.log = a.log FOR KEY SHARE) g
	CROSS JOIN LATERAL (SELECT FROM {s}.segment s
		WHERE s.log = a.log AND s.first = a.segment AND s.last = a.first AND s.kind = 1 FOR NO KEY UPDATE) s
	WHERE NOT EXISTS (SELECT FROM {s}.segment x WHERE x.log = a.log AND x.first >= a.first AND x.first < a.last OFFSET 0)
), gone AS (
	DELETE FROM {s}.claim_range r USING held a
	WHERE r.log = ANY(ARRAY[a.log]) AND r.token = ANY(ARRAY[a.token]) AND r.owner = $1::bigint
		AND r.first = a.first AND r.last = a.last
	RETURNING r.log, a.segment, a.last, a.messages, a.keep
), grown AS (
	UPDATE {s}.segment s SET last = a.last, messages = s.messages + a.messages, until = me.at,
		expiry = greatest(s.expiry, me.at + a.keep * interval '1 microsecond')
	FROM me, gone a WHERE s.log = ANY(ARRAY[a.log]) AND s.first = a.segment
	RETURNING s.log
)
SELECT me.fate::integer, me.ok, ARRAY(SELECT log FROM gone), ARRAY(SELECT log FROM grown) FROM me`

// What follows is a transaction of two round trips, in READ COMMITTED: each statement sees what was committed before it
// began, so that nothing which is read after the lock of a log can be older than that lock.
const (
	sqlReadCommitted = `begin isolation level read committed read write`

	sqlRangeSettings = `SELECT set_config('lock_timeout', $1::text, true),
	set_config('idle_in_transaction_session_timeout', $2::text, true), {durable}`

	// sqlLogMake makes the logs that are not there. Rows that lie in one already were made by workers that knew no ranges:
	// the stretch from the first to the last is bound to rows.
	sqlLogMake = `
WITH made AS (
	INSERT INTO {s}.range_log (log, scope, name, epoch, prefix, version, token, top)
	SELECT a.log, a.scope, a.name, a.epoch, a.prefix, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0,
		coalesce(('x' || encode(substring(uuid_send(h.key) FROM 9), 'hex'))::bit(64)::bigint + 1, 0)
	FROM (SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::integer[], $5::bytea[], $6::uuid[], $7::uuid[])
			AS a(log, scope, name, epoch, prefix, low, high)
		WHERE NOT EXISTS (SELECT FROM {s}.range_log g WHERE g.log = a.log OFFSET 0) ORDER BY a.log) a
	LEFT JOIN LATERAL (SELECT m.key FROM {s}.message m WHERE m.key >= a.low AND m.key <= a.high
		ORDER BY m.key DESC LIMIT 1) h ON true
	ON CONFLICT (log) DO NOTHING
	RETURNING log, top
), bound AS (
	INSERT INTO {s}.segment (log, first, last, kind, messages, since, until, expiry)
	SELECT m.log, ('x' || encode(substring(uuid_send(l.key) FROM 9), 'hex'))::bit(64)::bigint, m.top, 2, 0, clock_timestamp(),
		clock_timestamp(), clock_timestamp()
	FROM made m JOIN unnest($1::bigint[], $6::uuid[], $7::uuid[]) AS a(log, low, high) ON a.log = m.log
	CROSS JOIN LATERAL (SELECT k.key FROM {s}.message k WHERE k.key >= a.low AND k.key <= a.high ORDER BY k.key LIMIT 1) l
	WHERE m.top > 0
)
SELECT log FROM made`

	// sqlLogLockSkip excludes all others that change the log: sqlRangeOpen, which updates its row, settlements, which hold it
	// FOR KEY SHARE, and itself.
	sqlLogLockSkip = `
SELECT g.log, g.version, g.token, g.top
FROM (SELECT a.log FROM unnest($1::bigint[]) AS a(log) ORDER BY a.log) a
CROSS JOIN LATERAL (SELECT * FROM {s}.range_log g WHERE g.log = a.log FOR UPDATE SKIP LOCKED) g`

	// sqlLogShareSkip is that of a settlement, which changes its owner's ranges and the segments that touch them, and leaves the
	// log's row as it is: see sqlRangeOver. Two settlements of an owner meet at its ranges, and those of two owners at the
	// segments; both are locked as they are read.
	sqlLogShareSkip = `
SELECT g.log, g.version, g.token, g.top
FROM (SELECT a.log FROM unnest($1::bigint[]) AS a(log) ORDER BY a.log) a
CROSS JOIN LATERAL (SELECT * FROM {s}.range_log g WHERE g.log = a.log FOR KEY SHARE SKIP LOCKED) g`

	// sqlRangeReopen says that finished offsets are to be taken out of their segments: guard_segment lets operators do so.
	sqlRangeReopen = `SELECT set_config('ackledger.reopen', 'on', true)`

	// sqlSegmentTrim drops what lies below where logs ($3) have begun for an hour ($4), of all their epochs, but for what has changed
	// since, or lies in an open range, where an InTx has put it: it may be in a slow worker's hands.
	sqlSegmentTrim = `
DELETE FROM {s}.segment t USING (
	SELECT s.log, s.first FROM unnest($1::integer[], $2::bytea[], $3::bigint[]) AS a(scope, name, log)
	CROSS JOIN LATERAL (SELECT CASE WHEN b.start_at < clock_timestamp() - $4::bigint * interval '1 microsecond' THEN b.start ELSE b.low END
			AS low FROM {s}.range_log b WHERE b.log = a.log OFFSET 0) b
	CROSS JOIN LATERAL (SELECT g.log FROM {s}.range_log g
		WHERE g.scope = a.scope AND sha256(g.name) = sha256(a.name) OFFSET 0) g
	CROSS JOIN LATERAL (SELECT s.log, s.first FROM {s}.segment s
		WHERE s.log = g.log AND s.first < b.low AND s.last <= b.low AND NOT EXISTS (SELECT FROM {s}.claim_range r
			WHERE r.log = s.log AND r.first < s.last AND s.first < r.last OFFSET 0) OFFSET 0) s
) s WHERE t.log = ANY(ARRAY[s.log]) AND t.first = s.first
	AND t.until < clock_timestamp() - $4::bigint * interval '1 microsecond'`

	// sqlLogNote notes first offsets as [ranges.Start.Note] does. It passes over logs that another transaction holds.
	sqlLogNote = `
WITH held AS MATERIALIZED (
	SELECT g.log, a.first FROM unnest($1::bigint[], $2::bigint[]) AS a(log, first)
	CROSS JOIN LATERAL (SELECT g.log FROM {s}.range_log g WHERE g.log = a.log AND g.start < a.first
		AND g.start_at < clock_timestamp() - $3::bigint * interval '1 microsecond' FOR UPDATE SKIP LOCKED) g
)
UPDATE {s}.range_log g SET low = g.start, start = h.first, start_at = clock_timestamp()
FROM held h WHERE g.log = ANY(ARRAY[h.log])`

	sqlRangeState = `
SELECT coalesce((SELECT o.fate FROM {s}.owner o WHERE o.id = $1::bigint), 0)::integer, (extract(epoch FROM c.at) * 1000000)::bigint,
	(extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint
FROM (SELECT clock_timestamp() AS at OFFSET 0) c`

	// sqlRangeHold takes the ranges out of which messages may be taken; those that an InTx holds stay with it.
	sqlRangeHold = `
SELECT r.log, r.token FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS q(log, first, last) ORDER BY q.log) q
CROSS JOIN LATERAL (SELECT r.log, r.token FROM {s}.claim_range r
	WHERE r.log = q.log AND r.first < q.last AND q.first < r.last ORDER BY r.token FOR UPDATE SKIP LOCKED) r`

	sqlRangeHoldOfSkip = `
SELECT r.log, r.token FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS q(log, token) ORDER BY q.log, q.token) q
CROSS JOIN LATERAL (SELECT r.log, r.token FROM {s}.claim_range r
	WHERE r.log = q.log AND r.token = q.token FOR UPDATE SKIP LOCKED) r`

	sqlAskedSpans = `unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS q(log, first, last)
CROSS JOIN LATERAL (SELECT * FROM {s}.claim_range r WHERE r.log = q.log AND r.first < q.last AND q.first < r.last OFFSET 0) r`

	sqlAskedTokens = `unnest($1::bigint[], $2::bigint[]) AS q(log, token)
CROSS JOIN LATERAL (SELECT * FROM {s}.claim_range r WHERE r.log = q.log AND r.token = q.token OFFSET 0) r`

	// sqlHeldTokens locks them as well, in their order, though not against InTx: a settlement whose connection broke may be on
	// its way to the server still, with what it has planned, and the next one of this owner waits to see what it does.
	sqlHeldTokens = `(SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS q(log, token) ORDER BY q.log, q.token) q
CROSS JOIN LATERAL (SELECT * FROM {s}.claim_range r WHERE r.log = q.log AND r.token = q.token OFFSET 0 FOR NO KEY UPDATE) r`

	sqlRangeRead     = sqlRangeFields + sqlAskedSpans + sqlRangeOwner
	sqlRangeReadOf   = sqlRangeFields + sqlAskedTokens + sqlRangeOwner
	sqlRangeReadHeld = sqlRangeFields + sqlHeldTokens + sqlRangeOwner

	sqlRangeFields = `
SELECT r.log, r.token, r.first, r.last, r.owner, r.messages, r.keep, (extract(epoch FROM r.at) * 1000000)::bigint,
	r.done, r.back, coalesce(o.fate, 0)::integer, coalesce((extract(epoch FROM o.lease_end) * 1000000)::bigint, 0)
FROM `

	sqlRangeOwner = `
LEFT JOIN LATERAL (SELECT o.fate, o.lease_end FROM {s}.owner o WHERE o.id = r.owner OFFSET 0) o ON true
ORDER BY r.log, r.token`

	// sqlSegments reads those that touch the hull of what was asked about and of the ranges that meet it. Segments do not
	// meet, so that of those that begin before the hull only the last can reach it.
	sqlSegments = `
WITH hull AS MATERIALIZED (
	SELECT q.log, least(q.first, h.first) AS first, greatest(q.last, h.last) AS last
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS q(log, first, last)
	CROSS JOIN LATERAL (SELECT min(r.first) AS first, max(r.last) AS last FROM {s}.claim_range r
		WHERE r.log = q.log AND r.first < q.last AND q.first < r.last) h
)` + sqlSegmentsIn + sqlSegmentsOrder

	sqlSegmentsOf = sqlHullOf + sqlSegmentsIn + sqlSegmentsOrder

	sqlHullOf = `
WITH hull AS MATERIALIZED (
	SELECT r.log, min(r.first) AS first, max(r.last) AS last FROM ` + sqlAskedTokens + ` GROUP BY r.log
)`

	// sqlSegmentsHeld locks them as well, in their order. One that was taken into another's while this waited for it is told by
	// a first offset of -1: the other is not seen yet, and what is planned without it would lie in it. Of two owners' segments
	// that touch and are new to each other, neither sees the other's: they stay two until something else touches them.
	sqlSegmentsHeld = sqlHullOf + `, seen AS MATERIALIZED (
SELECT s.log, s.first` + sqlSegmentsFrom + `) s
)
SELECT q.log, coalesce(s.first, -1), coalesce(s.last, 0), coalesce(s.kind, 0)::smallint, coalesce(s.messages, 0),
	coalesce((extract(epoch FROM s.since) * 1000000)::bigint, 0), coalesce((extract(epoch FROM s.until) * 1000000)::bigint, 0),
	coalesce((extract(epoch FROM s.expiry) * 1000000)::bigint, 0)
FROM (SELECT * FROM seen ORDER BY log, first) q
LEFT JOIN LATERAL (SELECT * FROM {s}.segment s WHERE s.log = q.log AND s.first = q.first OFFSET 0 FOR NO KEY UPDATE) s ON true
ORDER BY q.log, q.first`

	sqlSegmentsIn = `
SELECT s.log, s.first, s.last, s.kind, s.messages, (extract(epoch FROM s.since) * 1000000)::bigint,
	(extract(epoch FROM s.until) * 1000000)::bigint, (extract(epoch FROM s.expiry) * 1000000)::bigint` + sqlSegmentsFrom

	sqlSegmentsFrom = `
FROM (SELECT * FROM hull ORDER BY log) h
CROSS JOIN LATERAL (SELECT coalesce((SELECT p.first FROM {s}.segment p WHERE p.log = h.log AND p.first < h.first
	ORDER BY p.first DESC LIMIT 1), h.first) AS low OFFSET 0) b
CROSS JOIN LATERAL (SELECT * FROM {s}.segment s WHERE s.log = h.log AND s.first >= b.low AND s.first <= h.last
	AND s.last >= h.first ORDER BY s.first OFFSET 0`
	sqlSegmentsOrder = `) s
ORDER BY s.log, s.first`

	// sqlRowsBetween finds the rows between two keys of one log.
	sqlRowsBetween = `
SELECT m.key FROM unnest($1::uuid[], $2::uuid[]) AS a(low, high)
CROSS JOIN LATERAL (SELECT m.key FROM {s}.message m WHERE m.key >= a.low AND m.key < a.high OFFSET 0) m`

	// sqlRoom finds what comes next at or behind an offset of logs that reach beyond: segments, ranges, and rows that nothing
	// covers. Segments do not meet, so that of those that begin before only the last can reach it.
	sqlRoom = `
SELECT q.log, CASE WHEN p.last > q.last THEN q.last ELSE least(g.top, s.first, r.first,
	('x' || encode(substring(uuid_send(m.key) FROM 9), 'hex'))::bit(64)::bigint) END
FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[]) AS q(log, last, low, high)
CROSS JOIN LATERAL (SELECT g.top FROM {s}.range_log g WHERE g.log = q.log AND g.top > q.last OFFSET 0) g
LEFT JOIN LATERAL (SELECT p.last FROM {s}.segment p WHERE p.log = q.log AND p.first < q.last ORDER BY p.first DESC LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT s.first FROM {s}.segment s WHERE s.log = q.log AND s.first >= q.last AND s.first < g.top
	ORDER BY s.first LIMIT 1) s ON true
LEFT JOIN LATERAL (SELECT min(greatest(r.first, q.last)) AS first FROM {s}.claim_range r WHERE r.log = q.log AND r.last > q.last) r ON true
LEFT JOIN LATERAL (SELECT m.key FROM {s}.message m WHERE m.key >= q.low AND m.key <= q.high ORDER BY m.key LIMIT 1) m ON true`

	// sqlRangeInTime ends the transaction if its writes come too late: by a division by zero, which codeLate knows.
	sqlRangeInTime = `
SELECT 1 / (CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint < $1::bigint THEN 1 ELSE 0 END)`

	sqlLogWrite = `
UPDATE {s}.range_log g SET version = a.version, token = a.token, top = a.top
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS a(log, version, token, top)
WHERE g.log = ANY(ARRAY[a.log])`

	// sqlRowsWrite makes rows of messages that leave their ranges. A row that is there wins.
	sqlRowsWrite = `
INSERT INTO {s}.message (key, id, fingerprint, scope, state, owner, token, attempts, crashes, at, expiry, covered)
SELECT a.key, a.id, a.print, a.scope, 1, nullif(a.owner, 0), a.token, 0, 0, timestamptz 'epoch' + a.at * interval '1 microsecond',
	timestamptz 'epoch' + a.expiry * interval '1 microsecond', CASE WHEN a.owner <> 0 THEN true END
FROM unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::integer[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
	AS a(key, id, print, scope, owner, token, at, expiry)
ORDER BY a.key
ON CONFLICT (key) DO NOTHING`

	sqlRangeAlter = `
UPDATE {s}.claim_range r SET done = a.done, back = a.back, messages = a.messages
FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[]) AS a(log, token, done, back, messages)
WHERE r.log = ANY(ARRAY[a.log]) AND r.token = ANY(ARRAY[a.token])`

	sqlRangeClose = `
DELETE FROM {s}.claim_range r USING unnest($1::bigint[], $2::bigint[]) AS a(log, token)
WHERE r.log = ANY(ARRAY[a.log]) AND r.token = ANY(ARRAY[a.token])`

	sqlRangeOpenMore = `
INSERT INTO {s}.claim_range (log, token, first, last, owner, messages, keep, at, done, back)
SELECT r.log, r.token, r.first, r.last, $1::bigint, r.messages, r.keep, timestamptz 'epoch' + r.at * interval '1 microsecond',
	r.done, r.back
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[])
	AS r(log, token, first, last, messages, keep, at, done, back)`

	sqlSegmentDrop = `
DELETE FROM {s}.segment s USING unnest($1::bigint[], $2::bigint[]) AS a(log, first)
WHERE s.log = ANY(ARRAY[a.log]) AND s.first = a.first`

	// sqlSegmentPut changes a segment that grows at its end in place, which writes no index.
	sqlSegmentPut = `
INSERT INTO {s}.segment (log, first, last, kind, messages, since, until, expiry)
SELECT a.log, a.first, a.last, a.kind, a.messages, timestamptz 'epoch' + a.since * interval '1 microsecond',
	timestamptz 'epoch' + a.until * interval '1 microsecond', timestamptz 'epoch' + a.expiry * interval '1 microsecond'
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
	AS a(log, first, last, kind, messages, since, until, expiry)
ON CONFLICT (log, first) DO UPDATE SET last = excluded.last, kind = excluded.kind, messages = excluded.messages,
	since = excluded.since, until = excluded.until, expiry = excluded.expiry`

	sqlLogInfo = `
SELECT s.name, g.prefix FROM {s}.range_log g JOIN {s}.scope s ON s.id = g.scope WHERE g.log = $1::bigint`
)

var (
	sqlLogLock     = waiting(sqlLogLockSkip)
	sqlLogShare    = waiting(sqlLogShareSkip)
	sqlRangeHoldOf = waiting(sqlRangeHoldOfSkip)
)

const (
	// sqlRangeFence is InTx's for what lies in ranges: it locks each range that is still this owner's until the
	// transaction ends, so that nobody takes a message out of it, and writes the messages as segments, with rows for
	// results. It answers how many ranges it met, and what has left each of them: lengths and sets, in turn. A segment that
	// is there already is an error (23505).
	sqlRangeFence = `
WITH ask AS MATERIALIZED (
	SELECT a.* FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS a(log, token, place)
	WHERE (pg_catalog.date_part('epoch', pg_catalog.now()) * 1000000)::bigint = $4::bigint
), held AS MATERIALIZED (
	SELECT a.place, r.*, (SELECT g.scope FROM {s}.range_log g WHERE g.log = a.log) AS scope, pg_catalog.clock_timestamp() AS clock
	FROM (SELECT * FROM ask ORDER BY log, token) a
	CROSS JOIN LATERAL (SELECT * FROM {s}.claim_range r
		WHERE r.log = a.log AND r.token = a.token AND r.owner = $3::bigint FOR KEY SHARE) r
), done AS (
	INSERT INTO {s}.segment (log, first, last, kind, messages, since, until, expiry)
	SELECT h.log, s.first, s.last, 1, s.last - s.first, h.at, h.clock, h.clock + h.keep * interval '1 microsecond'
	FROM unnest($5::bigint[], $6::bigint[], $7::bigint[]) AS s(place, first, last) JOIN held h ON h.place = s.place
), results AS (
	INSERT INTO {s}.message (key, id, fingerprint, scope, state, token, attempts, crashes, at, expiry, result, covered)
	SELECT a.key, a.id, '00000000-0000-0000-0000-000000000000', h.scope, 2, h.token, 0, 0, h.at,
		h.at + h.keep * interval '1 microsecond', a.result, true
	FROM unnest($8::bigint[], $9::uuid[], $10::bytea[], $11::bytea[]) AS a(place, key, id, result) JOIN held h ON h.place = a.place
)
SELECT count(*), coalesce(string_agg(int4send(length(coalesce(done, ''))) || coalesce(done, '')
	|| int4send(length(coalesce(back, ''))) || coalesce(back, ''), ''::bytea ORDER BY place), '') FROM held`

	// sqlRangeFenceOne is that of one span of a range whose sets are as they were when it was opened ($7): nothing of it needs to be read
	// before COMMIT. Where the range is another's, or its sets are others, what is written has no times, and fails (23502).
	sqlRangeFenceOne = `
INSERT INTO {s}.segment (log, first, last, kind, messages, since, until, expiry)
SELECT $1::bigint, $5::bigint, $6::bigint, 1, $6::bigint - $5::bigint, h.at, c.clock, c.clock + h.keep * interval '1 microsecond'
FROM (SELECT pg_catalog.clock_timestamp() AS clock OFFSET 0) c LEFT JOIN (SELECT r.at, r.keep FROM {s}.claim_range r
	WHERE r.log = $1::bigint AND r.token = $2::bigint AND r.owner = $3::bigint AND r.done IS NOT DISTINCT FROM $7::bytea AND r.back IS NULL
		AND coalesce((pg_catalog.date_part('epoch', pg_catalog.now()) * 1000000)::bigint = $4::bigint, true) FOR KEY SHARE) h ON true
RETURNING 1`

	// sqlSegmentProbe waits for a transaction that has written this segment, and is not over. It is rolled back.
	sqlSegmentProbe = `
INSERT INTO {s}.segment (log, first, last, kind, messages, since, until, expiry)
VALUES ($1::bigint, $2::bigint, $2::bigint, 1, 0, 'epoch', 'epoch', 'epoch') ON CONFLICT (log, first) DO NOTHING`

	// sqlRangeOutcome tells what became of an InTx that is over: whether a segment has the message, whether its range is
	// still this owner's, and the state and token of its row.
	sqlRangeOutcome = `
SELECT EXISTS (SELECT FROM {s}.segment s WHERE s.log = $1::bigint AND s.first <= $2::bigint AND s.last > $2::bigint AND s.kind = 1),
	EXISTS (SELECT FROM {s}.claim_range r WHERE r.log = $1::bigint AND r.token = $3::bigint AND r.owner = $4::bigint),
	coalesce((SELECT m.state FROM {s}.message m WHERE m.key = $5::uuid), 0)::integer,
	coalesce((SELECT m.token FROM {s}.message m WHERE m.key = $5::uuid), 0)::bigint`

	// sqlRangeOwners are the owners that ranges name.
	sqlRangeOwners = `SELECT DISTINCT owner FROM {s}.claim_range`
	sqlSweepLog    = `SELECT coalesce(last_log, 0), last_log IS NULL
FROM {s}.sweep_log($1::bigint, $2::bigint, $3::bigint, $4::bigint)`

	// sqlSegmentCounts counts the messages of some logs' segments by scope, but for those that InTx has added to a range that is
	// open. Each table has the bounds, so that however they are joined none is read beyond them.
	sqlSegmentCounts = `
SELECT g.scope, sum(s.messages)::bigint FROM {s}.segment s JOIN {s}.range_log g ON g.log = s.log
WHERE g.log > $1::bigint AND g.log <= $2::bigint AND s.log > $1::bigint AND s.log <= $2::bigint AND s.kind = 1
	AND NOT EXISTS (SELECT FROM {s}.claim_range r WHERE r.log = s.log AND r.log > $1::bigint AND r.log <= $2::bigint
		AND r.first < s.last AND s.first < r.last)
GROUP BY g.scope`

	// sqlRangeCounts are the open ranges of some logs, with what InTx has added to them.
	sqlRangeCounts = `
SELECT g.scope, r.first, r.last, r.messages, r.keep, (extract(epoch FROM clock_timestamp() - r.at) * 1000000)::bigint,
	(extract(epoch FROM r.at) * 1000000)::bigint, r.done, r.back, g.prefix, coalesce(s.firsts, '{}'), coalesce(s.lasts, '{}')
FROM {s}.claim_range r JOIN {s}.range_log g ON g.log = r.log
LEFT JOIN LATERAL (SELECT array_agg(s.first) AS firsts, array_agg(s.last) AS lasts FROM {s}.segment s
	WHERE s.log = r.log AND s.kind = 1 AND s.first >= r.first AND s.last <= r.last) s ON true
WHERE g.log > $1::bigint AND g.log <= $2::bigint AND r.log > $1::bigint AND r.log <= $2::bigint`

	// sqlRangeRested are ranges whose owners left or died so long ago, and that nobody has asked for.
	sqlRangeRested = `
SELECT r.log, r.token, s.name, g.name, g.epoch, g.prefix FROM {s}.claim_range r
JOIN {s}.owner o ON o.id = r.owner JOIN {s}.range_log g ON g.log = r.log JOIN {s}.scope s ON s.id = g.scope
WHERE o.fate <> 1 AND o.sealed < clock_timestamp() - $1::bigint * interval '1 microsecond'
ORDER BY r.log, r.token LIMIT $2::bigint`
)

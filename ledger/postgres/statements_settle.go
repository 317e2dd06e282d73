package postgres

import "strings"

// sqlSucceed is Succeed alone, which is what nearly all settlements are: it writes at once, without locking the rows first.
// The guard is that of sqlSettle. When another transaction holds one of the rows for longer than a moment the whole
// statement is given up, and sqlSettle takes its place; so none can wait for another in a circle either. Rows are written
// in the order of the arrays, by key. = ANY instead of = leaves the planner one way without a scan, whatever it believes of
// the table's size: each key is looked up. (With =, the index may also be read from end to end, and compared.) Of rows that no
// range covers, which are most, none is looked up in the archive: IS TRUE, since AND goes on after a NULL.
const sqlSucceed = `
WITH me AS MATERIALIZED (
	SELECT (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok, {durable},
		set_config('lock_timeout', $3::text, true), c.at + {fold} AS fold
	FROM (SELECT clock_timestamp() AS at OFFSET 0) c
), done AS (
	UPDATE {s}.message m SET state = 2, owner = NULL, result = a.result,
		expiry = CASE WHEN m.covered IS TRUE AND a.result IS NULL AND (SELECT 1 FROM {s}.archive x WHERE x.key = m.key LIMIT 1) IS NULL
			THEN least(m.expiry, (SELECT fold FROM me)) ELSE m.expiry END
	FROM unnest($4::uuid[], $5::bigint[], $6::bytea[]) AS a(key, token, result)
	WHERE (SELECT ok FROM me) AND m.key = ANY(ARRAY[a.key]) AND m.token = a.token AND m.state = 1 AND m.owner = $1::bigint
	RETURNING m.key
)
SELECT (SELECT ok FROM me), d.written, CASE WHEN d.written < cardinality($4::uuid[]) THEN ARRAY(SELECT key FROM done) END
FROM (SELECT count(*) AS written FROM done) d`

// sqlSucceedOne is sqlSucceed for one message, which is what comes at low rates: without arrays and CTEs it takes little more
// than a bare UPDATE. No row of an answer says that nothing was written, for whatever reason.
const sqlSucceedOne = `
UPDATE {s}.message m SET state = 2, owner = NULL, result = $6::bytea,
	expiry = CASE WHEN m.covered IS TRUE AND $6::bytea IS NULL AND (SELECT 1 FROM {s}.archive x WHERE x.key = m.key LIMIT 1) IS NULL
		THEN least(m.expiry, c.at + {fold}) ELSE m.expiry END
FROM (SELECT clock_timestamp() AS at, {durable}, set_config('lock_timeout', $3::text, true) OFFSET 0) c
WHERE (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint
	AND m.key = $4::uuid AND m.token = $5::bigint AND m.state = 1 AND m.owner = $1::bigint
RETURNING true, 1::bigint, NULL::uuid[]`

// sqlSucceedAlike is sqlSucceed for settlements that share a token ($5) and have no result: mostly all of a batch. Then the
// rows are found in one walk along the index, in key order, instead of by a look-up each.
const sqlSucceedAlike = `
WITH me AS MATERIALIZED (
	SELECT (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok, {durable},
		set_config('lock_timeout', $3::text, true), c.at + {fold} AS fold
	FROM (SELECT clock_timestamp() AS at OFFSET 0) c
), done AS (
	UPDATE {s}.message m SET state = 2, owner = NULL, result = NULL,
		expiry = CASE WHEN m.covered IS TRUE AND (SELECT 1 FROM {s}.archive x WHERE x.key = m.key LIMIT 1) IS NULL
			THEN least(m.expiry, (SELECT fold FROM me)) ELSE m.expiry END
	WHERE (SELECT ok FROM me) AND m.key = ANY($4::uuid[]) AND m.token = $5::bigint AND m.state = 1 AND m.owner = $1::bigint
	RETURNING m.key
)
SELECT (SELECT ok FROM me), d.written, CASE WHEN d.written < cardinality($4::uuid[]) THEN ARRAY(SELECT key FROM done) END
FROM (SELECT count(*) AS written FROM done) d`

// sqlSettle is Succeed and Release for a batch of distinct keys; [ledger.DecideSettle] is its truth. It answers whether
// it came in time, how many rows it wrote, and, if these are not all, which. Without SKIP LOCKED it waits.
//
// Rows are locked in key order and then written by their places, which no plan can do with a scan. A row that passed the
// guard is the very version that the snapshot shows: whatever changes a row changes its token, owner or state as well.
const sqlSettle = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at
), me AS MATERIALIZED (
	SELECT (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok, {durable},
		set_config('lock_timeout', $3::text, true)
	FROM clock c
), locked AS MATERIALIZED (
	SELECT m.place, coalesce(a.kind, 1) AS kind, a.result, coalesce(a.after, 0) AS after,
		coalesce(a.counted, 0) AS counted, a.errors
	FROM (
		SELECT * FROM unnest($4::uuid[], $5::bigint[], $6::smallint[], $7::bytea[], $8::bigint[], $9::smallint[], $10::bytea[])
			AS a(key, token, kind, result, after, counted, errors)
		WHERE (SELECT ok FROM me) ORDER BY key
	) a
	CROSS JOIN LATERAL (SELECT m.ctid AS place FROM {s}.message m
		WHERE m.key = a.key AND m.token = a.token AND m.state = 1 AND m.owner = $1::bigint
		FOR NO KEY UPDATE SKIP LOCKED) m
), done AS (
	UPDATE {s}.message m SET owner = NULL, state = CASE l.kind WHEN 1 THEN 2 ELSE 1 END,
		due = CASE WHEN l.after > 0 THEN (SELECT at FROM clock) + l.after * interval '1 microsecond' END,
		attempts = least(m.attempts + l.counted, 32767), result = l.result,
		expiry = CASE WHEN l.kind = 1 AND m.covered IS TRUE AND l.result IS NULL AND (SELECT 1 FROM {s}.archive x WHERE x.key = m.key LIMIT 1) IS NULL
			THEN least(m.expiry, (SELECT at FROM clock) + {fold}) ELSE m.expiry END,
		errors = CASE l.counted WHEN 0 THEN m.errors ELSE l.errors END
	FROM locked l WHERE m.ctid = l.place
	RETURNING m.key
)
SELECT (SELECT ok FROM me), count(*), CASE WHEN count(*) < cardinality($4::uuid[]) THEN array_agg(key) END FROM done`

// sqlFail is Fail for a batch of distinct keys, with the archive in the same statement. A mismatch (flag 1) only files
// its archive row, and touches no message row; one that is filed already changes nothing, so {mark}. An archive row outlives
// its message row. Nothing is done of what was archived under the same name and is past its time: sqlUnfile removes that first.
const sqlFail = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at
), me AS MATERIALIZED (
	SELECT (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok, {durable},
		{mark}, set_config('lock_timeout', $3::text, true)
	FROM clock c
), ask AS MATERIALIZED (
	SELECT a.* FROM unnest($4::uuid[], $5::bigint[], $6::smallint[], $7::bytea[], $8::integer[], $9::bytea[],
		$10::uuid[], $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bytea[], $17::bytea[],
		$18::integer[], $19::timestamptz[], $20::bigint[], $21::bytea[])
		AS a(key, token, flags, delivery, scope, id, print, kind, errors, body, headers, source, grp, position, attempts,
		sent_at, keep, result)
	WHERE (SELECT ok FROM me) AND (SELECT x.expiry < c.at FROM {s}.archive x, clock c
		WHERE x.key = a.key AND x.delivery = a.delivery) IS NOT TRUE
), locked AS MATERIALIZED (
	SELECT a.*, m.generation, m.expiry, m.scope AS own_scope, m.id AS own_id, m.fingerprint, m.at, m.crashes
	FROM (SELECT * FROM ask WHERE flags & 1 = 0 ORDER BY key) a
	CROSS JOIN LATERAL (SELECT * FROM {s}.message m
		WHERE m.key = a.key AND m.token = a.token AND m.state = 1 AND m.owner = $1::bigint
		FOR NO KEY UPDATE SKIP LOCKED) m
), done AS (
	INSERT INTO {s}.message (key, fingerprint, id, scope, at, expiry, crashes, token, attempts, state, failed_delivery, result)
	SELECT l.key, l.fingerprint, l.own_id, l.own_scope, l.at, l.expiry, l.crashes, l.token, 0, 3, l.delivery, l.result
	FROM locked l
	ON CONFLICT (key) DO UPDATE SET owner = NULL, state = 3, due = NULL, result = excluded.result,
		failed_delivery = excluded.failed_delivery
	RETURNING key
), filed AS (
	INSERT INTO {s}.archive (token, sent_at, at, expiry, scope, attempts, generation, published, key, fingerprint,
		delivery, id, kind, source, grp, position, errors, headers, body)
	SELECT f.token, f.sent_at, c.at, greatest(c.at + f.keep * interval '1 microsecond', f.expiry), f.scope, f.attempts,
		f.generation, f.flags & 2 <> 0, f.key, f.print, f.delivery, f.id, f.kind, f.source, f.grp, f.position, f.errors,
		f.headers, f.body
	FROM (SELECT l.token, l.sent_at, l.keep, l.expiry, l.scope, l.attempts, l.generation, l.flags, l.key, l.print,
			l.delivery, l.id, l.kind, l.source, l.grp, l.position, l.errors, l.headers, l.body
		FROM locked l
		UNION ALL
		SELECT a.token, a.sent_at, a.keep, NULL, a.scope, a.attempts, NULL, a.flags, a.key, a.print,
			a.delivery, a.id, a.kind, a.source, a.grp, a.position, a.errors, a.headers, a.body
		FROM ask a WHERE a.flags & 1 <> 0) f, clock c
	ORDER BY f.key, f.delivery
	ON CONFLICT (key, delivery) DO NOTHING
), all_done AS (
	SELECT key FROM done UNION ALL SELECT key FROM ask WHERE flags & 1 <> 0
)
SELECT (SELECT ok FROM me), count(*), CASE WHEN count(*) < cardinality($4::uuid[]) THEN array_agg(key) END FROM all_done`

const (
	sqlPastErrors = `SELECT key, errors FROM {s}.message WHERE key = ANY($1::uuid[]) AND errors IS NOT NULL`

	// sqlFind reads what became of settlements that wrote nothing: their rows, of state 0 where there is none, and whether the
	// archived delivery is past its time, NULL where there is none.
	sqlFind = `
SELECT a.key, coalesce(m.state, 0), coalesce(m.token, 0), coalesce(m.owner, 0),
	(SELECT d.expiry < clock_timestamp() FROM {s}.archive d WHERE d.key = a.key AND d.delivery = a.delivery)
FROM unnest($1::uuid[], $2::bytea[]) AS a(key, delivery)
LEFT JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = a.key OFFSET 0) m ON true`

	// sqlUnfile removes archived deliveries that are past their time. A schema of a version before 16 cannot.
	sqlUnfile = `SELECT {s}.unfile($1::uuid[], $2::bytea[])`

	// sqlMessageFields are those of messageRow, of m and its scope s.
	sqlMessageFields = `m.token, (extract(epoch FROM m.at) * 1000000)::bigint, (extract(epoch FROM m.expiry) * 1000000)::bigint,
	coalesce(m.owner, 0), (extract(epoch FROM m.due) * 1000000)::bigint, s.name, m.state, m.attempts, m.crashes,
	m.fingerprint, m.id, coalesce(m.generation, 0), m.result, m.errors`

	sqlGetMessage = `SELECT ` + sqlMessageFields + `
FROM {s}.message m JOIN {s}.scope s ON s.id = m.scope WHERE m.key = $1::uuid`

	// sqlArchiveFields are those of archiveRow, of a and its scope s.
	sqlArchiveFields = `a.token, (extract(epoch FROM a.sent_at) * 1000000)::bigint, (extract(epoch FROM a.at) * 1000000)::bigint,
	(extract(epoch FROM a.expiry) * 1000000)::bigint, s.name, a.attempts, a.published, a.fingerprint, a.delivery, a.id,
	a.kind, a.source, a.grp, a.position, a.errors, a.key, coalesce(a.generation, 0),
	(extract(epoch FROM a.replayed_at) * 1000000)::bigint, (extract(epoch FROM a.purged_at) * 1000000)::bigint`

	// sqlGetArchive reads, with $2, no bodies but their lengths: of what is stored out of line that reads nothing.
	sqlGetArchive = `SELECT ` + sqlArchiveFields + `, a.headers, CASE WHEN NOT $2::boolean THEN a.body END,
	CASE WHEN $2::boolean THEN coalesce(octet_length(a.body), 0) ELSE 0 END
FROM {s}.archive a JOIN {s}.scope s ON s.id = a.scope WHERE a.key = $1::uuid ORDER BY a.at, a.delivery`
)

const (
	// sqlRecord records steps under the guard of sqlSettle, which leaves the messages as they are. Their rows are locked, once each
	// and in key order, so that no take-over changes token or owner before the commit. A key comes as often as it has steps. It
	// answers how many steps passed the guard, and, if these are not all, of which messages they are. Of a name that is there already
	// the first result stays.
	sqlRecord = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS at
), me AS MATERIALIZED (
	SELECT (extract(epoch FROM c.at) * 1000000)::bigint < $2::bigint AS ok, {durable},
		set_config('lock_timeout', $3::text, true)
	FROM clock c
), ask AS MATERIALIZED (
	SELECT a.* FROM unnest($4::uuid[], $5::bigint[], $6::bytea[], $7::boolean[], $8::bytea[]) WITH ORDINALITY
		AS a(key, token, name, failed, result, place)
	WHERE (SELECT ok FROM me)
), locked AS MATERIALIZED (
	SELECT a.key, a.token
	FROM (SELECT DISTINCT key, token FROM ask ORDER BY key, token) a
	CROSS JOIN LATERAL (SELECT m.key FROM {s}.message m
		WHERE m.key = a.key AND m.token = a.token AND m.state = 1 AND m.owner = $1::bigint
		FOR NO KEY UPDATE SKIP LOCKED) m
), passed AS MATERIALIZED (
	SELECT a.* FROM ask a JOIN locked l ON l.key = a.key AND l.token = a.token
), done AS (
	INSERT INTO {s}.step (at, key, failed, name, result)
	SELECT (SELECT at FROM clock) + (p.place - 1) * interval '1 microsecond', p.key, p.failed, p.name, p.result
	FROM passed p ORDER BY p.key, p.name, p.place
	ON CONFLICT (key, name) DO NOTHING
)
SELECT (SELECT ok FROM me), count(*), CASE WHEN count(*) < cardinality($4::uuid[]) THEN array_agg(DISTINCT key) END FROM passed`

	sqlHasSteps = `SELECT to_regclass({text} || '.step') IS NOT NULL`

	// sqlSteps reads the steps of a message, without results if $2 says so.
	sqlSteps = `
SELECT s.name, s.failed, (extract(epoch FROM s.at) * 1000000)::bigint, CASE WHEN $2::boolean THEN s.result END,
	CASE WHEN $2::boolean THEN 0 ELSE octet_length(s.result) END
FROM {s}.step s WHERE s.key = $1::uuid ORDER BY s.at, s.name`
)

var (
	sqlSettleWait = waiting(sqlSettle)
	sqlRecordWait = waiting(sqlRecord)
	sqlFailWait   = waiting(sqlFail)
)

// waiting is a statement that waits for rows which the one with SKIP LOCKED passes over.
func waiting(sql string) string { return strings.Replace(sql, " SKIP LOCKED", "", 1) }

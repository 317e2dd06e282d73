package postgres

const (
	// sqlPublish writes what was published, inside the very transaction that InTx began (see sqlTxFence). The numbers grow in the order given.
	sqlPublish = `
INSERT INTO {s}.outbox (target, shard, key, sum, id, body, headers)
SELECT a.target, a.shard, a.key, nullif(a.sum, 0), a.id, a.body, a.headers
FROM unnest($2::text[], $3::smallint[], $4::bytea[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bytea[])
	WITH ORDINALITY AS a(target, shard, key, sum, id, body, headers, place)
WHERE coalesce((pg_catalog.date_part('epoch', pg_catalog.now()) * 1000000)::bigint = $1::bigint, true)
ORDER BY a.place`

	// sqlOutboxRoom counts up to what the outbox takes.
	sqlOutboxRoom = `
SELECT count(*), coalesce(sum(octet_length(o.body)), 0)::bigint FROM (SELECT body FROM {s}.outbox LIMIT $1::bigint) o`

	sqlHasOutbox = `SELECT to_regclass({text} || '.outbox') IS NOT NULL`

	sqlLaneMake = `
INSERT INTO {s}.outbox_lane (target, shard) SELECT t, s FROM unnest($1::text[]) t, generate_series(0, $2::integer - 1) s
ON CONFLICT DO NOTHING`

	// sqlLaneTake takes, of the lanes that nobody has and in which something lies, the one that rests the longest.
	sqlLaneTake = `
UPDATE {s}.outbox_lane l SET free = clock_timestamp() + $2::bigint * interval '1 microsecond', token = l.token + 1
FROM (SELECT f.target, f.shard FROM {s}.outbox_lane f
	WHERE f.target = ANY($1::text[]) AND f.free <= clock_timestamp()
		AND (SELECT true FROM {s}.outbox o WHERE o.target = f.target AND o.shard = f.shard LIMIT 1)
	ORDER BY f.free LIMIT 1 FOR UPDATE SKIP LOCKED) next
WHERE l.target = next.target AND l.shard = next.shard RETURNING l.target, l.shard, l.token`

	// sqlRelayTune is sqlTune. A removal that a crash takes back is a message that is sent again, with its stamp: nothing waits for the disk.
	sqlRelayTune = sqlTune + `, pg_catalog.set_config('synchronous_commit', 'off', true)`

	sqlLaneHold = `
UPDATE {s}.outbox_lane SET free = clock_timestamp() + $4::bigint * interval '1 microsecond'
WHERE target = $1::text AND shard = $2::smallint AND token = $3::bigint RETURNING 1`

	sqlOutboxDone = `DELETE FROM {s}.outbox WHERE target = $1::text AND shard = $2::smallint AND num = ANY($3::bigint[])`

	sqlOutboxFailed = `
UPDATE {s}.outbox o SET tries = least(o.tries + a.counts::integer, 32767), error = a.error,
	due = clock_timestamp() + a.after * interval '1 microsecond'
FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::boolean[]) AS a(num, after, error, counts)
WHERE o.target = $1::text AND o.shard = $2::smallint AND o.num = a.num`

	// sqlOutboxNext are the lowest rows of a lane, whatever was sent before: a number may be committed after a higher one. What is not due
	// holds up all of its key.
	sqlOutboxNext = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at), held AS MATERIALIZED (
	SELECT h.num, h.sum FROM {s}.outbox h
	WHERE h.target = $1::text AND h.shard = $2::smallint AND h.due > (SELECT at FROM clock)
)
SELECT x.num, x.id, x.key, x.body, x.headers, (extract(epoch FROM x.at) * 1000000)::bigint, x.tries, coalesce(x.error, '')
FROM (SELECT o.*, coalesce(sum(octet_length(o.body)) OVER (ORDER BY o.num ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
	FROM (SELECT n.* FROM {s}.outbox n
		WHERE n.target = $1::text AND n.shard = $2::smallint
			AND (NOT EXISTS (SELECT FROM held)
				OR n.num NOT IN (SELECT h.num FROM held h) AND (n.sum IS NULL OR n.sum NOT IN (SELECT h.sum FROM held h WHERE h.sum IS NOT NULL)))
		ORDER BY n.num LIMIT $3::bigint) o) x
WHERE x.before < $4::bigint ORDER BY x.num`

	sqlOutboxList = `
SELECT o.num, o.target, o.id, o.key, CASE WHEN $4::boolean THEN o.body END, CASE WHEN $4::boolean THEN o.headers END,
	(extract(epoch FROM o.at) * 1000000)::bigint, o.tries, coalesce((extract(epoch FROM o.due) * 1000000)::bigint, 0), coalesce(o.error, ''),
	coalesce(octet_length(o.body), 0)
FROM {s}.outbox o WHERE ($1::text = '' OR o.target = $1::text) AND o.num > $2::bigint ORDER BY o.num LIMIT $3::bigint`

	sqlOutboxStats = `
SELECT o.target, sum(o.n)::bigint, sum(o.size)::bigint, sum(o.failing)::bigint,
	(extract(epoch FROM clock_timestamp() - min(o.first)) * 1000000)::bigint,
	(extract(epoch FROM max(clock_timestamp() - greatest(l.free, o.first))) * 1000000)::bigint
FROM (SELECT target, shard, count(*) AS n, coalesce(sum(octet_length(body)), 0) AS size, count(*) FILTER (WHERE tries > 0) AS failing, min(at) AS first
	FROM {s}.outbox GROUP BY target, shard) o
LEFT JOIN {s}.outbox_lane l ON l.target = o.target AND l.shard = o.shard GROUP BY o.target ORDER BY o.target`
)

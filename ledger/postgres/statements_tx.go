package postgres

// The fences run under the settings of sqlTune: a generic plan of their own, made while the table was small, would scan it
// when it is large. Nothing of the handler comes after them but the constraints and triggers that it deferred.
//
// The fence writes only inside the very transaction that InTx began, which its now() tells: after a COMMIT or ROLLBACK
// sent as text it would else write on its own. (Null: it comes with BEGIN, and nothing was sent before it.) now() is compared as a float's
// microseconds, which differ for different times until the year 2242: extract's numeric arithmetic takes 7 us of the server each time.
//
// One that does not meet all of its rows fails (unmet), so that a COMMIT which was sent with it is a rollback.
const (
	sqlTxBegin = `
SELECT (date_part('epoch', now()) * 1000000)::bigint, pg_backend_pid(), current_setting('transaction_read_only') = 'on',
	set_config('idle_in_transaction_session_timeout', $1::text, true),
	CASE WHEN current_setting('server_version_num')::integer >= 170000
		THEN set_config('transaction_timeout', $2::text, true) END`

	// sqlTxThere says whether a server process is there: one that is gone carries nothing out any more.
	sqlTxThere = `SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE pid = $1::integer)`

	// sqlTxTune is sqlTune, and says whether this still is the transaction that began. No handler's setting is to make the success less
	// durable than others.
	sqlTxTune = sqlTune + sqlTxHere

	// sqlTxTuneOne is enough where one row is looked up by its key: however often that is planned, no plan but the index is left.
	sqlTxTuneOne = sqlTuneOne + sqlTxHere

	sqlTuneOne = `SELECT pg_catalog.set_config('enable_seqscan', 'off', true)`

	sqlTxHere = `, pg_catalog.set_config('synchronous_commit', 'on', true),
	coalesce((pg_catalog.date_part('epoch', pg_catalog.now()) * 1000000)::bigint = $1::bigint, true)`

	sqlTxFence = `
WITH done AS (UPDATE {s}.message m SET state = 2, owner = NULL, due = NULL, result = $5::bytea,
	expiry = CASE WHEN covered IS TRUE AND $5::bytea IS NULL AND (SELECT 1 FROM {s}.archive x WHERE x.key = m.key LIMIT 1) IS NULL
		THEN least(expiry, pg_catalog.clock_timestamp() + {fold}) ELSE expiry END
WHERE key = $1::uuid AND token = $2::bigint AND state = 1 AND owner = $3::bigint
	AND coalesce((pg_catalog.date_part('epoch', pg_catalog.now()) * 1000000)::bigint = $4::bigint, true)
RETURNING 1)
SELECT 1 / count(*) FROM done`

	// sqlTxFenceAll is the fence of a batch. Rows are locked in key order, as by every
	// statement of the ledger that holds more than one: two batches that share messages (one of them has lost them) wait
	// for each other, and never in a circle. Why it looks rows up and writes them as it does stands at sqlClaim.
	sqlTxFenceAll = `
WITH ask AS MATERIALIZED (
	SELECT a.key, a.token, a.result FROM unnest($1::uuid[], $2::bigint[], $5::bytea[]) AS a(key, token, result)
	WHERE coalesce((pg_catalog.date_part('epoch', pg_catalog.now()) * 1000000)::bigint = $4::bigint, true)
), locked AS MATERIALIZED (
	SELECT m.*, a.result AS new_result
	FROM (SELECT * FROM ask ORDER BY key) a
	CROSS JOIN LATERAL (SELECT * FROM {s}.message m
		WHERE m.key = a.key AND m.token = a.token AND m.state = 1 AND m.owner = $3::bigint FOR NO KEY UPDATE) m
), done AS (
	INSERT INTO {s}.message (key, fingerprint, id, scope, at, expiry, crashes, attempts, token, state, result)
	SELECT l.key, l.fingerprint, l.id, l.scope, l.at,
		CASE WHEN l.covered IS TRUE AND l.new_result IS NULL AND (SELECT 1 FROM {s}.archive x WHERE x.key = l.key LIMIT 1) IS NULL
			THEN least(l.expiry, pg_catalog.clock_timestamp() + {fold}) ELSE l.expiry END,
		l.crashes, l.attempts, l.token, 2, l.new_result
	FROM locked l
	ON CONFLICT (key) DO UPDATE SET state = 2, owner = NULL, due = NULL, result = excluded.result, expiry = excluded.expiry
	RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1::uuid[]))::integer FROM done`

	// sqlTxOutcome reads the rows whose locks are free, as they are now: a transaction that fenced them holds all of them
	// until it is over.
	sqlTxOutcome = `
SELECT a.place, m.state, m.token, coalesce(m.owner, 0)
FROM unnest($1::uuid[]) WITH ORDINALITY AS a(key, place)
CROSS JOIN LATERAL (SELECT * FROM {s}.message m WHERE m.key = a.key FOR NO KEY UPDATE SKIP LOCKED) m`
)

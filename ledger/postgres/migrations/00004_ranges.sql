-- +goose Up

-- Workers before this version know nothing of ranges, and must not run beside those that do.
SET LOCAL lock_timeout = '10s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One log (scope, cluster, topic UUID, partition) at one leader epoch. log is the first half of its records' keys, and a
-- record's id is prefix and its offset. Its row is the lock of all that changes the log's ranges, but for InTx. version
-- grows with whatever puts something at new offsets, token with each range, and nothing lies at or above top. version
-- begins with the clock, so that a log that went and came back is not taken for the one before.
CREATE TABLE range_log (
    log     bigint PRIMARY KEY,
    version bigint NOT NULL,
    token   bigint NOT NULL,
    top     bigint NOT NULL,
    scope   integer NOT NULL,
    epoch   integer NOT NULL,
    name    bytea NOT NULL,
    prefix  bytea NOT NULL
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX range_log_name ON range_log (scope, sha256(name));

-- Offsets first <= o < last. kind: 1 finished, 2 bound to rows (they have rows of their own, finished or not). No two meet;
-- finished ones that touch are one, but for what InTx has added to a range that is open.
CREATE TABLE segment (
    log      bigint NOT NULL,
    first    bigint NOT NULL,
    last     bigint NOT NULL,
    messages bigint NOT NULL,
    since    timestamptz NOT NULL,
    until    timestamptz NOT NULL,
    expiry   timestamptz NOT NULL,
    kind     smallint NOT NULL,
    PRIMARY KEY (log, first)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 2000);

-- What an owner has claimed in one batch. done and back are sets of offsets, counted from first: settled, never delivered
-- or in a row of its own; and given back. InTx holds a row FOR KEY SHARE until it is over: who takes offsets out of the
-- range must lock it FOR UPDATE. Rows come and go at once, so vacuum comes often; until then each leaves about 120 bytes.
CREATE TABLE claim_range (
    log      bigint NOT NULL,
    token    bigint NOT NULL,
    first    bigint NOT NULL,
    last     bigint NOT NULL,
    owner    bigint NOT NULL,
    messages bigint NOT NULL,
    keep     bigint NOT NULL, -- the window, microseconds
    at       timestamptz NOT NULL,
    done     bytea,
    back     bytea,
    PRIMARY KEY (log, token)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_limit = 2000);

-- covered: a range speaks for the message when the row is gone. A log's ranges may be more than 2^31.
ALTER TABLE message ADD COLUMN covered boolean, ALTER COLUMN token TYPE bigint;

-- sweep_log looks at the n logs after "past" (null: from the first on). It drops segments that have expired, but for
-- stretches in which there are rows, and logs in which nothing is left, and answers the last log that it looked at (null:
-- none). A log that another transaction holds is left for the next pass. "me" must hold the row of maintenance, whose
-- lease it extends, else it answers no row.
-- +goose StatementBegin
CREATE FUNCTION sweep_log(me bigint, lease bigint, past bigint, n bigint)
RETURNS TABLE (last_log bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := clock_timestamp();
    seen   bigint[];
    held   bigint[];
BEGIN
    UPDATE maintenance SET lease_end = clock + lease * interval '1 microsecond' WHERE maintenance.holder = me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    seen := ARRAY(SELECT g.log FROM range_log g WHERE past IS NULL OR g.log > past ORDER BY g.log LIMIT n);
    held := ARRAY(SELECT g.log FROM range_log g WHERE g.log = ANY(seen) ORDER BY g.log FOR NO KEY UPDATE SKIP LOCKED);
    DELETE FROM segment s WHERE s.log = ANY(held) AND s.expiry < clock
        AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = s.log AND r.first < s.last AND s.first < r.last)
        AND (s.kind = 1 OR NOT EXISTS (SELECT FROM message m
            WHERE m.key >= encode(int8send(s.log) || int8send(s.first), 'hex')::uuid
                AND m.key < encode(int8send(s.log) || int8send(s.last), 'hex')::uuid));
    DELETE FROM range_log g WHERE g.log = ANY(held)
        AND NOT EXISTS (SELECT FROM segment s WHERE s.log = g.log)
        AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = g.log);
    RETURN QUERY SELECT seen[cardinality(seen)];
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sweep_log(bigint, bigint, bigint, bigint) FROM PUBLIC;

-- range_needs says that a range or segment speaks for a message when its row is gone, and would swallow it, though there may
-- be a copy to run: of a failed one as long as it is archived, of a pending one as long as the range is there.
-- +goose StatementBegin
CREATE FUNCTION range_needs(key uuid, state smallint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    log_of bigint := ('x' || encode(substring(uuid_send(range_needs.key) FROM 1 FOR 8), 'hex'))::bit(64)::bigint;
    place  bigint := ('x' || encode(substring(uuid_send(range_needs.key) FROM 9), 'hex'))::bit(64)::bigint;
BEGIN
    IF range_needs.state = 3 THEN
        RETURN EXISTS (SELECT FROM archive a WHERE a.key = range_needs.key);
    END IF;
    RETURN EXISTS (SELECT FROM segment s WHERE s.log = log_of AND s.first <= place AND s.last > place AND s.kind = 1)
        OR EXISTS (SELECT FROM claim_range r WHERE r.log = log_of AND r.first <= place AND r.last > place);
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION range_needs(uuid, smallint) FROM PUBLIC;

-- As before, but a row stays while a range would swallow its message, and kind 1 also answers, as expiry, how many are
-- covered.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sweep_message(me bigint, lease bigint, first bigint, past bigint, keep bigint)
RETURNS TABLE (kind integer, scope integer, state integer, bucket integer, n bigint, late bigint, at bigint,
    expiry bigint, id bytea, owner bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := clock_timestamp();
    low   tid := format('(%s,0)', first)::tid;
    high  tid := format('(%s,0)', past)::tid;
    again interval := keep * interval '1 microsecond';
    gone  bigint;
    lost  bigint;
BEGIN
    UPDATE maintenance SET lease_end = clock + lease * interval '1 microsecond', message_page = past
    WHERE maintenance.holder = me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH removed AS (
        DELETE FROM message d WHERE d.ctid = ANY(ARRAY(
            SELECT m.ctid FROM message m
            WHERE m.ctid >= low AND m.ctid < high AND m.expiry < clock AND (m.state <> 1
                OR m.expiry + greatest(again, m.expiry - m.at) < clock
                    AND NOT EXISTS (SELECT FROM owner o WHERE o.id = m.owner AND o.fate = 1))
                AND (m.covered IS NULL OR m.state = 2 OR NOT range_needs(m.key, m.state))
            FOR UPDATE SKIP LOCKED))
        RETURNING d.state
    )
    SELECT count(*) FILTER (WHERE r.state <> 1), count(*) FILTER (WHERE r.state = 1) INTO gone, lost FROM removed r;
    RETURN QUERY SELECT 0, NULL::integer, NULL::integer, NULL::integer, gone, lost,
        (extract(epoch FROM clock) * 1000000)::bigint, NULL::bigint, NULL::bytea, NULL::bigint;
    RETURN QUERY SELECT 1, m.scope, m.state::integer, NULL::integer, count(*), count(*) FILTER (WHERE m.expiry < clock AND m.covered IS NULL),
        0::bigint, count(m.covered), NULL::bytea, NULL::bigint
    FROM message m WHERE m.ctid >= low AND m.ctid < high AND m.state <> 1 GROUP BY m.scope, m.state;
    RETURN QUERY WITH pending AS MATERIALIZED (
        SELECT m.scope, m.expiry, m.at, m.owner, m.covered, greatest(date_part('epoch', clock - m.at) * 1000000, 1) AS age,
            CASE WHEN m.expiry < clock THEN m.id END AS id
        FROM message m WHERE m.ctid >= low AND m.ctid < high AND m.state = 1
    )
    SELECT 1, p.scope, 1, ceil(ln(p.age) / ln(1.1::double precision))::integer, count(*),
        count(*) FILTER (WHERE p.expiry < clock), max(p.age)::bigint, count(p.covered), NULL::bytea, NULL::bigint
    FROM pending p GROUP BY 2, 4
    UNION ALL
    (SELECT 2, p.scope, 1, NULL, 1, 1, (extract(epoch FROM p.at) * 1000000)::bigint,
        (extract(epoch FROM p.expiry) * 1000000)::bigint, p.id, NULL
    FROM pending p WHERE p.expiry < clock ORDER BY p.expiry LIMIT 20)
    UNION ALL
    SELECT DISTINCT 3, NULL::integer, NULL::integer, NULL::integer, 1, 0, NULL::bigint, NULL::bigint, NULL::bytea, p.owner
    FROM pending p WHERE p.owner IS NOT NULL;
END $$;
-- +goose StatementEnd

-- As before, but an owner that a range names stays, too.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sweep_owner(me bigint, unnamed bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    start timestamptz;
    gone  bigint;
BEGIN
    SELECT began INTO start FROM maintenance WHERE holder = me FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM owner o WHERE o.id = ANY(unnamed) AND o.fate <> 1
        AND o.sealed < least(start, clock_timestamp()) - interval '1 hour'
        AND NOT EXISTS (SELECT FROM claim_range r WHERE r.owner = o.id);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
-- +goose StatementEnd

-- What workers before this version hold is free now, and counts as nobody's crash: they can finish it until others take
-- it, and claim nothing more. Their next heartbeat tells them, and they are not let in again.
UPDATE owner SET fate = 2 WHERE fate = 1;
UPDATE meta SET schema_version = 4, oldest_worker = 4;

-- +goose Down
UPDATE meta SET schema_version = 3, oldest_worker = 1;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sweep_message(me bigint, lease bigint, first bigint, past bigint, keep bigint)
RETURNS TABLE (kind integer, scope integer, state integer, bucket integer, n bigint, late bigint, at bigint,
    expiry bigint, id bytea, owner bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := clock_timestamp();
    low   tid := format('(%s,0)', first)::tid;
    high  tid := format('(%s,0)', past)::tid;
    again interval := keep * interval '1 microsecond';
    gone  bigint;
    lost  bigint;
BEGIN
    UPDATE maintenance SET lease_end = clock + lease * interval '1 microsecond', message_page = past
    WHERE maintenance.holder = me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH removed AS (
        DELETE FROM message d WHERE d.ctid = ANY(ARRAY(
            SELECT m.ctid FROM message m
            WHERE m.ctid >= low AND m.ctid < high AND m.expiry < clock AND (m.state <> 1
                OR m.expiry + greatest(again, m.expiry - m.at) < clock
                    AND NOT EXISTS (SELECT FROM owner o WHERE o.id = m.owner AND o.fate = 1))
            FOR UPDATE SKIP LOCKED))
        RETURNING d.state
    )
    SELECT count(*) FILTER (WHERE r.state <> 1), count(*) FILTER (WHERE r.state = 1) INTO gone, lost FROM removed r;
    RETURN QUERY SELECT 0, NULL::integer, NULL::integer, NULL::integer, gone, lost,
        (extract(epoch FROM clock) * 1000000)::bigint, NULL::bigint, NULL::bytea, NULL::bigint;
    RETURN QUERY SELECT 1, m.scope, m.state::integer, NULL::integer, count(*), count(*) FILTER (WHERE m.expiry < clock),
        0::bigint, NULL::bigint, NULL::bytea, NULL::bigint
    FROM message m WHERE m.ctid >= low AND m.ctid < high AND m.state <> 1 GROUP BY m.scope, m.state;
    RETURN QUERY WITH pending AS MATERIALIZED (
        SELECT m.scope, m.expiry, m.at, m.owner, greatest(date_part('epoch', clock - m.at) * 1000000, 1) AS age,
            CASE WHEN m.expiry < clock THEN m.id END AS id
        FROM message m WHERE m.ctid >= low AND m.ctid < high AND m.state = 1
    )
    SELECT 1, p.scope, 1, ceil(ln(p.age) / ln(1.1::double precision))::integer, count(*),
        count(*) FILTER (WHERE p.expiry < clock), max(p.age)::bigint, NULL::bigint, NULL::bytea, NULL::bigint
    FROM pending p GROUP BY 2, 4
    UNION ALL
    (SELECT 2, p.scope, 1, NULL, 1, 1, (extract(epoch FROM p.at) * 1000000)::bigint,
        (extract(epoch FROM p.expiry) * 1000000)::bigint, p.id, NULL
    FROM pending p WHERE p.expiry < clock ORDER BY p.expiry LIMIT 20)
    UNION ALL
    SELECT DISTINCT 3, NULL::integer, NULL::integer, NULL::integer, 1, 0, NULL::bigint, NULL::bigint, NULL::bytea, p.owner
    FROM pending p WHERE p.owner IS NOT NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sweep_owner(me bigint, unnamed bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    start timestamptz;
    gone  bigint;
BEGIN
    SELECT began INTO start FROM maintenance WHERE holder = me FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM owner o WHERE o.id = ANY(unnamed) AND o.fate <> 1
        AND o.sealed < least(start, clock_timestamp()) - interval '1 hour';
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
-- +goose StatementEnd
DROP FUNCTION range_needs(uuid, smallint);
DROP FUNCTION sweep_log(bigint, bigint, bigint, bigint);
ALTER TABLE message DROP COLUMN covered, ALTER COLUMN token TYPE integer;
DROP TABLE claim_range, segment, range_log;

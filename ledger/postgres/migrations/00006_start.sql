-- +goose Up

-- A message that has failed stays failed as long as a segment or range has its offset, and goes, like one that nobody finishes,
-- once the log begins behind it. Workers of version 5 go on: they say nothing of where a log begins.
SET LOCAL lock_timeout = '3s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Where a log begins, as workers have found it: start at start_at, low at least an hour before. Finished segments may be cut
-- off below one that is an hour old (ranges.Start).
ALTER TABLE range_log ADD COLUMN low bigint NOT NULL DEFAULT 0, ADD COLUMN start bigint NOT NULL DEFAULT 0,
    ADD COLUMN start_at timestamptz NOT NULL DEFAULT '-infinity';

-- range_needs says that the message has not succeeded, though a range or segment says so when its row is gone: the row stays
-- as long as that is there, whatever has expired.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION range_needs(key uuid, state smallint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    log_of bigint := ('x' || encode(substring(uuid_send(range_needs.key) FROM 1 FOR 8), 'hex'))::bit(64)::bigint;
    place  bigint := ('x' || encode(substring(uuid_send(range_needs.key) FROM 9), 'hex'))::bit(64)::bigint;
BEGIN
    RETURN range_needs.state <> 2 AND (EXISTS (SELECT FROM segment s WHERE s.log = log_of AND s.first <= place AND s.last > place AND s.kind = 1)
        OR EXISTS (SELECT FROM claim_range r WHERE r.log = log_of AND r.first <= place AND r.last > place));
END $$;
-- +goose StatementEnd

-- As before, but a failed row that is kept for its state alone is made small: nothing of its deliveries is archived any more.
-- Claims of it wait while it names a delivery that is not there, so this comes before the archive's part of a pass.
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
    UPDATE message d SET failed_delivery = NULL, errors = NULL WHERE d.ctid = ANY(ARRAY(
        SELECT m.ctid FROM message m
        WHERE m.ctid >= low AND m.ctid < high AND m.expiry < clock AND m.state = 3 AND m.covered
            AND (m.failed_delivery IS NOT NULL OR m.errors IS NOT NULL)
            AND NOT EXISTS (SELECT FROM archive a WHERE a.key = m.key AND a.expiry >= clock)
        FOR UPDATE SKIP LOCKED));
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

-- As before, but it also cuts off what a finished segment has below its log's start: rows there are covered by nothing any
-- more. Nothing is cut out of an open range: its owner counts on what InTx has put there. A row that another transaction
-- holds is left as it is; it is not needed either.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sweep_log(me bigint, lease bigint, past bigint, n bigint)
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
    cut    record;
BEGIN
    UPDATE maintenance SET lease_end = clock + lease * interval '1 microsecond' WHERE maintenance.holder = me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    seen := ARRAY(SELECT g.log FROM range_log g WHERE past IS NULL OR g.log > past ORDER BY g.log LIMIT n);
    held := ARRAY(SELECT g.log FROM range_log g WHERE g.log = ANY(seen) ORDER BY g.log FOR UPDATE SKIP LOCKED);
    DELETE FROM segment s WHERE s.log = ANY(held) AND s.expiry < clock
        AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = s.log AND r.first < s.last AND s.first < r.last)
        AND (s.kind = 1 OR NOT EXISTS (SELECT FROM message m
            WHERE m.key >= encode(int8send(s.log) || int8send(s.first), 'hex')::uuid
                AND m.key < encode(int8send(s.log) || int8send(s.last), 'hex')::uuid));
    DELETE FROM range_log g WHERE g.log = ANY(held)
        AND NOT EXISTS (SELECT FROM segment s WHERE s.log = g.log)
        AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = g.log);
    FOR cut IN SELECT s.log, s.first, b.low FROM (
            SELECT g.log, least(CASE WHEN g.start_at < clock - interval '1 hour' THEN g.start ELSE g.low END,
                (SELECT min(r.first) FROM claim_range r WHERE r.log = g.log)) AS low
            FROM range_log g WHERE g.log = ANY(held)) b
        JOIN segment s ON s.log = b.log AND s.first < b.low AND s.last > b.low AND s.kind = 1
    LOOP
        UPDATE message d SET covered = NULL WHERE d.ctid = ANY(ARRAY(
            SELECT m.ctid FROM message m
            WHERE m.key >= encode(int8send(cut.log) || int8send(cut.first), 'hex')::uuid
                AND m.key < encode(int8send(cut.log) || int8send(cut.low), 'hex')::uuid AND m.covered
            FOR UPDATE SKIP LOCKED));
        UPDATE segment s SET first = cut.low,
            messages = least(round(s.messages::numeric * (s.last - cut.low) / (s.last - s.first)), s.last - cut.low)
        WHERE s.log = cut.log AND s.first = cut.first;
    END LOOP;
    RETURN QUERY SELECT seen[cardinality(seen)];
END $$;
-- +goose StatementEnd

-- As before, but what lies below the log's start may go.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION guard_segment() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    clock timestamptz := pg_catalog.clock_timestamp();
    below bigint := (SELECT CASE WHEN g.start_at < clock - interval '1 hour' THEN g.start ELSE g.low END
        FROM range_log g WHERE g.log = OLD.log);
BEGIN
    IF TG_OP = 'DELETE' AND (OLD.expiry < clock
            OR OLD.until < clock - interval '1 hour')
        OR EXISTS (SELECT FROM segment s WHERE s.log = OLD.log AND s.first <= greatest(OLD.first, below) AND s.last >= OLD.last
            AND s.kind = 1 AND s.expiry >= OLD.expiry AND s.until >= OLD.until - interval '1 minute')
        OR coalesce(pg_catalog.current_setting('ackledger.reopen', true), '') = 'on'
            AND pg_catalog.has_table_privilege(pg_catalog.format('%I.archive', TG_TABLE_SCHEMA), 'UPDATE') THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'log %: offsets from % up to % are finished, and would not be any more', OLD.log, OLD.first, OLD.last
        USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION guard_log() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'log %: its version, token, top and start only grow, and its start not at once', NEW.log USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd

-- A start is not believed at once, whoever writes it: low takes over what start has been for an hour.
CREATE OR REPLACE TRIGGER guard_log AFTER UPDATE ON range_log FOR EACH ROW
    WHEN (NEW.log <> OLD.log OR NEW.version < OLD.version OR NEW.token < OLD.token OR NEW.top < OLD.top
        OR NEW.low < OLD.low OR NEW.start < OLD.start OR NEW.start_at < OLD.start_at
        OR NEW.start > OLD.start AND NEW.start_at < clock_timestamp() - interval '1 minute'
        OR NEW.low > OLD.low AND (NEW.low > OLD.start OR OLD.start_at > clock_timestamp() - interval '1 hour'))
    EXECUTE FUNCTION guard_log();
CREATE TRIGGER guard_log_new AFTER INSERT ON range_log FOR EACH ROW
    WHEN (NEW.low <> 0 OR NEW.start <> 0) EXECUTE FUNCTION guard_log();

UPDATE meta SET schema_version = 6 WHERE schema_version < 6;

-- +goose Down
UPDATE meta SET schema_version = 5;
DROP TRIGGER guard_log_new ON range_log;
CREATE OR REPLACE TRIGGER guard_log AFTER UPDATE ON range_log FOR EACH ROW
    WHEN (NEW.log <> OLD.log OR NEW.version < OLD.version OR NEW.token < OLD.token OR NEW.top < OLD.top)
    EXECUTE FUNCTION guard_log();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION guard_log() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'log %: its version, token and top only grow', OLD.log USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION guard_segment() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND (OLD.expiry < pg_catalog.clock_timestamp()
            OR OLD.until < pg_catalog.clock_timestamp() - interval '1 hour')
        OR EXISTS (SELECT FROM segment s WHERE s.log = OLD.log AND s.first <= OLD.first AND s.last >= OLD.last
            AND s.kind = 1 AND s.expiry >= OLD.expiry AND s.until >= OLD.until - interval '1 minute')
        OR coalesce(pg_catalog.current_setting('ackledger.reopen', true), '') = 'on'
            AND pg_catalog.has_table_privilege(pg_catalog.format('%I.archive', TG_TABLE_SCHEMA), 'UPDATE') THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'log %: offsets from % up to % are finished, and would not be any more', OLD.log, OLD.first, OLD.last
        USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sweep_log(me bigint, lease bigint, past bigint, n bigint)
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
    held := ARRAY(SELECT g.log FROM range_log g WHERE g.log = ANY(seen) ORDER BY g.log FOR UPDATE SKIP LOCKED);
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
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION range_needs(key uuid, state smallint) RETURNS boolean
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
ALTER TABLE range_log DROP COLUMN start_at, DROP COLUMN start, DROP COLUMN low;

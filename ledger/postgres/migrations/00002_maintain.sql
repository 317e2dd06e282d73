-- +goose Up

-- Workers go on meanwhile. What can wait long comes first, before anything is locked that they use.
SET LOCAL lock_timeout = '10s';

-- Deletes arrive as fast as inserts: vacuum must keep up. (This waits for a vacuum of the table.)
ALTER TABLE message SET (autovacuum_vacuum_cost_limit = 2000);

-- Functions run with the rights of their owner, so they must find these tables and nobody else's, whatever the caller's
-- search_path is. Each takes this one with it (SET search_path FROM CURRENT).
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row: who sweeps, until when, where it is, and what the last whole pass counted.
CREATE TABLE maintenance (
    one            boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder         bigint,                                      -- drawn at random for each pass; null: nobody
    host           bytea,
    lease_end      timestamptz NOT NULL DEFAULT '-infinity',
    due            timestamptz NOT NULL DEFAULT '-infinity',    -- the next pass need not begin before
    began          timestamptz NOT NULL DEFAULT '-infinity',    -- the pass that runs, or ran last
    message_page   bigint NOT NULL DEFAULT 0,                   -- where the next pass begins its round
    archive_page   bigint,                                      -- where the archive's part is; null: not in it
    archive_before timestamptz NOT NULL DEFAULT '-infinity',    -- what that part removes has expired before
    seen_at        timestamptz,
    seen           bytea                                        -- JSON
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO maintenance DEFAULT VALUES;

-- sweep_message removes what has expired from the pages [first, past) and counts the rest; "me" must hold the row of
-- maintenance, whose lease it extends, else it does nothing and answers no row. It answers rows of one kind each:
--   0: n removed messages, late removed pending ones; at: the clock, microseconds
--   1: n messages of a scope, state and age bucket (ledger.AgeBucket), late of them past their expiry (finished ones: they
--      were locked); at: the oldest's age, microseconds
--   2: an abandoned message: scope, id, at, expiry (microseconds)
--   3: an owner that a pending message names
-- A row that another transaction holds is left for the next pass. A pending row goes only after its window and at least
-- "keep" have passed again, and never while its owner is live.
-- +goose StatementBegin
CREATE FUNCTION sweep_message(me bigint, lease bigint, first bigint, past bigint, keep bigint)
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

-- sweep_archive removes the archived deliveries in the pages [first, past) that had expired before the pass began, and
-- so after their messages' rows. It answers how many; null: "me" does not hold the row of maintenance.
-- +goose StatementBegin
CREATE FUNCTION sweep_archive(me bigint, lease bigint, first bigint, past bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    low    tid := format('(%s,0)', first)::tid;
    high   tid := format('(%s,0)', past)::tid;
    limit_at timestamptz;
    gone   bigint;
BEGIN
    UPDATE maintenance SET lease_end = clock_timestamp() + lease * interval '1 microsecond', archive_page = past
    WHERE holder = me RETURNING least(archive_before, clock_timestamp()) INTO limit_at;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM archive d WHERE d.ctid = ANY(ARRAY(
        SELECT a.ctid FROM archive a
        WHERE a.ctid >= low AND a.ctid < high AND a.expiry < limit_at FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
-- +goose StatementEnd

-- sweep_owner removes owners that left or died, and were seen so an hour before the pass began at least (as
-- ledger.OwnerRest says): of the given ones, whom the pass met on no pending message. It answers how many; null: "me"
-- does not hold the row of maintenance.
-- +goose StatementBegin
CREATE FUNCTION sweep_owner(me bigint, unnamed bigint[]) RETURNS bigint
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

REVOKE ALL ON FUNCTION sweep_message(bigint, bigint, bigint, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION sweep_archive(bigint, bigint, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION sweep_owner(bigint, bigint[]) FROM PUBLIC;

-- When a sweep first saw that the owner had left or died. Workers of the version before do not write it. While this waits
-- and until the end nobody can claim or beat, so it comes last.
SET LOCAL lock_timeout = '3s';
ALTER TABLE owner ADD COLUMN sealed timestamptz;

-- Workers of version 1 go on.
UPDATE meta SET schema_version = 2;

-- +goose Down
UPDATE meta SET schema_version = 1;
DROP FUNCTION sweep_owner(bigint, bigint[]);
DROP FUNCTION sweep_archive(bigint, bigint, bigint, bigint);
DROP FUNCTION sweep_message(bigint, bigint, bigint, bigint, bigint);
ALTER TABLE message RESET (autovacuum_vacuum_cost_limit);
ALTER TABLE owner DROP COLUMN sealed;
DROP TABLE maintenance;

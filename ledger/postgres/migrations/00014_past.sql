-- +goose Up

-- What messages ended with, kept for longer than their rows. Workers of version 13 go on: triggers keep it of the rows that they remove.
SET LOCAL lock_timeout = '3s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- How long that is for a scope's messages; null: nothing is kept.
ALTER TABLE scope ADD COLUMN keep_past interval;

-- No claim reads it. Rows are only added, by the trigger, and deleted, by sweep_past. The key is not unique: it may live again.
CREATE TABLE past (
    at       timestamptz NOT NULL,
    expiry   timestamptz NOT NULL, -- the row's
    until    timestamptz NOT NULL,
    token    bigint NOT NULL,
    scope    integer NOT NULL,
    state    smallint NOT NULL,
    attempts smallint NOT NULL,
    crashes  smallint NOT NULL,
    key      uuid NOT NULL,
    id       bytea NOT NULL,
    result   bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX past_key ON past (key, at);
CREATE INDEX past_id ON past (id);
CREATE INDEX past_until ON past (until);

-- Where no scope keeps anything this is one look at a small table for each statement that removes messages.
-- +goose StatementBegin
CREATE FUNCTION keep_past() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    IF EXISTS (SELECT FROM scope s WHERE s.keep_past IS NOT NULL) THEN
        INSERT INTO past (at, expiry, until, token, scope, state, attempts, crashes, key, id, result)
        SELECT g.at, g.expiry, g.expiry + s.keep_past, g.token, g.scope, g.state, g.attempts, g.crashes, g.key, g.id, g.result
        FROM gone g JOIN scope s ON s.id = g.scope
        WHERE g.result IS NOT NULL AND s.keep_past IS NOT NULL;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION keep_past() FROM PUBLIC;
CREATE TRIGGER past_kept AFTER DELETE ON message REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION keep_past();

-- sweep_past removes at most n rows whose time is over, the oldest first. It answers how many; null: "me" does not hold the row of
-- maintenance.
-- +goose StatementBegin
CREATE FUNCTION sweep_past(me bigint, lease bigint, n bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    clock timestamptz := clock_timestamp();
    gone  bigint;
BEGIN
    UPDATE maintenance SET lease_end = clock + lease * interval '1 microsecond' WHERE holder = me;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM past d WHERE d.until < clock AND d.ctid = ANY(ARRAY(
        SELECT p.ctid FROM past p WHERE p.until < clock ORDER BY p.until LIMIT least(n, 10000)));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sweep_past(bigint, bigint, bigint) FROM PUBLIC;

-- Who worked, read or swept before does so without a grant anew.
-- +goose StatementBegin
DO $$
DECLARE
    may record;
BEGIN
    FOR may IN SELECT r.rolname, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a, pg_roles r
        WHERE c.oid = 'message'::regclass AND a.privilege_type IN ('SELECT', 'UPDATE') AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        IF may.privilege_type = 'SELECT' THEN
            EXECUTE format('GRANT SELECT ON past TO %I', may.rolname);
        ELSE
            EXECUTE format('GRANT UPDATE (keep_past) ON scope TO %I', may.rolname);
        END IF;
    END LOOP;
    FOR may IN SELECT r.rolname FROM pg_proc p, aclexplode(p.proacl) a, pg_roles r
        WHERE p.oid = 'sweep_archive(bigint, bigint, bigint, bigint)'::regprocedure AND r.oid = a.grantee AND a.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION sweep_past(bigint, bigint, bigint) TO %I', may.rolname);
    END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 14 WHERE schema_version < 14;

-- +goose Down
UPDATE meta SET schema_version = 13;
DROP TRIGGER past_kept ON message;
DROP FUNCTION keep_past();
DROP FUNCTION sweep_past(bigint, bigint, bigint);
DROP TABLE past;
ALTER TABLE scope DROP COLUMN keep_past;

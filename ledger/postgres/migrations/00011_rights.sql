-- +goose Up

-- What a worker's role and an operator's cannot do by many small steps, or by a far date. Workers of version 6 go on.
SET LOCAL lock_timeout = '3s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- As before, but the time at which a segment last grew does not go back, not even a little: two settlements at once may write
-- it a moment too low, and one who does so on purpose, sixty times, had made it an hour. What is within a minute is put right.
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
            AND s.kind = 1 AND s.expiry >= OLD.expiry AND s.until >= OLD.until)
        OR coalesce(pg_catalog.current_setting('ackledger.reopen', true), '') = 'on'
            AND pg_catalog.has_table_privilege(pg_catalog.format('%I.archive', TG_TABLE_SCHEMA), 'UPDATE') THEN
        RETURN NULL;
    END IF;
    UPDATE segment s SET until = OLD.until WHERE s.log = OLD.log AND s.first <= greatest(OLD.first, below) AND s.last >= OLD.last
        AND s.kind = 1 AND s.expiry >= OLD.expiry AND s.until >= OLD.until - interval '1 minute';
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'log %: offsets from % up to % are finished, and would not be any more', OLD.log, OLD.first, OLD.last
        USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
DROP TRIGGER guard_shrunk ON segment;
CREATE CONSTRAINT TRIGGER guard_shrunk AFTER UPDATE ON segment DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.kind = 1 AND (NEW.kind <> 1 OR NEW.log <> OLD.log OR NEW.first > OLD.first OR NEW.last < OLD.last
        OR NEW.expiry < OLD.expiry OR NEW.until < OLD.until))
    EXECUTE FUNCTION guard_segment();

-- Nobody holds the sweep, or a life, into the far future. A lease is an hour at most, the sweep's half a minute, and a pass is
-- due within a day. NOT VALID: what is there is put right first.
UPDATE owner SET lease_end = clock_timestamp() + interval '1 hour' WHERE lease_end > clock_timestamp() + interval '1 hour';
UPDATE maintenance SET lease_end = least(lease_end, clock_timestamp() + interval '1 minute'), due = least(due, clock_timestamp() + interval '1 day');
ALTER TABLE owner ADD CONSTRAINT owner_lease_end CHECK (lease_end < clock_timestamp() + interval '2 hours') NOT VALID;
ALTER TABLE maintenance ADD CONSTRAINT maintenance_lease_end CHECK (lease_end < clock_timestamp() + interval '10 minutes') NOT VALID,
    ADD CONSTRAINT maintenance_due CHECK (due < clock_timestamp() + interval '25 hours') NOT VALID;

-- The audit's time, number and role are the database's to say. Who may add to it keeps the columns that are his.
-- +goose StatementBegin
DO $$
DECLARE
    who name;
BEGIN
    FOR who IN SELECT r.rolname FROM pg_class c, aclexplode(c.relacl) a, pg_roles r
        WHERE c.oid = 'audit'::regclass AND a.privilege_type = 'INSERT' AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE INSERT ON audit FROM %I', who);
        EXECUTE format('GRANT INSERT (actor, action, key, detail) ON audit TO %I', who);
    END LOOP;
END $$;
-- +goose StatementEnd

-- sweep_audit removes audit rows that are older than keep, and than 90 days whatever keep is: of the n oldest. It answers how
-- many; null: "me" does not hold the row of maintenance.
-- +goose StatementBegin
CREATE FUNCTION sweep_audit(me bigint, lease bigint, keep bigint, n bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    before timestamptz := clock_timestamp() - greatest(keep * interval '1 microsecond', interval '90 days');
    gone   bigint;
BEGIN
    UPDATE maintenance SET lease_end = clock_timestamp() + lease * interval '1 microsecond' WHERE holder = me;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM audit d WHERE d.at < before
        AND d.id = ANY(ARRAY(SELECT a.id FROM audit a ORDER BY a.id LIMIT least(n, 10000)));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sweep_audit(bigint, bigint, bigint, bigint) FROM PUBLIC;

-- Workers sweep it without a grant anew.
-- +goose StatementBegin
DO $$
DECLARE
    who name;
BEGIN
    FOR who IN SELECT r.rolname FROM pg_proc p, aclexplode(p.proacl) a, pg_roles r
        WHERE p.oid = 'sweep_archive(bigint, bigint, bigint, bigint)'::regprocedure AND r.oid = a.grantee AND a.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION sweep_audit(bigint, bigint, bigint, bigint) TO %I', who);
    END LOOP;
    -- Nothing here is everybody's, also where it was granted so by mistake.
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM PUBLIC', current_schema());
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %I FROM PUBLIC', current_schema());
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 11 WHERE schema_version < 11;

-- +goose Down
UPDATE meta SET schema_version = 10;
DROP FUNCTION sweep_audit(bigint, bigint, bigint, bigint);
ALTER TABLE maintenance DROP CONSTRAINT maintenance_due, DROP CONSTRAINT maintenance_lease_end;
ALTER TABLE owner DROP CONSTRAINT owner_lease_end;
DROP TRIGGER guard_shrunk ON segment;
CREATE CONSTRAINT TRIGGER guard_shrunk AFTER UPDATE ON segment DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.kind = 1 AND (NEW.kind <> 1 OR NEW.log <> OLD.log OR NEW.first > OLD.first OR NEW.last < OLD.last
        OR NEW.expiry < OLD.expiry OR NEW.until < OLD.until - interval '1 minute'))
    EXECUTE FUNCTION guard_segment();

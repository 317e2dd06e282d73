-- +goose NO TRANSACTION
-- +goose Up

-- What is finished stays so, whoever writes; archived deliveries take less; and claims and settlements of one log do not
-- wait for each other. Each statement may be repeated after one that failed. What can wait long comes first: indexes are
-- built beside the writes.

-- Functions find these tables and nobody else's, temporary ones included (SET search_path FROM CURRENT).
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- Lists go by the time alone, and read all that failed at one moment: names of deliveries are long.
DROP INDEX CONCURRENTLY IF EXISTS archive_time;
CREATE INDEX CONCURRENTLY archive_time ON archive (at) WHERE purged_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS archive_scope_time;
CREATE INDEX CONCURRENTLY archive_scope_time ON archive (scope, at) WHERE purged_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS archive_kind_time;
CREATE INDEX CONCURRENTLY archive_kind_time ON archive (kind, at) WHERE purged_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS archive_at;
DROP INDEX CONCURRENTLY IF EXISTS archive_scope;
DROP INDEX CONCURRENTLY IF EXISTS archive_kind;

-- guard_message refuses a worker's role any change of a message that succeeded. Operators may: they are told from workers by
-- the right to change the archive, which the schema's owner has as well. The trigger comes after the row, not before: one
-- that comes before locks each row first, which writes it to the WAL, finished or not.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION guard_message() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT has_table_privilege(format('%I.archive', TG_TABLE_SCHEMA), 'UPDATE') THEN
        RAISE EXCEPTION 'message % has succeeded: a worker''s role may not change it', OLD.key
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- guard_segment looks, at the end of the transaction, whether what a segment had finished is finished still: in one that
-- took its place. It may go when it has expired, and when it has not changed for an hour (only a worker knows where a log
-- begins; ranges.TrimAfter). Else finished offsets go for an operator who says so (ackledger.reopen), and for nobody else,
-- the owner of the schema included.
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

-- guard_log refuses to set a log back, for anybody: workers claim above what they know of it without a look.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION guard_log() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'log %: its version, token and top only grow', OLD.log USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION guard_message() FROM PUBLIC;
REVOKE ALL ON FUNCTION guard_segment() FROM PUBLIC;
REVOKE ALL ON FUNCTION guard_log() FROM PUBLIC;

SET lock_timeout = '10s';
CREATE OR REPLACE TRIGGER guard_succeeded AFTER UPDATE ON message FOR EACH ROW
    WHEN (OLD.state = 2) EXECUTE FUNCTION guard_message();
CREATE OR REPLACE TRIGGER guard_log AFTER UPDATE ON range_log FOR EACH ROW
    WHEN (NEW.log <> OLD.log OR NEW.version < OLD.version OR NEW.token < OLD.token OR NEW.top < OLD.top)
    EXECUTE FUNCTION guard_log();
DROP TRIGGER IF EXISTS guard_gone ON segment;
CREATE CONSTRAINT TRIGGER guard_gone AFTER DELETE ON segment DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.kind = 1) EXECUTE FUNCTION guard_segment();
DROP TRIGGER IF EXISTS guard_shrunk ON segment;
CREATE CONSTRAINT TRIGGER guard_shrunk AFTER UPDATE ON segment DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.kind = 1 AND (NEW.kind <> 1 OR NEW.log <> OLD.log OR NEW.first > OLD.first OR NEW.last < OLD.last
        OR NEW.expiry < OLD.expiry OR NEW.until < OLD.until - interval '1 minute'))
    EXECUTE FUNCTION guard_segment();
RESET lock_timeout;

-- As before, but it locks logs as other changes do: FOR UPDATE, which a settlement's FOR KEY SHARE waits for.
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

-- Workers of version 4 lock logs in a way that does not exclude the settlements of this version, and read no archived
-- positions that it writes. What they hold is free now, and counts as nobody's crash: they can finish it until others take
-- it, and claim nothing more. Their next heartbeat tells them, and they are not let in again.
WITH before AS (
    UPDATE owner SET fate = 2 WHERE fate = 1 AND EXISTS (SELECT FROM meta WHERE schema_version < 5)
)
UPDATE meta SET schema_version = 5, oldest_worker = 5 WHERE schema_version < 5;

-- +goose Down
WITH before AS (
    UPDATE owner SET fate = 2 WHERE fate = 1
)
UPDATE meta SET schema_version = 4, oldest_worker = 4;
DROP TRIGGER guard_shrunk ON segment;
DROP TRIGGER guard_gone ON segment;
DROP TRIGGER guard_log ON range_log;
DROP TRIGGER guard_succeeded ON message;
DROP FUNCTION guard_log(), guard_segment(), guard_message();
DROP INDEX archive_kind_time, archive_scope_time, archive_time;
CREATE INDEX archive_at ON archive (at, key, delivery) WHERE purged_at IS NULL;
CREATE INDEX archive_scope ON archive (scope, at, key, delivery) WHERE purged_at IS NULL;
CREATE INDEX archive_kind ON archive (kind, at, key, delivery) WHERE purged_at IS NULL;

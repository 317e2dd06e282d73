-- +goose Up

-- A log that is made anew goes on above the tokens of those that were dropped: an effect that is fenced by a token would
-- refuse the message for good, or let an old holder's write in. Workers of version 5 go on, and their logs too.
SET LOCAL lock_timeout = '3s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- The highest token of any log that was dropped.
ALTER TABLE meta ADD COLUMN token bigint NOT NULL DEFAULT 0;

-- As before, but it notes the tokens of the logs that it drops.
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
    room   bigint := 100 * n;
    seen   bigint[];
    below  bigint;
    gone   bigint;
    dropped bigint;
    upto   bigint;
    one    bigint;
    cut    record;
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    UPDATE maintenance SET lease_end = clock + lease * interval '1 microsecond' WHERE maintenance.holder = me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    seen := ARRAY(SELECT g.log FROM range_log g WHERE g.log > coalesce(past, -9223372036854775808) ORDER BY g.log LIMIT n);
    FOREACH one IN ARRAY seen LOOP
        IF one = past + 1 THEN
            BEGIN
                PERFORM FROM range_log g WHERE g.log = one FOR UPDATE;
            EXCEPTION WHEN lock_not_available THEN
                CONTINUE;
            END;
        END IF;
        SELECT CASE WHEN g.start_at < clock - interval '1 hour' THEN g.start ELSE g.low END INTO below
        FROM range_log g WHERE g.log = one FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM segment d WHERE d.ctid = ANY(ARRAY(SELECT s.ctid FROM segment s WHERE s.log = one AND s.expiry < clock
            AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = s.log AND r.first < s.last AND s.first < r.last)
            AND (s.kind = 1 OR NOT EXISTS (SELECT FROM message m
                WHERE m.key >= encode(int8send(s.log) || int8send(s.first), 'hex')::uuid
                    AND m.key < encode(int8send(s.log) || int8send(s.last), 'hex')::uuid))
            LIMIT room));
        GET DIAGNOSTICS gone = ROW_COUNT;
        room := room - gone;
        DELETE FROM range_log g WHERE g.log = one
            AND NOT EXISTS (SELECT FROM segment s WHERE s.log = g.log)
            AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = g.log)
            RETURNING g.token INTO dropped;
        UPDATE meta SET token = dropped WHERE meta.token < dropped;
        below := least(below, (SELECT min(r.first) FROM claim_range r WHERE r.log = one));
        FOR cut IN SELECT s.first FROM segment s
            WHERE room > 0 AND s.log = one AND s.first < below AND s.last > below AND s.kind = 1
        LOOP
            upto := (SELECT ('x' || encode(substring(uuid_send(m.key) FROM 9), 'hex'))::bit(64)::bigint FROM message m
                WHERE m.key >= encode(int8send(one) || int8send(cut.first), 'hex')::uuid
                    AND m.key < encode(int8send(one) || int8send(below), 'hex')::uuid
                ORDER BY m.key OFFSET room LIMIT 1);
            IF upto IS NULL THEN
                upto := below;
            ELSE
                room := 0;
            END IF;
            UPDATE message d SET covered = NULL WHERE d.ctid = ANY(ARRAY(
                SELECT m.ctid FROM message m
                WHERE m.key >= encode(int8send(one) || int8send(cut.first), 'hex')::uuid
                    AND m.key < encode(int8send(one) || int8send(upto), 'hex')::uuid AND m.covered
                FOR UPDATE SKIP LOCKED));
            GET DIAGNOSTICS gone = ROW_COUNT;
            room := greatest(room - gone, 0);
            UPDATE segment s SET first = upto,
                messages = least(round(s.messages::numeric * (s.last - upto) / (s.last - s.first)), s.last - upto)
            WHERE s.log = one AND s.first = cut.first;
        END LOOP;
        IF room = 0 THEN
            RETURN QUERY SELECT greatest(one, -9223372036854775807) - 1;
            RETURN;
        END IF;
    END LOOP;
    RETURN QUERY SELECT seen[cardinality(seen)];
END $$;
-- +goose StatementEnd

-- It looks as it inserts: the snapshot of the statement that makes a log may be of before the log was dropped.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION begin_log() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    NEW.token := greatest(NEW.token, (SELECT m.token FROM meta m));
    RETURN NEW;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION begin_log() FROM PUBLIC;
CREATE TRIGGER begin_log BEFORE INSERT ON range_log FOR EACH ROW EXECUTE FUNCTION begin_log();

UPDATE meta SET schema_version = 9 WHERE schema_version < 9;

-- +goose Down
UPDATE meta SET schema_version = 8;
DROP TRIGGER begin_log ON range_log;
DROP FUNCTION begin_log();
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
    room   bigint := 100 * n;
    seen   bigint[];
    below  bigint;
    gone   bigint;
    upto   bigint;
    one    bigint;
    cut    record;
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    UPDATE maintenance SET lease_end = clock + lease * interval '1 microsecond' WHERE maintenance.holder = me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    seen := ARRAY(SELECT g.log FROM range_log g WHERE g.log > coalesce(past, -9223372036854775808) ORDER BY g.log LIMIT n);
    FOREACH one IN ARRAY seen LOOP
        IF one = past + 1 THEN
            BEGIN
                PERFORM FROM range_log g WHERE g.log = one FOR UPDATE;
            EXCEPTION WHEN lock_not_available THEN
                CONTINUE;
            END;
        END IF;
        SELECT CASE WHEN g.start_at < clock - interval '1 hour' THEN g.start ELSE g.low END INTO below
        FROM range_log g WHERE g.log = one FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM segment d WHERE d.ctid = ANY(ARRAY(SELECT s.ctid FROM segment s WHERE s.log = one AND s.expiry < clock
            AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = s.log AND r.first < s.last AND s.first < r.last)
            AND (s.kind = 1 OR NOT EXISTS (SELECT FROM message m
                WHERE m.key >= encode(int8send(s.log) || int8send(s.first), 'hex')::uuid
                    AND m.key < encode(int8send(s.log) || int8send(s.last), 'hex')::uuid))
            LIMIT room));
        GET DIAGNOSTICS gone = ROW_COUNT;
        room := room - gone;
        DELETE FROM range_log g WHERE g.log = one
            AND NOT EXISTS (SELECT FROM segment s WHERE s.log = g.log)
            AND NOT EXISTS (SELECT FROM claim_range r WHERE r.log = g.log);
        below := least(below, (SELECT min(r.first) FROM claim_range r WHERE r.log = one));
        FOR cut IN SELECT s.first FROM segment s
            WHERE room > 0 AND s.log = one AND s.first < below AND s.last > below AND s.kind = 1
        LOOP
            upto := (SELECT ('x' || encode(substring(uuid_send(m.key) FROM 9), 'hex'))::bit(64)::bigint FROM message m
                WHERE m.key >= encode(int8send(one) || int8send(cut.first), 'hex')::uuid
                    AND m.key < encode(int8send(one) || int8send(below), 'hex')::uuid
                ORDER BY m.key OFFSET room LIMIT 1);
            IF upto IS NULL THEN
                upto := below;
            ELSE
                room := 0;
            END IF;
            UPDATE message d SET covered = NULL WHERE d.ctid = ANY(ARRAY(
                SELECT m.ctid FROM message m
                WHERE m.key >= encode(int8send(one) || int8send(cut.first), 'hex')::uuid
                    AND m.key < encode(int8send(one) || int8send(upto), 'hex')::uuid AND m.covered
                FOR UPDATE SKIP LOCKED));
            GET DIAGNOSTICS gone = ROW_COUNT;
            room := greatest(room - gone, 0);
            UPDATE segment s SET first = upto,
                messages = least(round(s.messages::numeric * (s.last - upto) / (s.last - s.first)), s.last - upto)
            WHERE s.log = one AND s.first = cut.first;
        END LOOP;
        IF room = 0 THEN
            RETURN QUERY SELECT greatest(one, -9223372036854775807) - 1;
            RETURN;
        END IF;
    END LOOP;
    RETURN QUERY SELECT seen[cardinality(seen)];
END $$;
-- +goose StatementEnd
ALTER TABLE meta DROP COLUMN token;

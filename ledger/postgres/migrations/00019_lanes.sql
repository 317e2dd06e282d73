-- +goose Up

-- Parked messages of an ordering key, in their lane. Workers of version 18 know no lanes: what they park is in none, and they run a key
-- ahead of what is parked of it.
SET LOCAL lock_timeout = '3s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
ALTER TABLE parked ADD COLUMN place bigint, ADD COLUMN lane bytea;
CREATE INDEX parked_lane ON parked (scope, lane, place) WHERE lane IS NOT NULL;

-- Of a lane the message with the least place is due, and the others in the year 9999. With the first the next of its lane is due. Whoever
-- parks one behind another holds that one's lock until it commits, and has it due in 9999 only then: so this finds it, or it is due
-- anyway. A row that was found may be gone once its lock is had, and the next one may be younger than what found it: then it looks anew.
-- One that is before it sees to the next when it goes, and waits for this if that goes at the same time.
-- +goose StatementBegin
CREATE FUNCTION promote() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    next record;
BEGIN
    IF EXISTS (SELECT FROM parked p WHERE p.scope = OLD.scope AND p.lane = OLD.lane AND p.place < OLD.place) THEN
        RETURN NULL;
    END IF;
    FOR n IN 1..3 LOOP
        SELECT p.key, p.due INTO next FROM parked p WHERE p.scope = OLD.scope AND p.lane = OLD.lane ORDER BY p.place LIMIT 1
            FOR NO KEY UPDATE;
        EXIT WHEN FOUND OR NOT EXISTS (SELECT FROM parked p WHERE p.scope = OLD.scope AND p.lane = OLD.lane);
    END LOOP;
    IF next.due > clock_timestamp() THEN
        UPDATE parked p SET due = clock_timestamp() WHERE p.key = next.key;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER promoted AFTER DELETE ON parked FOR EACH ROW
    WHEN (OLD.lane IS NOT NULL AND OLD.due < '9999-01-01 00:00:00+00') EXECUTE FUNCTION promote();
REVOKE ALL ON FUNCTION promote() FROM PUBLIC;

-- due_parked hides what is due of a scope, that first which has been due for longest, and answers what of it is nobody's, and when the
-- next one is due. What runs is looked at again later, since its owner may die; one that this snapshot does not show counts as
-- live. What has ended goes. What is not the first of its lane is put off, for no longer than what is returned is hidden. It locks no
-- message.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION due_parked(of_scope integer, most bigint, size bigint, hide bigint, OUT keys uuid[], OUT rest bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    now timestamptz := clock_timestamp();
    seen uuid[] := '{}';
    next timestamptz;
    first timestamptz;
    later timestamptz := now + hide * interval '1 microsecond';
    r record;
BEGIN
    keys := '{}';
    FOR r IN
        SELECT p.key, p.due, p.bytes, p.lane, p.place, m.state, m.owner, o.fate
        FROM (SELECT x.key, x.due, x.lane, x.place, coalesce(octet_length(x.body), 0) + coalesce(octet_length(x.headers), 0) AS bytes FROM parked x
            WHERE x.scope = of_scope AND x.due <= now ORDER BY x.due LIMIT most FOR UPDATE SKIP LOCKED) p
        LEFT JOIN LATERAL (SELECT m.state, m.owner FROM message m WHERE m.key = p.key OFFSET 0) m ON true
        LEFT JOIN LATERAL (SELECT o.fate FROM owner o WHERE o.id = m.owner OFFSET 0) o ON true
        ORDER BY p.due
    LOOP
        IF r.state <> 1 THEN
            DELETE FROM parked p WHERE p.key = r.key;
            CONTINUE;
        END IF;
        IF cardinality(keys) > 0 AND r.bytes > size THEN
            EXIT;
        END IF;
        seen := seen || r.key;
        IF r.lane IS NOT NULL THEN
            SELECT p.due INTO first FROM parked p WHERE p.scope = of_scope AND p.lane = r.lane AND p.place < r.place ORDER BY p.place LIMIT 1;
            IF FOUND THEN
                UPDATE parked p SET due = CASE WHEN first > now THEN least(first, later) ELSE later END WHERE p.key = r.key;
                CONTINUE;
            END IF;
        END IF;
        UPDATE parked p SET due = later WHERE p.key = r.key;
        IF r.owner IS NULL OR r.fate <> 1 THEN
            keys := keys || r.key;
            size := size - r.bytes;
        END IF;
    END LOOP;
    SELECT p.due INTO next FROM parked p WHERE p.scope = of_scope AND p.due < '9999-01-01 00:00:00+00' AND p.key <> ALL(seen)
        ORDER BY p.due LIMIT 1;
    rest := CASE WHEN next IS NULL THEN -1 ELSE greatest((extract(epoch FROM next - now) * 1000000)::bigint, 0) END;
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 19 WHERE schema_version < 19;

-- +goose Down
UPDATE meta SET schema_version = 18;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION due_parked(of_scope integer, most bigint, size bigint, hide bigint, OUT keys uuid[], OUT rest bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    now timestamptz := clock_timestamp();
    seen uuid[] := '{}';
    next timestamptz;
    r record;
BEGIN
    keys := '{}';
    FOR r IN
        SELECT p.key, p.due, p.bytes, m.state, m.owner, o.fate
        FROM (SELECT x.key, x.due, coalesce(octet_length(x.body), 0) + coalesce(octet_length(x.headers), 0) AS bytes FROM parked x
            WHERE x.scope = of_scope AND x.due <= now ORDER BY x.due LIMIT most FOR UPDATE SKIP LOCKED) p
        LEFT JOIN LATERAL (SELECT m.state, m.owner FROM message m WHERE m.key = p.key OFFSET 0) m ON true
        LEFT JOIN LATERAL (SELECT o.fate FROM owner o WHERE o.id = m.owner OFFSET 0) o ON true
        ORDER BY p.due
    LOOP
        IF r.state <> 1 THEN
            DELETE FROM parked p WHERE p.key = r.key;
            CONTINUE;
        END IF;
        IF cardinality(keys) > 0 AND r.bytes > size THEN
            EXIT;
        END IF;
        seen := seen || r.key;
        UPDATE parked p SET due = now + hide * interval '1 microsecond' WHERE p.key = r.key;
        IF r.owner IS NULL OR r.fate <> 1 THEN
            keys := keys || r.key;
            size := size - r.bytes;
        END IF;
    END LOOP;
    SELECT p.due INTO next FROM parked p WHERE p.scope = of_scope AND p.key <> ALL(seen) ORDER BY p.due LIMIT 1;
    rest := CASE WHEN next IS NULL THEN -1 ELSE greatest((extract(epoch FROM next - now) * 1000000)::bigint, 0) END;
END $$;
-- +goose StatementEnd
DROP TRIGGER promoted ON parked;
DROP FUNCTION promote();
ALTER TABLE parked DROP COLUMN lane, DROP COLUMN place;

-- +goose Up

-- Whole messages in the ledger's care, beside their rows. What becomes of a message its row says alone. Workers of version 17 know
-- nothing of this and go on: they take what is due when its broker brings it again.
SET LOCAL lock_timeout = '3s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
CREATE TABLE parked (
    due         timestamptz NOT NULL,
    at          timestamptz NOT NULL,
    sent_at     timestamptz NOT NULL,
    keep        bigint NOT NULL,
    weight      bigint NOT NULL,
    scope       integer NOT NULL,
    attempts    integer NOT NULL,
    key         uuid NOT NULL PRIMARY KEY,
    fingerprint uuid NOT NULL,
    delivery    bytea NOT NULL,
    id          bytea NOT NULL,
    source      bytea NOT NULL,
    grp         bytea NOT NULL,
    position    bytea,
    headers     bytea,
    body        bytea
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX parked_due ON parked (scope, due) INCLUDE (weight);

-- The message may be parked, if it is pending. Null: it is not.
ALTER TABLE message ADD COLUMN parked boolean;

-- With a message's end what is parked of it goes, whoever writes that: workers of earlier versions and handlers' transactions as well.
-- What is given back is due when its row is, and its row stays as it did when it was parked. Triggers see to it with the rights of the schema's owner, so no role deletes what is
-- parked by itself. They run behind their statement, which may have parked the message anew. (One that ran before would lock each row
-- that is updated, of whatever message.)
-- +goose StatementBegin
CREATE FUNCTION unpark() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    DELETE FROM parked p WHERE p.key = OLD.key;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION postpone() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    UPDATE parked p SET due = coalesce(NEW.due, clock_timestamp()) WHERE p.key = NEW.key;
    UPDATE message m SET expiry = NEW.due + p.keep * interval '1 microsecond' FROM parked p
        WHERE NEW.due IS NOT NULL AND m.key = NEW.key AND p.key = NEW.key AND m.expiry < NEW.due + p.keep * interval '1 microsecond';
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER unparked AFTER UPDATE ON message FOR EACH ROW
    WHEN (OLD.parked AND OLD.state = 1 AND NEW.state <> 1) EXECUTE FUNCTION unpark();
CREATE TRIGGER postponed AFTER UPDATE ON message FOR EACH ROW
    WHEN (OLD.parked AND NEW.parked AND NEW.state = 1 AND OLD.owner IS NOT NULL AND NEW.owner IS NULL) EXECUTE FUNCTION postpone();

-- due_parked hides what is due of a scope, that first which has been due for longest, and answers what of it is nobody's, and when the
-- next one is due. What runs is looked at again later, since its owner may die; one that this snapshot does not show counts as
-- live. What has ended goes. It locks no message.
-- +goose StatementBegin
CREATE FUNCTION due_parked(of_scope integer, most bigint, size bigint, hide bigint, OUT keys uuid[], OUT rest bigint)
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
REVOKE ALL ON FUNCTION unpark() FROM PUBLIC;
REVOKE ALL ON FUNCTION postpone() FROM PUBLIC;
REVOKE ALL ON FUNCTION due_parked(integer, bigint, bigint, bigint) FROM PUBLIC;

-- Who worked or read before does so without a grant anew.
-- +goose StatementBegin
DO $$
DECLARE
    may record;
BEGIN
    FOR may IN SELECT r.rolname, a.privilege_type = 'UPDATE' AS works
        FROM pg_class c, aclexplode(c.relacl) a, pg_roles r
        WHERE c.oid = 'message'::regclass AND a.privilege_type IN ('SELECT', 'UPDATE') AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT ON parked TO %I', may.rolname);
        IF may.works THEN
            EXECUTE format('GRANT INSERT, UPDATE ON parked TO %I', may.rolname);
            EXECUTE format('GRANT EXECUTE ON FUNCTION due_parked(integer, bigint, bigint, bigint) TO %I', may.rolname);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 18 WHERE schema_version < 18;

-- +goose Down
UPDATE meta SET schema_version = 17;
DROP FUNCTION due_parked(integer, bigint, bigint, bigint);
DROP TRIGGER postponed ON message;
DROP TRIGGER unparked ON message;
DROP FUNCTION postpone();
DROP FUNCTION unpark();
ALTER TABLE message DROP COLUMN parked;
DROP TABLE parked;

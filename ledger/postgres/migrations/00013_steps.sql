-- +goose Up

-- What was recorded of the steps of messages. Workers of version 12 record none, and go on. Rows are only added and deleted.
SET LOCAL lock_timeout = '3s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
CREATE TABLE step (
    at     timestamptz NOT NULL,
    key    uuid NOT NULL,
    failed boolean NOT NULL,
    name   bytea NOT NULL,
    result bytea NOT NULL,
    PRIMARY KEY (key, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);

-- A message's steps go with its row, when it is succeeded no more, and when its generation grows: whoever writes that, programs
-- of earlier versions as well. Triggers see to it with the rights of the schema's owner, so no role deletes steps by itself.
-- Who locks a row to record a step is over by then, and this is a statement of its own, so it sees them all. (A foreign key would
-- look for steps of each row that is deleted; this looks once, where there are none.)
-- +goose StatementBegin
CREATE FUNCTION drop_steps() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    IF EXISTS (SELECT FROM step) THEN
        DELETE FROM step s WHERE s.key = ANY(ARRAY(SELECT g.key FROM gone g));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION forget_steps() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    DELETE FROM step s WHERE s.key = OLD.key;
    RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION drop_steps() FROM PUBLIC;
REVOKE ALL ON FUNCTION forget_steps() FROM PUBLIC;
CREATE TRIGGER step_removed AFTER DELETE ON message REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION drop_steps();
CREATE TRIGGER step_forgotten AFTER UPDATE ON message FOR EACH ROW
    WHEN (OLD.state = 2 AND NEW.state <> 2 OR NEW.generation IS DISTINCT FROM OLD.generation) EXECUTE FUNCTION forget_steps();

-- Who worked or read before does so without a grant anew.
-- +goose StatementBegin
DO $$
DECLARE
    may record;
BEGIN
    FOR may IN SELECT r.rolname, CASE a.privilege_type WHEN 'UPDATE' THEN 'INSERT' ELSE 'SELECT' END AS "right"
        FROM pg_class c, aclexplode(c.relacl) a, pg_roles r
        WHERE c.oid = 'message'::regclass AND a.privilege_type IN ('SELECT', 'UPDATE') AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON step TO %I', may."right", may.rolname);
    END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 13 WHERE schema_version < 13;

-- +goose Down
UPDATE meta SET schema_version = 12;
DROP TRIGGER step_forgotten ON message;
DROP TRIGGER step_removed ON message;
DROP FUNCTION forget_steps();
DROP FUNCTION drop_steps();
DROP TABLE step;

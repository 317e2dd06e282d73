-- +goose Up

-- What workers say of themselves with their beats, and the pauses that operators have set. Workers of version 14 say nothing and do not
-- pause, and go on. No index is on what a beat changes, and a report stays in its row, packed, so beats are HOT as before.
SET LOCAL lock_timeout = '3s';
CREATE TABLE pause (
    scope  bytea PRIMARY KEY, -- empty: all
    actor  text NOT NULL,
    reason text NOT NULL,
    since  timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE owner ADD COLUMN report bytea CHECK (octet_length(report) <= 4096);
ALTER TABLE owner ALTER COLUMN report SET STORAGE MAIN;
-- Room for three more versions of a row with a long report: a snapshot that is open keeps those before from going.
ALTER TABLE owner SET (fillfactor = 25);

-- Who worked or read before does so without a grant anew. Who may add to the audit and empty the archive is an operator.
-- +goose StatementBegin
DO $$
DECLARE
    may record;
BEGIN
    FOR may IN SELECT DISTINCT r.rolname, CASE WHEN c.relname = 'archive' THEN 'INSERT (scope, actor, reason), UPDATE (actor, reason), DELETE' ELSE 'SELECT' END AS "right"
        FROM pg_class c, aclexplode(c.relacl) a, pg_roles r
        WHERE (c.oid = 'message'::regclass AND a.privilege_type = 'SELECT' OR c.oid = 'archive'::regclass AND a.privilege_type = 'UPDATE')
            AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON pause TO %I', may."right", may.rolname);
    END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 15 WHERE schema_version < 15;

-- +goose Down
UPDATE meta SET schema_version = 14;
ALTER TABLE owner SET (fillfactor = 50);
ALTER TABLE owner DROP COLUMN report;
DROP TABLE pause;

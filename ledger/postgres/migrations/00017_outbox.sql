-- +goose Up

-- What was published inside of InTx and is not sent yet (docs/design/outbox.md). Rows come and go fast and are few: VACUUM comes by their
-- number, and does not rest. Workers of version 16 publish nothing, and go on.
SET LOCAL lock_timeout = '3s';
CREATE TABLE outbox (
    target  text NOT NULL CHECK (octet_length(target) BETWEEN 1 AND 100),
    shard   smallint NOT NULL,
    num     bigint GENERATED ALWAYS AS IDENTITY,
    key     bytea,       -- null: it follows no other
    sum     bigint,      -- of the key
    id      bytea NOT NULL,
    body    bytea,
    headers bytea,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries   smallint NOT NULL DEFAULT 0,
    due     timestamptz, -- null: now
    error   text,
    PRIMARY KEY (target, shard, num)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_insert_threshold = -1,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE outbox ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX outbox_due ON outbox (target, shard, sum) WHERE due IS NOT NULL;

-- Who sends what lies in a lane, until when. A row is made by the first who asks.
CREATE TABLE outbox_lane (
    target text NOT NULL,
    shard  smallint NOT NULL,
    free   timestamptz NOT NULL DEFAULT clock_timestamp(),
    token  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (target, shard)
) WITH (fillfactor = 50);

-- Who worked before does so without a grant anew. Who may read archived bodies may read these.
-- +goose StatementBegin
DO $$
DECLARE
    may record;
BEGIN
    FOR may IN SELECT DISTINCT r.rolname, a.privilege_type = 'INSERT' AS works
        FROM pg_class c, aclexplode(c.relacl) a, pg_roles r
        WHERE c.oid = 'archive'::regclass AND a.privilege_type IN ('SELECT', 'INSERT') AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        IF may.works THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE (tries, due, error), DELETE ON outbox TO %I', may.rolname);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE ON outbox_lane TO %I', may.rolname);
        ELSE
            EXECUTE format('GRANT SELECT ON outbox, outbox_lane TO %I', may.rolname);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 17 WHERE schema_version < 17;

-- +goose Down
UPDATE meta SET schema_version = 16;
DROP TABLE outbox_lane;
DROP TABLE outbox;

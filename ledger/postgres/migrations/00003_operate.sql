-- +goose NO TRANSACTION
-- +goose Up

-- What operators see and do. Nothing here stops a worker: indexes are built beside the writes, and each statement may be
-- repeated after one that failed.
SET lock_timeout = '3s';
ALTER TABLE archive ADD COLUMN IF NOT EXISTS replayed_at timestamptz, -- a hint
    ADD COLUMN IF NOT EXISTS purged_at timestamptz;
ALTER TABLE audit ADD COLUMN IF NOT EXISTS role text DEFAULT session_user; -- actor is who the operator says to be
RESET lock_timeout;

-- Lists go by the oldest first. An empty row is not listed.
DROP INDEX CONCURRENTLY IF EXISTS archive_at;
CREATE INDEX CONCURRENTLY archive_at ON archive (at, key, delivery) WHERE purged_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS archive_scope;
CREATE INDEX CONCURRENTLY archive_scope ON archive (scope, at, key, delivery) WHERE purged_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS archive_kind;
CREATE INDEX CONCURRENTLY archive_kind ON archive (kind, at, key, delivery) WHERE purged_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS archive_id;
CREATE INDEX CONCURRENTLY archive_id ON archive (id);
DROP INDEX CONCURRENTLY IF EXISTS audit_key;
CREATE INDEX CONCURRENTLY audit_key ON audit (key, id);

-- Workers of version 1 and 2 go on.
UPDATE meta SET schema_version = 3 WHERE schema_version < 3;

-- +goose Down
UPDATE meta SET schema_version = 2;
DROP INDEX audit_key, archive_id, archive_kind, archive_scope, archive_at;
ALTER TABLE audit DROP COLUMN role;
ALTER TABLE archive DROP COLUMN purged_at, DROP COLUMN replayed_at;

-- +goose Up

-- What operators see and do. Workers of the versions before write none of it.
ALTER TABLE ackledger_archive ADD COLUMN position BLOB;       -- JSON; null: keyed by its id, or filed by an older worker
ALTER TABLE ackledger_archive ADD COLUMN replayed_at INTEGER; -- a hint
ALTER TABLE ackledger_archive ADD COLUMN purged_at INTEGER;

-- Lists go by the oldest first. An empty row is not listed.
CREATE INDEX ackledger_archive_at ON ackledger_archive (at, num) WHERE purged_at IS NULL;
CREATE INDEX ackledger_archive_scope ON ackledger_archive (scope, at, num) WHERE purged_at IS NULL;
CREATE INDEX ackledger_archive_kind ON ackledger_archive (kind, at, num) WHERE purged_at IS NULL;
CREATE INDEX ackledger_archive_id ON ackledger_archive (id);

-- What is not a column of its own is in detail.
CREATE INDEX ackledger_audit_key ON ackledger_audit (key);

UPDATE ackledger_meta SET value = '3' WHERE key = 'schema' AND CAST(value AS INTEGER) < 3;

-- +goose Down
UPDATE ackledger_meta SET value = '2' WHERE key = 'schema';
DROP INDEX ackledger_audit_key;
DROP INDEX ackledger_archive_id;
DROP INDEX ackledger_archive_kind;
DROP INDEX ackledger_archive_scope;
DROP INDEX ackledger_archive_at;
ALTER TABLE ackledger_archive DROP COLUMN purged_at;
ALTER TABLE ackledger_archive DROP COLUMN replayed_at;
ALTER TABLE ackledger_archive DROP COLUMN position;

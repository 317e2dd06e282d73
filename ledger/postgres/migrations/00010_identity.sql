-- +goose Up

-- The ledger's id, by which a worker of another ledger is told from its own. Workers of version 9 do not ask for it.
SET LOCAL lock_timeout = '3s';
ALTER TABLE meta ADD COLUMN ledger uuid NOT NULL DEFAULT gen_random_uuid();
UPDATE meta SET schema_version = 10 WHERE schema_version < 10;

-- +goose Down
UPDATE meta SET schema_version = 9;
ALTER TABLE meta DROP COLUMN ledger;

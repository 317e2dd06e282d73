-- +goose Up

-- What a worker said of itself with its last beat. Workers of version 8 say nothing, and go on.
ALTER TABLE ackledger_owner ADD COLUMN report BLOB;

UPDATE ackledger_meta SET value = '9' WHERE key = 'schema' AND CAST(value AS INTEGER) < 9;

-- +goose Down
UPDATE ackledger_meta SET value = '8' WHERE key = 'schema';
ALTER TABLE ackledger_owner DROP COLUMN report;

-- +goose Up

-- Where a log begins, as workers have found it: start at start_at, low at least an hour before. Finished segments may be cut
-- off below one that is an hour old. Workers of version 4 write none of it, and go on.
ALTER TABLE ackledger_range_log ADD COLUMN low INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ackledger_range_log ADD COLUMN start INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ackledger_range_log ADD COLUMN start_at INTEGER NOT NULL DEFAULT 0;

UPDATE ackledger_meta SET value = '5' WHERE key = 'schema' AND CAST(value AS INTEGER) < 5;

-- +goose Down
UPDATE ackledger_meta SET value = '4' WHERE key = 'schema';
ALTER TABLE ackledger_range_log DROP COLUMN start_at;
ALTER TABLE ackledger_range_log DROP COLUMN start;
ALTER TABLE ackledger_range_log DROP COLUMN low;

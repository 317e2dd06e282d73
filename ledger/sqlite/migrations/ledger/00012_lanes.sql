-- +goose Up

-- Parked messages of an ordering key, in their lane.
ALTER TABLE ackledger_parked ADD COLUMN lane BLOB;
ALTER TABLE ackledger_parked ADD COLUMN place INTEGER;
CREATE INDEX ackledger_parked_lane ON ackledger_parked (scope, lane, place, due) WHERE lane IS NOT NULL;

UPDATE ackledger_meta SET value = '12' WHERE key = 'schema' AND CAST(value AS INTEGER) < 12;

-- +goose Down
UPDATE ackledger_meta SET value = '11' WHERE key = 'schema';
DROP INDEX ackledger_parked_lane;
ALTER TABLE ackledger_parked DROP COLUMN place;
ALTER TABLE ackledger_parked DROP COLUMN lane;

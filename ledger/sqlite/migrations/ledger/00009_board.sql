-- +goose Up
-- Nothing but the number: both files of a ledger have the same. The pauses that hold stand in ackledger_meta, in this file, where the audit
-- stands, so that both are written or neither.
UPDATE ackledger_meta SET value = '9' WHERE key = 'schema' AND CAST(value AS INTEGER) < 9;

-- +goose Down
UPDATE ackledger_meta SET value = '8' WHERE key = 'schema';

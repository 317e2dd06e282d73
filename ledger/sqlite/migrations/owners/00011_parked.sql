-- +goose Up
-- Nothing but the number: both files of a ledger have the same.
UPDATE ackledger_meta SET value = '11' WHERE key = 'schema' AND CAST(value AS INTEGER) < 11;

-- +goose Down
UPDATE ackledger_meta SET value = '10' WHERE key = 'schema';

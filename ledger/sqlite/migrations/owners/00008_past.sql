-- +goose Up
-- Nothing but the number: both files of a ledger have the same.
UPDATE ackledger_meta SET value = '8' WHERE key = 'schema' AND CAST(value AS INTEGER) < 8;

-- +goose Down
UPDATE ackledger_meta SET value = '7' WHERE key = 'schema';

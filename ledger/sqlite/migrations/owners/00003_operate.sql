-- +goose Up
-- Nothing but the number: both files of a ledger have the same.
UPDATE ackledger_meta SET value = '3' WHERE key = 'schema' AND CAST(value AS INTEGER) < 3;

-- +goose Down
UPDATE ackledger_meta SET value = '2' WHERE key = 'schema';

-- +goose Up
-- Nothing but the number: both files of a ledger have the same.
UPDATE ackledger_meta SET value = '2' WHERE key = 'schema' AND CAST(value AS INTEGER) < 2;

-- +goose Down
UPDATE ackledger_meta SET value = '1' WHERE key = 'schema';

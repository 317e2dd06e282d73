-- +goose Up

-- What workers before this version hold is free now, and counts as nobody's crash: they can finish it until others take
-- it, and claim nothing more. Their next heartbeat tells them, and they are not let in again.
UPDATE ackledger_owner SET fate = 2 WHERE fate = 1;
ALTER TABLE ackledger_owner ADD COLUMN knows INTEGER; -- the schema that its program knows
-- +goose StatementBegin
CREATE TRIGGER ackledger_owner_knows BEFORE INSERT ON ackledger_owner WHEN NEW.knows IS NULL
BEGIN
    SELECT RAISE(ABORT, 'this program is too old for the ledger: update it');
END;
-- +goose StatementEnd

UPDATE ackledger_meta SET value = '4' WHERE key = 'schema' AND CAST(value AS INTEGER) < 4;

-- +goose Down
UPDATE ackledger_meta SET value = '3' WHERE key = 'schema';
DROP TRIGGER ackledger_owner_knows;
ALTER TABLE ackledger_owner DROP COLUMN knows;

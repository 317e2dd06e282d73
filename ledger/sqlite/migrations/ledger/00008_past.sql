-- +goose Up

-- How long the results of a scope's messages are kept after their rows have gone, in microseconds; null: not at all.
ALTER TABLE ackledger_scope ADD COLUMN keep_past INTEGER;

-- What is kept of rows that are gone. No claim reads it.
CREATE TABLE ackledger_past (
    num      INTEGER PRIMARY KEY,
    key      BLOB    NOT NULL,
    scope    INTEGER NOT NULL,
    id       BLOB    NOT NULL,
    state    INTEGER NOT NULL,
    token    INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    expiry   INTEGER NOT NULL, -- the row's
    until    INTEGER NOT NULL,
    result   BLOB    NOT NULL
) STRICT;
CREATE INDEX ackledger_past_key ON ackledger_past (key);
CREATE INDEX ackledger_past_id ON ackledger_past (id);
CREATE INDEX ackledger_past_until ON ackledger_past (until);

-- Whoever removes a row keeps its past, programs of earlier versions as well. Rows without a result cost them nothing.
-- +goose StatementBegin
CREATE TRIGGER ackledger_past_kept AFTER DELETE ON ackledger_message WHEN OLD.result IS NOT NULL
BEGIN
    INSERT INTO ackledger_past (key, scope, id, state, token, attempts, crashes, at, expiry, until, result)
    SELECT OLD.key, OLD.scope, OLD.id, OLD.state, OLD.token, OLD.attempts, OLD.crashes, OLD.at, OLD.expiry, OLD.expiry + s.keep_past, OLD.result
    FROM ackledger_scope s WHERE s.id = OLD.scope AND s.keep_past IS NOT NULL;
END;
-- +goose StatementEnd

UPDATE ackledger_meta SET value = '8' WHERE key = 'schema' AND CAST(value AS INTEGER) < 8;

-- +goose Down
UPDATE ackledger_meta SET value = '7' WHERE key = 'schema';
DROP TRIGGER ackledger_past_kept;
DROP TABLE ackledger_past;
ALTER TABLE ackledger_scope DROP COLUMN keep_past;

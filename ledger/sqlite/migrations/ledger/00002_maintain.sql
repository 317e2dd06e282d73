-- +goose Up
-- One row: who sweeps, until when, where it is, and what the last whole pass counted.
CREATE TABLE ackledger_maintenance (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    holder    TEXT,                       -- drawn at random for each pass; null: nobody
    lease_end INTEGER NOT NULL DEFAULT 0,
    due       INTEGER NOT NULL DEFAULT 0, -- the next pass need not begin before
    began     INTEGER NOT NULL DEFAULT 0,
    next      INTEGER NOT NULL DEFAULT 0, -- the message after which the next pass begins its round
    seen_at   INTEGER,
    seen      BLOB                        -- JSON
) STRICT;

INSERT INTO ackledger_maintenance (one) VALUES (1);

UPDATE ackledger_meta SET value = '2' WHERE key = 'schema' AND CAST(value AS INTEGER) < 2;

-- +goose Down
UPDATE ackledger_meta SET value = '1' WHERE key = 'schema';
DROP TABLE ackledger_maintenance;

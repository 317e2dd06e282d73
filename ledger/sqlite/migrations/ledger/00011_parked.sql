-- +goose Up

-- Whole messages in the ledger's care, beside their rows. What becomes of a message its row says alone, so workers of version 10 know
-- nothing of this and go on: they take what is due when its broker brings it again, and what is left here goes when it is looked at.
CREATE TABLE ackledger_parked (
    key         BLOB    NOT NULL PRIMARY KEY,
    scope       INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    weight      INTEGER NOT NULL,
    id          BLOB    NOT NULL,
    position    BLOB,
    fingerprint BLOB    NOT NULL,
    delivery    BLOB    NOT NULL,
    source      BLOB    NOT NULL,
    grp         BLOB    NOT NULL,
    attempts    INTEGER NOT NULL,
    sent_at     INTEGER,
    keep        INTEGER NOT NULL,
    headers     BLOB,
    body        BLOB
) STRICT;
CREATE INDEX ackledger_parked_due ON ackledger_parked (scope, due, weight);

UPDATE ackledger_meta SET value = '11' WHERE key = 'schema' AND CAST(value AS INTEGER) < 11;

-- +goose Down
UPDATE ackledger_meta SET value = '10' WHERE key = 'schema';
DROP TABLE ackledger_parked;

-- +goose Up

-- What the deliveries of each scope were, as workers count them. They stand in this file, where nobody's transaction is long.
-- Workers of version 5 count none of it, and go on.
CREATE TABLE ackledger_delivery (
    scope    BLOB    PRIMARY KEY,
    since    INTEGER NOT NULL,
    misses   INTEGER NOT NULL,
    hits     INTEGER NOT NULL,
    timeouts INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

UPDATE ackledger_meta SET value = '6' WHERE key = 'schema' AND CAST(value AS INTEGER) < 6;

-- +goose Down
UPDATE ackledger_meta SET value = '5' WHERE key = 'schema';
DROP TABLE ackledger_delivery;

-- +goose Up

-- What was published inside of InTx and is not sent yet (docs/design/outbox.md), and who sends what lies in a lane, until when.
CREATE TABLE ackledger_outbox (
    num     INTEGER PRIMARY KEY AUTOINCREMENT,
    target  TEXT NOT NULL,
    shard   INTEGER NOT NULL,
    key     BLOB, -- null: it follows no other
    id      BLOB NOT NULL,
    body    BLOB,
    headers BLOB,
    at      INTEGER NOT NULL,
    tries   INTEGER NOT NULL DEFAULT 0,
    due     INTEGER, -- null: now
    error   TEXT
);
CREATE INDEX ackledger_outbox_lanes ON ackledger_outbox (target, shard, num);
CREATE INDEX ackledger_outbox_due ON ackledger_outbox (target, shard) WHERE due IS NOT NULL;
CREATE TABLE ackledger_outbox_lane (
    target TEXT NOT NULL,
    shard  INTEGER NOT NULL,
    free   INTEGER NOT NULL,
    token  INTEGER NOT NULL,
    PRIMARY KEY (target, shard)
) WITHOUT ROWID;

UPDATE ackledger_meta SET value = '10' WHERE key = 'schema' AND CAST(value AS INTEGER) < 10;

-- +goose Down
UPDATE ackledger_meta SET value = '9' WHERE key = 'schema';
DROP TABLE ackledger_outbox_lane;
DROP TABLE ackledger_outbox;

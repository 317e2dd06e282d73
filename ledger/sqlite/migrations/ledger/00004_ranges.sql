-- +goose Up

-- One log (scope, cluster, topic UUID, partition) at one leader epoch. log is the first half of its records' keys, and a
-- record's id is prefix and its offset. version grows with whatever puts something at new offsets, token with each range,
-- and nothing lies at or above top.
CREATE TABLE ackledger_range_log (
    log     BLOB    PRIMARY KEY,
    version INTEGER NOT NULL,
    token   INTEGER NOT NULL,
    top     INTEGER NOT NULL,
    scope   INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    name    BLOB    NOT NULL,
    prefix  BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ackledger_range_log_name ON ackledger_range_log (scope, name);

-- Offsets first <= o < last. kind: 1 finished, 2 bound to rows (they have rows of their own, finished or not).
CREATE TABLE ackledger_segment (
    log      BLOB    NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    expiry   INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    PRIMARY KEY (log, first)
) STRICT, WITHOUT ROWID;

-- What an owner has claimed in one batch. done and back are sets of offsets, counted from first: settled, never delivered
-- or in a row of its own; and given back.
CREATE TABLE ackledger_claim_range (
    log      BLOB    NOT NULL,
    token    INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    owner    INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    keep     INTEGER NOT NULL, -- the window
    at       INTEGER NOT NULL,
    done     BLOB,
    back     BLOB,
    PRIMARY KEY (log, token)
) STRICT, WITHOUT ROWID;

-- The offset of a message for which a range speaks when its row is gone; else null.
ALTER TABLE ackledger_message ADD COLUMN covered INTEGER;

-- Workers before this version know nothing of ranges, and must not run beside those that do.
UPDATE ackledger_meta SET value = '4' WHERE key IN ('schema', 'oldest_worker');

-- +goose Down
UPDATE ackledger_meta SET value = '3' WHERE key = 'schema';
UPDATE ackledger_meta SET value = '1' WHERE key = 'oldest_worker';
ALTER TABLE ackledger_message DROP COLUMN covered;
DROP TABLE ackledger_claim_range;
DROP TABLE ackledger_segment;
DROP TABLE ackledger_range_log;

-- +goose Up
-- Times are microseconds since 1970 on this machine's clock. Bytes that come from outside are blobs, never text.
CREATE TABLE ackledger_meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE ackledger_scope (
    id   INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE
) STRICT;

-- A row id keeps inserts at the end of the table; only the small unique index is written at random places.
CREATE TABLE ackledger_message (
    num             INTEGER PRIMARY KEY,
    key             BLOB    NOT NULL UNIQUE,
    scope           INTEGER NOT NULL,
    id              BLOB    NOT NULL,
    fingerprint     BLOB    NOT NULL,
    state           INTEGER NOT NULL, -- 1 pending, 2 succeeded, 3 failed
    token           INTEGER NOT NULL,
    owner           INTEGER,          -- null: nobody's
    attempts        INTEGER NOT NULL,
    crashes         INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    due             INTEGER,          -- null: at once
    at              INTEGER NOT NULL, -- first claim
    expiry          INTEGER NOT NULL,
    failed_delivery BLOB,
    errors          BLOB,             -- JSON
    result          BLOB              -- null is not empty
) STRICT;

-- One row per failed delivery; it outlives its message's row.
CREATE TABLE ackledger_archive (
    num         INTEGER PRIMARY KEY,
    key         BLOB    NOT NULL,
    delivery    BLOB    NOT NULL,
    scope       INTEGER NOT NULL,
    id          BLOB,
    fingerprint BLOB    NOT NULL,
    token       INTEGER NOT NULL, -- 0: a mismatch
    generation  INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    errors      BLOB,             -- JSON
    source      BLOB    NOT NULL,
    grp         BLOB    NOT NULL,
    attempts    INTEGER NOT NULL,
    sent_at     INTEGER,          -- the broker's; null: none
    published   INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    expiry      INTEGER NOT NULL,
    headers     BLOB,             -- JSON; null: none at all
    body        BLOB,             -- null is not empty
    UNIQUE (key, delivery)
) STRICT;

CREATE TABLE ackledger_audit (
    num    INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    action TEXT    NOT NULL,
    key    BLOB,
    detail BLOB -- JSON
) STRICT;

INSERT INTO ackledger_meta (key, value) VALUES ('schema', '1'), ('oldest_worker', '1');

-- +goose Down
DROP TABLE ackledger_audit;
DROP TABLE ackledger_archive;
DROP TABLE ackledger_message;
DROP TABLE ackledger_scope;
DROP TABLE ackledger_meta;

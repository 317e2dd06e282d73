-- +goose Up
CREATE TABLE ackledger_meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: an id is never given to a second owner, not even after its row went.
CREATE TABLE ackledger_owner (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_end INTEGER NOT NULL,
    fate      INTEGER NOT NULL, -- 1 live, 2 left, 3 dead; never reverts
    fated_at  INTEGER,          -- when it left or was declared dead
    host      TEXT    NOT NULL,
    joined    INTEGER NOT NULL
) STRICT;

CREATE INDEX ackledger_owner_live ON ackledger_owner (lease_end) WHERE fate = 1;

INSERT INTO ackledger_meta (key, value) VALUES ('schema', '1'), ('oldest_worker', '1');

-- +goose Down
DROP TABLE ackledger_owner;
DROP TABLE ackledger_meta;

-- +goose Up

-- One row: the version of this schema, and the oldest worker that it still serves. A later migration raises oldest_worker
-- only when it breaks the workers before it.
CREATE TABLE meta (
    one            boolean PRIMARY KEY DEFAULT true CHECK (one),
    schema_version integer NOT NULL,
    oldest_worker  integer NOT NULL
);
INSERT INTO meta (schema_version, oldest_worker) VALUES (1, 1);

-- Names are long and repeat on every row: rows hold the number. Bytes, so that any name can be stored.
CREATE TABLE scope (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name bytea NOT NULL UNIQUE
);

-- Ids are drawn at random: after a restore from a backup no new owner gets the id of one that still runs.
-- fate: 1 live, 2 left, 3 dead; it never reverts. Beats change lease_end alone, which no index covers (HOT).
CREATE TABLE owner (
    id        bigint PRIMARY KEY,
    lease_end timestamptz NOT NULL,
    joined    timestamptz NOT NULL,
    fate      smallint NOT NULL DEFAULT 1,
    host      bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Columns are ordered by alignment, widest first: a settled row takes about 116 bytes. What most rows do not have is
-- null, and stands last. state: 1 pending, 2 succeeded, 3 failed.
-- fillfactor: a batch that settles whole pages at once finds room on them for as many new versions as pages have left
-- free (HOT: no index is written); what it leaves behind is used again once it was vacuumed. 70, 80, 85 came to 236, 217,
-- 210 bytes a message with the index (batches of 2,000, vacuumed ten times), and 60, 37, 24 % HOT; 90 settled
-- 12 % slower than 80. In batches of 10, 99 % were HOT.
CREATE TABLE message (
    at              timestamptz NOT NULL,
    expiry          timestamptz NOT NULL,
    owner           bigint,
    due             timestamptz,
    token           integer NOT NULL,
    scope           integer NOT NULL,
    state           smallint NOT NULL,
    attempts        smallint NOT NULL,
    crashes         smallint NOT NULL,
    key             uuid NOT NULL PRIMARY KEY,
    fingerprint     uuid NOT NULL,
    id              bytea NOT NULL,
    generation      integer,
    result          bytea,
    errors          bytea,
    failed_delivery bytea
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 10000
);

-- One row per failed delivery, whole. Names and texts are bytes: brokers accept what UTF-8 does not.
CREATE TABLE archive (
    token       bigint NOT NULL,
    sent_at     timestamptz NOT NULL,
    at          timestamptz NOT NULL,
    expiry      timestamptz NOT NULL,
    scope       integer NOT NULL,
    attempts    integer NOT NULL,
    generation  integer,
    published   boolean NOT NULL,
    key         uuid NOT NULL,
    fingerprint uuid NOT NULL,
    delivery    bytea NOT NULL,
    id          bytea NOT NULL,
    kind        bytea NOT NULL,
    source      bytea NOT NULL,
    grp         bytea NOT NULL,
    position    bytea,
    errors      bytea,
    headers     bytea,
    body        bytea,
    PRIMARY KEY (key, delivery)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05
);

-- What operators did, by whom and when.
CREATE TABLE audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor  text NOT NULL DEFAULT session_user,
    action text NOT NULL,
    key    uuid,
    detail bytea
);

-- +goose Down
DROP TABLE audit, archive, message, owner, scope, meta;

-- +goose Up

-- What was recorded of the steps of messages. Workers of version 6 record none, and go on.
CREATE TABLE ackledger_step (
    num    INTEGER PRIMARY KEY,
    key    BLOB    NOT NULL,
    name   TEXT    NOT NULL,
    failed INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    result BLOB    NOT NULL,
    UNIQUE (key, name)
) STRICT;

-- A message's steps go with its row, when it is succeeded no more, and when its generation grows: whoever writes that, programs
-- of earlier versions as well.
-- +goose StatementBegin
CREATE TRIGGER ackledger_step_removed AFTER DELETE ON ackledger_message
BEGIN
    DELETE FROM ackledger_step WHERE key = OLD.key;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER ackledger_step_forgotten AFTER UPDATE OF state, generation ON ackledger_message
WHEN OLD.state = 2 AND NEW.state <> 2 OR NEW.generation <> OLD.generation
BEGIN
    DELETE FROM ackledger_step WHERE key = OLD.key;
END;
-- +goose StatementEnd

UPDATE ackledger_meta SET value = '7' WHERE key = 'schema' AND CAST(value AS INTEGER) < 7;

-- +goose Down
UPDATE ackledger_meta SET value = '6' WHERE key = 'schema';
DROP TRIGGER ackledger_step_forgotten;
DROP TRIGGER ackledger_step_removed;
DROP TABLE ackledger_step;

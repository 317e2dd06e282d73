package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

// tx implements [driver.Tx], on the connection of the claims, on one that reads, or on that of an InTx. It has one clock.
type tx struct {
	s      *store
	ctx    context.Context
	sql    *sql.Tx
	main   bool // on the connection of the claims, which sees the owners
	now    time.Time
	ready  statements           // of its connection
	stmts  map[string]*sql.Stmt // bound to sql
	owners map[driver.OwnerID]driver.Owner
	scopes map[string]int64 // those that this transaction looked up
}

func (s *store) newTx(ctx context.Context, in *sql.Tx, ready statements) *tx {
	return &tx{s: s, ctx: ctx, sql: in, now: time.Now(), ready: ready, stmts: make(map[string]*sql.Stmt),
		owners: make(map[driver.OwnerID]driver.Owner), scopes: make(map[string]int64)}
}

// stmt is a statement of the transaction, which ends with it.
func (t *tx) stmt(text string) (*sql.Stmt, error) {
	if stmt := t.stmts[text]; stmt != nil {
		return stmt, nil
	}
	if stmt := t.ready[text]; stmt != nil {
		t.stmts[text] = t.sql.StmtContext(t.ctx, stmt)
		return t.stmts[text], nil
	}
	stmt, err := t.sql.PrepareContext(t.ctx, text)
	if err == nil {
		t.stmts[text] = stmt
	}
	return stmt, err
}

// exec returns the number of rows that a statement changed.
func (t *tx) exec(text string, args ...any) (int64, error) {
	stmt, err := t.stmt(text)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// one reads one row, if there is one.
func (t *tx) one(text string, args []any, dest ...any) error {
	stmt, err := t.stmt(text)
	if err == nil {
		err = stmt.QueryRowContext(t.ctx, args...).Scan(dest...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// each calls scan for each row.
func (t *tx) each(text string, args []any, scan func(scanner) error) error {
	stmt, err := t.stmt(text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	return scanAll(rows, scan)
}

// rows reads one T from each row.
func rows[T any](t *tx, text string, args []any, read func(scanner) (T, error)) (list []T, err error) {
	err = t.each(text, args, func(row scanner) error {
		x, err := read(row)
		list = append(list, x)
		return err
	})
	return list, err
}

// Now implements [driver.Reader].
func (t *tx) Now() time.Time { return t.now }

const (
	sqlOwner = `SELECT fate, lease_end FROM owners.ackledger_owner WHERE id = ?`
	sqlScope = `INSERT INTO ackledger_scope (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = name RETURNING id`
)

// Owner implements [driver.Reader]. One without a row is as one that left: rows of owners that pending messages name are never
// removed, so only a lost owners file can have held it (Config.NewOwners). Where the owners are read from their own file, that
// is after what names them.
func (t *tx) Owner(id driver.OwnerID) (driver.Owner, error) {
	if o, ok := t.owners[id]; ok {
		return o, nil
	}
	o, end := driver.Owner{Fate: driver.Left}, int64(0)
	var err error
	if t.main {
		err = t.one(sqlOwner, []any{id}, &o.Fate, &end)
	} else {
		err = query(t.ctx, t.s.owners.db, "SELECT fate, lease_end FROM ackledger_owner WHERE id = ?", []any{id}, func(row scanner) error {
			return row.Scan(&o.Fate, &end)
		})
	}
	if err != nil {
		return o, fmt.Errorf("reading owner %d: %w", id, err)
	}
	o.Lease = moment(end)
	t.owners[id] = o
	return o, nil
}

// scope returns the number of a scope's name.
func (t *tx) scope(name string) (int64, error) {
	if id, ok := t.scopes[name]; ok {
		return id, nil
	}
	if id, ok := t.s.scopes.get(name); ok {
		return id, nil
	}
	var id int64
	if err := t.one(sqlScope, []any{[]byte(name)}, &id); err != nil {
		return 0, fmt.Errorf("the scope's number: %w", err)
	}
	t.scopes[name] = id
	return id, nil
}

// messageColumns are those of scanMessage, of m and its scope s.
const messageColumns = `m.key, s.name, m.id, m.fingerprint, m.state, m.token, coalesce(m.owner, 0), m.attempts, m.crashes, m.generation,
	m.due, m.at, m.expiry, m.errors, m.result, m.failed_delivery, m.covered IS NOT NULL`

// scanMessage reads messageColumns, and what is selected behind them into more.
func scanMessage(row scanner, more ...any) (m driver.Message, err error) {
	var key, scope, fingerprint, list []byte
	var result, failed blob
	var due sql.NullInt64
	var at, expiry int64
	err = row.Scan(append([]any{&key, &scope, &m.ID, &fingerprint, &m.State, &m.Token, &m.Owner, &m.Attempts, &m.Crashes, &m.Generation,
		&due, &at, &expiry, &list, &result, &failed, &m.Covered}, more...)...)
	if err != nil {
		return m, err
	}
	copy(m.Key[:], key)
	copy(m.Fingerprint[:], fingerprint)
	m.Scope, m.Result, m.Failed, m.At, m.Expiry = string(scope), result, failed, moment(at), moment(expiry)
	if due.Valid {
		m.Due = moment(due.Int64)
	}
	m.Errors, err = storage.DecodeErrors(list)
	return m, err
}

const sqlMessage = `SELECT ` + messageColumns + `, EXISTS (SELECT 1 FROM ackledger_archive a WHERE a.key = ?1 AND a.delivery = ?2
	AND a.expiry >= ?3) FROM ackledger_message m CROSS JOIN ackledger_scope s ON s.id = m.scope WHERE m.key = ?1`

// Message implements [driver.Reader].
func (t *tx) Message(key driver.Key, delivery []byte) (m *driver.Message, err error) {
	stmt, err := t.stmt(sqlMessage)
	if err == nil {
		var archived bool
		var read driver.Message
		read, err = scanMessage(stmt.QueryRowContext(t.ctx, key[:], delivery, t.now.UnixMicro()), &archived)
		read.Archived = archived
		m = &read
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading message %x: %w", key, err)
	}
	return m, nil
}

const (
	sqlInsert = `INSERT INTO ackledger_message
		(key, scope, id, fingerprint, state, token, owner, attempts, crashes, generation, at, expiry, covered)
		VALUES (?, ?, ?, ?, 1, ?, ?, 0, 0, 0, ?, ?, ?) ON CONFLICT (key) DO NOTHING`
	sqlPut = `UPDATE ackledger_message SET fingerprint = ?, state = ?, token = ?, owner = ?, attempts = ?, crashes = ?, generation = ?,
		due = ?, at = ?, expiry = ?, errors = ?, result = ?, failed_delivery = ?,
		covered = ? WHERE key = ?`
	sqlRemove = `DELETE FROM ackledger_message WHERE key = ?`

	// sqlSucceed is the guard of every success, settled or committed by InTx: ?1 key, ?2 token, ?3 owner, ?4 result, ?5 when the
	// row goes if a range speaks for it then. One that has failed stays for its window: copies of its dead letter may come when
	// the range is gone.
	sqlSucceed = `UPDATE ackledger_message SET state = 2, owner = NULL, due = NULL, result = ?4,
		expiry = CASE WHEN covered IS NOT NULL AND ?4 IS NULL
			AND NOT EXISTS (SELECT 1 FROM ackledger_archive a WHERE a.key = ackledger_message.key) THEN min(expiry, ?5) ELSE expiry END
		WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2`
)

// Insert implements [driver.Tx].
func (t *tx) Insert(m *driver.Message) (bool, error) {
	scope, err := t.scope(m.Scope)
	if err != nil {
		return false, err
	}
	n, err := t.exec(sqlInsert, m.Key[:], scope, m.ID, m.Fingerprint[:], int64(m.Token), ownerOf(m), m.At.UnixMicro(), m.Expiry.UnixMicro(), coveredOf(m))
	return n == 1, err
}

// coveredOf is the offset at which a range may speak for a message, as it is stored.
func coveredOf(m *driver.Message) any {
	if !m.Covered {
		return nil
	}
	_, offset := driver.SplitKey(m.Key)
	return offset
}

// ownerOf is an owner as it is stored.
func ownerOf(m *driver.Message) any {
	if m.Owner == driver.Nobody {
		return nil
	}
	return int64(m.Owner)
}

// Put implements [driver.Tx].
func (t *tx) Put(m *driver.Message) error {
	n, err := t.exec(sqlPut, m.Fingerprint[:], int64(m.State), int64(m.Token), ownerOf(m), m.Attempts, m.Crashes, m.Generation,
		micros(m.Due), m.At.UnixMicro(), m.Expiry.UnixMicro(), storage.EncodeErrors(m.Errors), m.Result, m.Failed, coveredOf(m), m.Key[:])
	if err == nil && n != 1 {
		err = fmt.Errorf("message %x: %d rows changed, want 1", m.Key, n)
	}
	return err
}

// Succeed implements [driver.Tx].
func (t *tx) Succeed(key driver.Key, token uint64, owner driver.OwnerID, result []byte, fold time.Time) (bool, error) {
	n, err := t.exec(sqlSucceed, key[:], int64(token), int64(owner), result, fold.UnixMicro())
	return n == 1, err
}

// Remove implements [driver.Tx].
func (t *tx) Remove(keys []driver.Key) error {
	for _, key := range keys {
		if _, err := t.exec(sqlRemove, key[:]); err != nil {
			return err
		}
	}
	return nil
}

// Steps implements [driver.Reader].
func (t *tx) Steps(key driver.Key, results bool) ([]ledger.Step, error) {
	return rows(t, "SELECT name, failed, at, length(result), CASE WHEN ? THEN result END FROM ackledger_step WHERE key = ? ORDER BY num",
		[]any{results, key[:]}, func(row scanner) (s ledger.Step, err error) {
			var at int64
			var result blob
			err = row.Scan(&s.Name, &s.Failed, &at, &s.Size, &result)
			if s.At, s.Result = moment(at), result; results {
				s.Size = 0
			}
			return s, err
		})
}

// Record implements [driver.Tx].
func (t *tx) Record(key driver.Key, s *ledger.Step) error {
	result := s.Result
	if result == nil {
		result = []byte{}
	}
	_, err := t.exec("INSERT INTO ackledger_step (key, name, failed, at, result) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key, name) DO NOTHING",
		key[:], s.Name, s.Failed, s.At.UnixMicro(), result)
	return err
}

// Turn implements [driver.Reader].
func (t *tx) Turn() (turn driver.Turn, err error) {
	var holder sql.NullString
	var lease, due, next int64
	err = t.one("SELECT holder, lease_end, due, next, seen FROM ackledger_maintenance", nil, &holder, &lease, &due, &next, &turn.Pass)
	turn.Holder, turn.Lease, turn.Due, turn.Next = holder.String, moment(lease), moment(due), markOf(next)
	return turn, err
}

// PutTurn implements [driver.Tx].
func (t *tx) PutTurn(turn driver.Turn) error {
	_, err := t.exec(`UPDATE ackledger_maintenance SET holder = nullif(?, ''), lease_end = ?, due = ?, next = ?,
		seen = coalesce(?5, seen), seen_at = CASE WHEN ?5 IS NULL THEN seen_at ELSE ?6 END`,
		turn.Holder, stored(turn.Lease), stored(turn.Due), number(turn.Next), turn.Pass, t.now.UnixMicro())
	return err
}

// stored is a time as it is stored where there is no null.
func stored(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

// markOf is the place of the row with a number.
func markOf(num int64) driver.Mark {
	if num == 0 {
		return ""
	}
	return driver.Mark(strconv.FormatInt(num, 10))
}

func number(m driver.Mark) int64 {
	n, _ := strconv.ParseInt(string(m), 10, 64)
	return n
}

func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// SweepMessages implements [driver.Tx].
func (t *tx) SweepMessages(behind, until driver.Mark, n int) (page driver.Swept, err error) {
	after, last, looked, err := t.extent("message", behind, number(until), n)
	if err != nil || looked == 0 {
		return page, err
	}
	page.Last, page.Looked = markOf(last), int(looked)
	span := []any{after, last, t.now.UnixMicro()}
	const chosen = "(state = 1 OR expiry < ?3 OR covered IS NOT NULL)"
	err = t.each(`SELECT m.key, s.name, m.id, m.state, coalesce(m.owner, 0), m.at, m.expiry, m.covered IS NOT NULL,
		CASE WHEN m.failed_delivery IS NOT NULL OR m.errors IS NOT NULL THEN x'' END
		FROM ackledger_message m CROSS JOIN ackledger_scope s ON s.id = m.scope WHERE num > ?1 AND num <= ?2 AND `+chosen, span, func(row scanner) error {
		var m driver.Message
		var key, scope []byte
		var more blob
		var at, expiry int64
		err := row.Scan(&key, &scope, &m.ID, &m.State, &m.Owner, &at, &expiry, &m.Covered, &more)
		copy(m.Key[:], key)
		m.Scope, m.At, m.Expiry, m.Failed = string(scope), moment(at), moment(expiry), more
		page.Rows = append(page.Rows, m)
		return err
	})
	if err == nil {
		err = t.each(`SELECT s.name, state, count(*) FROM ackledger_message m CROSS JOIN ackledger_scope s ON s.id = m.scope
			WHERE num > ?1 AND num <= ?2 AND NOT `+chosen+` GROUP BY 1, 2`, span, func(row scanner) error {
			var c driver.Count
			var scope []byte
			err := row.Scan(&scope, &c.State, &c.N)
			c.Scope = string(scope)
			page.Rest = append(page.Rest, c)
			return err
		})
	}
	return page, err
}

// extent finds the last of the next rows of a table and how many there are.
func (t *tx) extent(table string, behind driver.Mark, until int64, n int) (after, last, looked int64, err error) {
	after = number(behind)
	err = t.one("SELECT coalesce(max(num), 0), count(*) FROM (SELECT num FROM ackledger_"+table+
		" WHERE num > ? AND num <= ? ORDER BY num LIMIT ?)", []any{after, until, n}, &last, &looked)
	return after, last, looked, err
}

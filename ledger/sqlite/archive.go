package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

// blob is a column in which null is not empty; the driver returns an empty one as a nil slice.
type blob []byte

// Scan implements sql.Scanner.
func (b *blob) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append([]byte{}, v...)
	default:
		return fmt.Errorf("a blob was stored as %T", src)
	}
	return nil
}

// archiveColumns are those of scanArchive, of a and its scope s, with what stands for headers and body.
func archiveColumns(headers, body string) string {
	return "s.name, a.id, a.delivery, a.fingerprint, a.token, a.kind, a.errors, a.source, a.grp, a.attempts, a.sent_at, " +
		"a.published, a.at, a.expiry, a.position, a.generation, a.replayed_at, a.purged_at, a.key, " + headers + ", " + body
}

// scanArchive reads archiveColumns, and what is selected behind them into more.
func scanArchive(row scanner, more ...any) (ledger.ArchiveRecord, error) {
	var (
		a                                       ledger.ArchiveRecord
		scope, fingerprint, source, group, errs []byte
		id, headers, body, position, sum        blob
		sentAt, replayed, purged                sql.NullInt64
		at, expiry                              int64
	)
	err := row.Scan(append([]any{&scope, &id, &a.Delivery, &fingerprint, &a.Token, &a.Kind, &errs, &source, &group,
		&a.Attempts, &sentAt, &a.Sent, &at, &expiry, &position, &a.Generation, &replayed, &purged, &sum, &headers, &body},
		more...)...)
	if err != nil {
		return a, err
	}
	a.Key = ledger.Key{Scope: string(scope), ID: id}
	if a.Key.Pos, err = decodePosition(position); err != nil {
		return a, err
	}
	if of := a.Key.Sum(); !bytes.Equal(of[:], sum) { // an older worker filed it without its position
		a.Key = ledger.KeyOfSum(a.Key.Scope, id, [ledger.KeySize]byte(sum))
	}
	copy(a.Fingerprint[:], fingerprint)
	a.Source, a.Group, a.Body = string(source), string(group), body
	a.At, a.Expiry = moment(at), moment(expiry)
	a.Keep = a.Expiry.Sub(a.At)
	for _, t := range []struct {
		to    *time.Time
		value sql.NullInt64
	}{{&a.SentAt, sentAt}, {&a.Replayed, replayed}, {&a.Purged, purged}} {
		if t.value.Valid {
			*t.to = moment(t.value.Int64)
		}
	}
	if a.Errors, err = storage.DecodeErrors(errs); err != nil {
		return a, err
	}
	a.Headers, err = storage.DecodeHeaders(headers)
	return a, err
}

const (
	sqlFile = `INSERT INTO ackledger_archive (key, delivery, scope, id, fingerprint, token, generation, kind, errors,
		source, grp, attempts, sent_at, published, at, expiry, headers, body, position)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key, delivery) DO NOTHING`
	// sqlUnfile makes room for a delivery that fails again after the time of the one that is archived under its name.
	sqlUnfile = `DELETE FROM ackledger_archive WHERE key = ? AND delivery = ? AND expiry < ?`
	// ?3 name, ?4 token, ?5 replayed, ?6 purged, ?7 when what is purged expires.
	sqlAlter = `UPDATE ackledger_archive SET delivery = coalesce(?3, delivery), token = coalesce(?4, token),
		replayed_at = coalesce(?5, replayed_at), purged_at = coalesce(?6, purged_at), expiry = min(expiry, coalesce(?7, expiry)),
		body = iif(?6 IS NULL, body, NULL), headers = iif(?6 IS NULL, headers, NULL), errors = iif(?6 IS NULL, errors, NULL),
		grp = iif(?6 IS NULL, grp, x'')
		WHERE key = ?1 AND delivery = ?2 AND (?6 IS NULL OR purged_at IS NULL)`
)

// File implements [driver.Tx].
func (t *tx) File(a *ledger.ArchiveRecord) error {
	scope, err := t.scope(a.Key.Scope)
	if err != nil {
		return err
	}
	sum := a.Key.Sum()
	if _, err = t.exec(sqlUnfile, sum[:], a.Delivery, t.now.UnixMicro()); err != nil {
		return fmt.Errorf("archiving %v: %w", a.Key, err)
	}
	_, err = t.exec(sqlFile, sum[:], a.Delivery, scope, a.Key.ID, a.Fingerprint[:], int64(a.Token), a.Generation, string(a.Kind),
		storage.EncodeErrors(a.Errors), []byte(a.Source), []byte(a.Group), a.Attempts, micros(a.SentAt), a.Sent,
		a.At.UnixMicro(), a.Expiry.UnixMicro(), storage.EncodeHeaders(a.Headers), a.Body, encodePosition(a.Key.Pos))
	if err != nil {
		return fmt.Errorf("archiving %v: %w", a.Key, err)
	}
	return nil
}

// Alter implements [driver.Tx].
func (t *tx) Alter(key driver.Key, delivery []byte, c driver.ArchiveChange) (bool, error) {
	var token, end any
	if c.Token != 0 {
		token = int64(c.Token)
	}
	if !c.Purged.IsZero() {
		end = c.Expiry.UnixMicro()
	}
	n, err := t.exec(sqlAlter, key[:], delivery, c.Delivery, token, micros(c.Replayed), micros(c.Purged), end)
	return n == 1, err
}

// Archive implements [driver.Reader].
func (t *tx) Archive(key driver.Key, bodies bool) ([]ledger.ArchiveRecord, error) {
	body, length := "a.body", "0"
	if !bodies {
		body, length = "NULL", "coalesce(length(a.body), 0)" // a blob's length is read without the blob
	}
	return rows(t, "SELECT "+archiveColumns("a.headers", body)+", "+length+` FROM ackledger_archive a
		JOIN ackledger_scope s ON s.id = a.scope WHERE a.key = ? ORDER BY a.num`, []any{key[:]}, func(row scanner) (ledger.ArchiveRecord, error) {
		var left int
		a, err := scanArchive(row, &left)
		a.BodyBytes = left
		return a, err
	})
}

// storedPosition is a position in JSON.
type storedPosition struct {
	Log    []byte `json:"log"` // text that need not be UTF-8
	Epoch  int32  `json:"epoch"`
	Offset int64  `json:"offset"`
	Prev   int64  `json:"prev"`
}

func encodePosition(p *ledger.Position) []byte {
	if p == nil {
		return nil
	}
	b, _ := json.Marshal(storedPosition{Log: []byte(p.Log), Epoch: p.Epoch, Offset: p.Offset, Prev: p.Prev}) // cannot fail
	return b
}

func decodePosition(b []byte) (*ledger.Position, error) {
	if b == nil {
		return nil, nil
	}
	var p storedPosition
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("the stored position cannot be read: %w", err)
	}
	return &ledger.Position{Log: string(p.Log), Epoch: p.Epoch, Offset: p.Offset, Prev: p.Prev}, nil
}

// maxSeconds is the last second whose microseconds fit into 64 bits, in about the year 294,000.
const maxSeconds = math.MaxInt64/1_000_000 - 1

// micros is a foreign timestamp as it is stored: null for the zero time; what is too far off is brought to the edge.
func micros(t time.Time) any {
	switch s := t.Unix(); {
	case t.IsZero():
		return nil
	case s > maxSeconds:
		return int64(math.MaxInt64)
	case s < -maxSeconds:
		return int64(math.MinInt64)
	}
	return t.UnixMicro()
}

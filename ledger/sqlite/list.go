package sqlite

import (
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

const (
	// listSpan is how many numbers of messages one statement looks at.
	listSpan = 20_000
	// weighPage is how many archived deliveries one statement of ArchivedBytes looks at.
	weighPage = 1000
)

// Scopes implements [driver.Lists].
func (t *tx) Scopes() ([]string, error) {
	return rows(t, "SELECT name FROM ackledger_scope ORDER BY name", nil, func(row scanner) (string, error) {
		var name []byte
		err := row.Scan(&name)
		return string(name), err
	})
}

// LastMessage implements [driver.Lists].
func (t *tx) LastMessage() (driver.Mark, error) {
	var last int64
	err := t.one("SELECT coalesce(max(num), 0) FROM ackledger_message", nil, &last)
	return markOf(last), err
}

// Messages implements [driver.Lists]. A message keeps its number, so each that was there comes once.
func (t *tx) Messages(behind, until driver.Mark, f *ledger.Filter) (page []driver.Message, next driver.Mark, err error) {
	after := number(behind)
	last := min(after+listSpan, number(until))
	text := "SELECT " + messageColumns + ` FROM ackledger_message m CROSS JOIN ackledger_scope s ON s.id = m.scope
		WHERE m.num > ? AND m.num <= ?`
	args := []any{after, last}
	if f.Scope != "" {
		text, args = text+" AND m.scope = (SELECT id FROM ackledger_scope WHERE name = ?)", append(args, []byte(f.Scope))
	}
	if f.State != 0 {
		text, args = text+" AND m.state = ?", append(args, int(f.State))
	}
	if f.Stuck {
		text += " AND m.state = 1"
	}
	page, err = rows(t, text, args, func(row scanner) (driver.Message, error) { return scanMessage(row) })
	return page, markOf(last), err
}

// place is where an archived delivery stands in lists: when it was archived, and its number.
type place struct{ at, num int64 }

func (p place) mark() driver.Mark { return driver.Mark(fmt.Sprintf("%d %d", p.at, p.num)) }

func placeOf(m driver.Mark) (p place) {
	p.at = math.MinInt64
	_, _ = fmt.Sscanf(string(m), "%d %d", &p.at, &p.num) // of an empty one nothing is read
	return p
}

// DeadLetters implements [driver.Lists].
func (t *tx) DeadLetters(behind driver.Mark, until time.Time, f *ledger.Filter, n int) ([]driver.DeadLetter, error) {
	text, args := lettersSQL(f, behind, until.UnixMicro(), n)
	return rows(t, text, args, func(row scanner) (d driver.DeadLetter, err error) {
		var num int64
		d.ArchiveRecord, err = scanArchive(row, &num, &d.Size, &d.Superseded)
		d.Mark = place{d.At.UnixMicro(), num}.mark()
		return d, err
	})
}

// lettersSQL names the index that gives the order, or (with ids) that selects: SQLite keeps no statistics by itself.
func lettersSQL(f *ledger.Filter, behind driver.Mark, until int64, n int) (text string, args []any) {
	if !f.To.IsZero() {
		until = min(until, f.To.UnixMicro())
	}
	from := int64(math.MinInt64)
	if !f.From.IsZero() {
		from = f.From.UnixMicro()
	}
	index, order := "ackledger_archive_at", " ORDER BY a.at, a.num"
	where := "a.purged_at IS NULL AND a.at >= ? AND a.at <= ?"
	args = []any{from, until}
	after := " AND (a.at, a.num) > (?, ?)"
	if f.Newest {
		order, after = " ORDER BY a.at DESC, a.num DESC", " AND (a.at, a.num) < (?, ?)"
	}
	if behind != "" {
		p := placeOf(behind)
		where += after
		args = append(args, p.at, p.num)
	}
	if f.Scope != "" {
		index = "ackledger_archive_scope"
		where += " AND a.scope = (SELECT id FROM ackledger_scope WHERE name = ?)"
		args = append(args, []byte(f.Scope))
	}
	switch len(f.Kinds) {
	case 0:
	case 1:
		index = "ackledger_archive_kind"
		where += " AND a.kind = ?"
		args = append(args, string(f.Kinds[0]))
	default:
		where += " AND a.kind IN (" + marks(len(f.Kinds)) + ")"
		for _, kind := range f.Kinds {
			args = append(args, string(kind))
		}
	}
	if len(f.IDs) > 0 {
		index = "ackledger_archive_id"
		where += " AND a.id IN (" + marks(len(f.IDs)) + ")"
		for _, id := range f.IDs {
			args = append(args, id)
		}
	}
	return "SELECT " + archiveColumns("NULL", "NULL") + `,
		a.num, coalesce(length(a.body), 0) + coalesce(length(a.headers), 0),
		a.token <> 0 AND EXISTS (SELECT 1 FROM ackledger_archive b WHERE b.key = a.key AND b.token > a.token)
		FROM ackledger_archive a INDEXED BY ` + index + ` CROSS JOIN ackledger_scope s ON s.id = a.scope
		WHERE ` + where + order + fmt.Sprintf(" LIMIT %d", n), args
}

// marks is so many parameters.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// Bodies implements [driver.Lists].
func (t *tx) Bodies(of []driver.DeadLetter) ([]driver.DeadLetter, error) {
	args, at, there := make([]any, len(of)), make(map[int64]int, len(of)), make([]bool, len(of))
	for i := range of {
		num := placeOf(of[i].Mark).num
		args[i], at[num] = num, i
	}
	err := t.each("SELECT num, headers, body FROM ackledger_archive WHERE purged_at IS NULL AND num IN ("+marks(len(args))+")", args,
		func(row scanner) (err error) {
			var num int64
			var headers, body blob
			if err := row.Scan(&num, &headers, &body); err != nil {
				return err
			}
			i := at[num]
			there[i], of[i].Body = true, body
			of[i].Headers, err = storage.DecodeHeaders(headers)
			return err
		})
	i := -1
	return slices.DeleteFunc(slices.Clone(of), func(driver.DeadLetter) bool { i++; return !there[i] }), err
}

// ArchivedKeys implements [driver.Lists].
func (t *tx) ArchivedKeys(id []byte, n int) ([]ledger.Key, error) {
	return rows(t, `SELECT DISTINCT s.name, a.key FROM ackledger_archive a INDEXED BY ackledger_archive_id
		JOIN ackledger_scope s ON s.id = a.scope WHERE a.id = ? LIMIT ?`, []any{id, n}, func(row scanner) (ledger.Key, error) {
		var name, sum []byte
		if err := row.Scan(&name, &sum); err != nil {
			return ledger.Key{}, err
		}
		return ledger.KeyOfSum(string(name), id, driver.Key(sum)), nil
	})
}

// sqlWeigh adds up a page of a scope's archive, and says where it ends. The length of a body is known without reading it
// where it is asked for in the table's own row.
const sqlWeigh = `SELECT coalesce(sum(weight), 0), max(at), max(num) FILTER (WHERE at = last) FROM (
	SELECT weight, at, num, max(at) OVER () AS last FROM (
		SELECT at, num, ? + coalesce(length(body), 0) + coalesce(length(headers), 0) + coalesce(length(errors), 0)
			+ length(grp) AS weight
		FROM ackledger_archive INDEXED BY ackledger_archive_scope
		WHERE purged_at IS NULL AND scope = (SELECT id FROM ackledger_scope WHERE name = ?) AND (at, num) > (?, ?)
		ORDER BY at, num LIMIT ?))`

// ArchivedBytes implements [driver.Lists].
func (t *tx) ArchivedBytes(scope string, behind driver.Mark) (n int64, next driver.Mark, more bool, err error) {
	after := placeOf(behind)
	var at, num sql.NullInt64
	err = t.one(sqlWeigh, []any{ledger.ArchiveRowBytes, []byte(scope), after.at, after.num, weighPage}, &n, &at, &num)
	return n, place{at.Int64, num.Int64}.mark(), at.Valid, err
}

// SweepArchive implements [driver.Tx].
func (t *tx) SweepArchive(behind driver.Mark, n int, before time.Time) (next driver.Mark, looked, removed int64, err error) {
	after, last, looked, err := t.extent("archive", behind, math.MaxInt64, n)
	if err == nil && looked > 0 {
		removed, err = t.exec("DELETE FROM ackledger_archive WHERE num > ? AND num <= ? AND expiry < ?", after, last, before.UnixMicro())
	}
	return markOf(last), looked, removed, err
}

const sqlNote = "INSERT INTO ackledger_audit (at, actor, action, key, detail) VALUES (?, ?, ?, ?, ?)"

// Note implements [driver.Tx].
func (t *tx) Note(records []ledger.AuditRecord) error {
	for i := range records {
		r := &records[i]
		sum := r.Key.Sum()
		_, err := t.exec(sqlNote, t.now.UnixMicro(), r.By.Actor, string(r.Action), sum[:], storage.EncodeAudit(r))
		if err != nil {
			return err
		}
	}
	return nil
}

// LastAudit implements [driver.Lists].
func (t *tx) LastAudit() (last int64, err error) {
	err = t.one("SELECT coalesce(max(num), 0) FROM ackledger_audit", nil, &last)
	return last, err
}

// Audits implements [driver.Lists].
func (t *tx) Audits(after, until int64, f *ledger.AuditFilter, n int) ([]ledger.AuditRecord, error) {
	text, args := "SELECT num, at, actor, action, key, detail FROM ackledger_audit WHERE num > ? AND num <= ?", []any{after, until}
	if f.Key != nil {
		sum, first := f.Key.Sum(), storage.FirstAudit(f)
		text, args = text+" AND key >= ? AND key <= ? AND (key = ? OR action = ?)", append(args, first[:], sum[:], sum[:], string(ledger.ActionReopen))
	}
	return rows(t, text+" ORDER BY num LIMIT ?", append(args, n), func(row scanner) (r ledger.AuditRecord, err error) {
		var at int64
		var sum, detail []byte
		if err := row.Scan(&r.ID, &at, &r.By.Actor, &r.Action, &sum, &detail); err != nil {
			return r, err
		}
		r.At = moment(at)
		var key driver.Key
		copy(key[:], sum)
		err = storage.DecodeAudit(&r, detail, key)
		return r, err
	})
}

// SweepAudits implements [driver.Tx]. The oldest come first: at one that stays it ends.
func (t *tx) SweepAudits(n int, before time.Time) (removed int64, err error) {
	_, last, looked, err := t.extent("audit", "", math.MaxInt64, n)
	if err != nil || looked == 0 {
		return 0, err
	}
	return t.exec("DELETE FROM ackledger_audit WHERE num <= ? AND at < ?", last, before.UnixMicro())
}

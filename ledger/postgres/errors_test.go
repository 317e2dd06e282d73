package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/ledger"
)

// TestWhatTheServerSays: what an error of the server means for the statement that it ended, and for what comes next.
func TestWhatTheServerSays(t *testing.T) {
	t.Parallel()
	const transient, canceled, data, unusable, refused, over = "transient", "canceled", "data", "unusable", "refused", "rolled back"
	said := func(severity, code string) error { return &pgconn.PgError{Severity: severity, Code: code} }
	localized := &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "42P07"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a serialization failure":    {said("ERROR", "40001"), transient + over},
		"a deadlock":                 {said("ERROR", "40P01"), transient + over},
		"canceled":                   {said("ERROR", "57014"), transient + canceled + over},
		"canceled, perhaps too late": {ledger.MarkUnknown(said("ERROR", "57014")), over},
		"a value out of range":       {said("ERROR", "22003"), data + over},
		"a constraint":               {said("ERROR", "23514"), data + over},
		"no login":                   {said("FATAL", "28P01"), unusable},
		"no database":                {said("FATAL", "3D000"), unusable},
		"no privilege":               {said("ERROR", "42501"), unusable + over},
		"no table":                   {said("ERROR", "42P01"), unusable + over},
		"no function":                {said("ERROR", "42883"), refused + over},
		"no room on the disk":        {said("ERROR", "53100"), refused + over},
		"too many connections":       {said("FATAL", "53300"), ""},
		"in another language":        {localized, refused + over},
		"the backend is terminated":  {said("FATAL", "57P01"), ""},
		"a pooler lost its server":   {said("ERROR", "08P01"), ""},
		"no answer":                  {errors.New("unexpected EOF"), ""},
	} {
		got := ""
		for _, is := range []struct {
			what string
			so   bool
		}{
			{transient, isTransient(c.err)}, {canceled, isCanceled(c.err)}, {data, isData(c.err)},
			{unusable, ledger.Unusable(usable(c.err))}, {refused, ledger.Refused(usable(c.err)) && !ledger.Unusable(usable(c.err))}, {over, rolledBack(c.err)},
		} {
			if is.so {
				got += is.what
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if unknown := ledger.Unknown(sent(c.err)); unknown == strings.Contains(c.want, over) && !ledger.Unknown(c.err) {
			t.Errorf("%s: unknown is %t once it was sent", name, unknown)
		}
	}
}

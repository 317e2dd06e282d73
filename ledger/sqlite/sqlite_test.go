package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"missing folder": filepath.Join(dir, "none", "ledger.db"), "folder": dir, "no database": text,
	} {
		l, err := sqlite.Open(t.Context(), path, nil)
		if err == nil || l != nil || !ledger.Unusable(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want an error that names the path and is Unusable", name, err)
		}
	}
	ok := filepath.Join(dir, "ledger.db")
	for field, c := range map[string]*sqlite.Config{
		"Config.Limits.Result":  {Limits: ledger.Limits{Result: -1}},
		"Config.Limits.Archive": {Limits: ledger.Limits{Archive: 1 << 30}},
		"Config.TxLimit":        {TxLimit: -time.Second},
		"path":                  nil,
	} {
		path := ok
		if field == "path" {
			path = ":memory:"
		}
		_, err := sqlite.Open(t.Context(), path, c)
		var bad *ledger.InvalidError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v, want an InvalidError", field, err)
		}
	}
}

func TestOpenNewerSchema(t *testing.T) {
	t.Parallel()
	path := sqlite.Fresh(t)
	l, a := openAt(t, path, nil)
	set := func(key string, n int) {
		if _, err := a.main.ExecContext(t.Context(), "UPDATE ackledger_meta SET value = ? WHERE key = ?", fmt.Sprint(n), key); err != nil {
			t.Fatal(err)
		}
	}
	set("schema", sqlite.SchemaVersion+1)
	if again, err := sqlite.Open(t.Context(), path, nil); err != nil {
		t.Errorf("open of a newer schema that serves us: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	set("oldest_worker", sqlite.SchemaVersion+1)
	if _, err := sqlite.Open(t.Context(), path, nil); !ledger.Unusable(err) {
		t.Errorf("open of a newer schema that does not serve us: %v, want Unusable", err)
	}
	if _, err := l.Join(t.Context(), time.Minute); !ledger.Unusable(err) {
		t.Errorf("join after the migration: %v, want Unusable", err)
	}
}

// Many processes start at once on a ledger that is not there yet.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a file is made by one after the other
	defer cancel()
	var wg sync.WaitGroup
	var ids sync.Map
	for range 8 {
		wg.Go(func() {
			l, err := sqlite.Open(ctx, path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			o, err := l.Join(ctx, time.Minute)
			if err != nil {
				t.Error(err)
			} else if _, double := ids.LoadOrStore(o.ID(), true); double {
				t.Errorf("two owners are %s", o.ID())
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Without its owners file a ledger would give ids a second time, and take the rows of an old owner for a new one's.
func TestOwnersFileIsMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	o, claim := func() (ledger.Owner, ledger.Claim) {
		l, err := sqlite.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		o, err := l.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := o.Claim(t.Context(), []ledger.Entry{message("m")})
		if err != nil {
			t.Fatal(err)
		}
		return o, claims[0]
	}()
	for _, suffix := range []string{"-owners", "-owners-wal", "-owners-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if _, err := sqlite.Open(t.Context(), path, nil); !ledger.Unusable(err) || !strings.Contains(err.Error(), "NewOwners") {
		t.Fatalf("open without the owners file: %v, want Unusable", err)
	}
	l, _ := openAt(t, path, &sqlite.Config{NewOwners: true})
	fresh, err := l.Join(t.Context(), time.Minute)
	if err != nil || fresh.ID() == o.ID() {
		t.Fatalf("owner %v is the old %s again (%v)", fresh, o.ID(), err)
	}
	claims, err := fresh.Claim(t.Context(), []ledger.Entry{message("m")})
	if err != nil || claims[0].Answer != ledger.Run || claims[0].Token != claim.Token+1 || claims[0].Crashes != 0 {
		t.Errorf("claim: %+v, %v; want Run with the next token, and nobody's crash", claims, err)
	}
}

// The files of two ledgers were mixed up.
func TestOwnersFileOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.db", "b.db"} {
		l, err := sqlite.Open(t.Context(), filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "b.db-owners"), filepath.Join(dir, "a.db-owners")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*sqlite.Config{nil, {NewOwners: true}} {
		if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "a.db"), c); !ledger.Unusable(err) || !strings.Contains(err.Error(), "belongs to ledger") {
			t.Errorf("open with %+v: %v, want Unusable", c, err)
		}
	}
}

// The disk is full: a clear error, nothing is acknowledged, and what there is can be settled once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := openAt(t, path, new(sqlite.Config).Break([]string{"max_page_count = 60"}, nil, 0))
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{message("m"), message("n")})
	if err != nil {
		t.Fatal(err)
	}
	dead := &ledger.Archive{Key: message("m").Key, Delivery: []byte("m"), Body: make([]byte, 1<<20), Keep: time.Hour}
	errs, err := o.Settle(t.Context(), []ledger.Settlement{
		{Ticket: claims[1].Ticket, Kind: ledger.Succeed}, {Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: dead}})
	if err == nil || errs != nil || ledger.Unknown(err) || ledger.IsLost(err) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("settle: %v, %v; want an error of the whole call that says full", errs, err)
	}
	for _, id := range []string{"m", "n"} {
		if rec, err := l.Get(t.Context(), message(id).Key); err != nil || rec.State != ledger.Pending || len(rec.Archived) != 0 {
			t.Errorf("row %s: %+v, %v; want it untouched", id, rec, err)
		}
	}
	var entries []ledger.Entry
	for i := range 5000 {
		entries = append(entries, message(fmt.Sprint("more ", i)))
	}
	if got, err := o.Claim(t.Context(), entries); err == nil || ledger.Unknown(err) {
		t.Errorf("claim of %d: %v, want an error", len(got), err)
	}
	errs, err = o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[1].Ticket, Kind: ledger.Succeed}})
	if err != nil || errs[0] != nil {
		t.Errorf("settle of what fits: %v, %v", errs, err)
	}
}

// A claim whose time is up has written nothing, wherever it was by then.
func TestLateCallsWriteNothing(t *testing.T) {
	t.Parallel()
	l, _ := openAt(t, sqlite.Fresh(t), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 { // from "before it began" to "it is through"
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		e := message(fmt.Sprint(i))
		claims, err := o.Claim(ctx, []ledger.Entry{e})
		cancel()
		rec, getErr := l.Get(t.Context(), e.Key)
		switch ran := err == nil && claims[0].Answer == ledger.Run; {
		case ran && (getErr != nil || rec.Token != claims[0].Token):
			t.Errorf("%d: answered Run; the row is %+v, %v", i, rec, getErr)
		case !ran && !errors.Is(getErr, ledger.ErrNotFound):
			t.Errorf("%d: answered %+v, %v; the row is %+v", i, claims, err, rec)
		case ledger.Unknown(err):
			t.Errorf("%d: %v; it is known that nothing was written", i, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Claim(ctx, []ledger.Entry{message("x")}); !errors.Is(err, context.Canceled) {
		t.Errorf("claim on a cancelled context: %v", err)
	}
}

// Every byte of an archive comes back, and what is nil stays nil.
func TestArchiveIsKeptWhole(t *testing.T) {
	t.Parallel()
	l, _ := openAt(t, sqlite.Fresh(t), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	odd := []ledger.Header{{Name: "a", Value: nil}, {Name: "a", Value: []byte{}}, {Name: "", Value: []byte{0}},
		{Name: "\xff\x00", Value: []byte("x"), Type: "Binary.\xfe"}, {Name: "<&>\u2028", Type: "String"}}
	for i, a := range []ledger.Archive{
		{Body: nil, Headers: nil},
		{Body: []byte{}, Headers: []ledger.Header{}, SentAt: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)},
		{Body: []byte("\xff\x00"), Headers: odd, Source: "s\x00\xff", Group: "\xfe", Sent: true, SentAt: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
	} {
		e := message(fmt.Sprint(i))
		claims, err := o.Claim(t.Context(), []ledger.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		a.Key, a.Delivery, a.Keep, a.Kind, a.Fingerprint = e.Key, e.Delivery, time.Hour, ledger.KindTerminal, e.Fingerprint
		errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: &a}})
		if err != nil || errs[0] != nil {
			t.Fatalf("%d: %v, %v", i, errs, err)
		}
		rec, err := l.Get(t.Context(), e.Key)
		if err != nil || len(rec.Archived) != 1 {
			t.Fatalf("%d: %+v, %v", i, rec, err)
		}
		if got := rec.Archived[0].Archive; !reflect.DeepEqual(got, a) {
			t.Errorf("%d: got\n%#v, want\n%#v", i, got, a)
		}
	}
}

// Dates that no calendar has are stored at the edge of what can be, and never fail the settlement.
func TestImpossibleDates(t *testing.T) {
	t.Parallel()
	l, _ := openAt(t, sqlite.Fresh(t), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for i, sentAt := range []time.Time{time.Unix(math.MaxInt64/2, 0), time.Unix(math.MinInt64/2, 0)} {
		e := message(fmt.Sprint(i))
		claims, err := o.Claim(t.Context(), []ledger.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
			Key: e.Key, Delivery: e.Delivery, Keep: time.Hour, SentAt: sentAt,
			Errors: []ledger.AttemptError{{Error: "x", At: sentAt}}}}})
		if err != nil || errs[0] != nil {
			t.Fatalf("%v: %v, %v", sentAt.Unix(), errs, err)
		}
		if rec, err := l.Get(t.Context(), e.Key); err != nil || rec.Archived[0].SentAt.IsZero() {
			t.Errorf("%v: %+v, %v", sentAt.Unix(), rec, err)
		}
	}
}

// A machine sleeps: by the wall clock its workers' beats have a gap as long as that, so none declares another dead before
// all have had time to return. Times without a monotonic reading compare by it.
func TestBeatsAreComparedByTheWallClock(t *testing.T) {
	if now := sqlite.Wall(); strings.Contains(now.String(), "m=") || time.Since(now).Abs() > time.Minute {
		t.Errorf("the pulse goes by %s", now)
	}
}

// What only looks makes no ledger of a file that is something else, nor of one that is not there.
func TestOpenExisting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	app, empty, missing := filepath.Join(dir, "app.db"), filepath.Join(dir, "empty.db"), filepath.Join(dir, "missing.db")
	db, err := sql.Open("sqlite", app)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(app)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{app, empty, missing} {
		if l, err := sqlite.Open(t.Context(), path, &sqlite.Config{Existing: true}); !errors.Is(err, sqlite.ErrNoLedger) || !ledger.Unusable(err) {
			t.Errorf("%s: %v, %v, want ErrNoLedger", path, l, err)
		}
	}
	for _, existing := range []bool{true, false} {
		path := filepath.Join(dir, "no-folder", "x.db")
		if l, err := sqlite.Open(t.Context(), path, &sqlite.Config{Existing: existing}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no-folder: no such") {
			t.Errorf("%s: %v, %v, want an error that names the folder", path, l, err)
		}
	}
	if after, err := os.ReadFile(app); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the application's file was changed: %v", err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 2 {
		t.Errorf("there are %v now, %v", files, err)
	}
	own := sqlite.Fresh(t)
	l, _ := openAt(t, own, nil)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	again, err := sqlite.Open(t.Context(), own, &sqlite.Config{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

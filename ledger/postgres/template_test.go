package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
)

// template is a database with a migrated schema and the table of effects. Most tests begin with a copy of it: to migrate
// takes several times as long.
type template struct {
	server func(testing.TB) *services.PG

	mu    sync.Mutex
	name  string
	admin string // the server's URL
}

var (
	template18 = &template{server: services.Postgres}
	template14 = &template{server: services.Postgres14}
)

// copy makes a database of a test's own, and returns its URL. It is dropped when the test ends.
func (p *template) copy(t testing.TB) string {
	t.Helper()
	p.make(t)
	name := services.Name(t)
	quoted := pgx.Identifier{name}.Sanitize()
	if err := execOn(t.Context(), p.admin, "CREATE DATABASE "+quoted+" TEMPLATE "+pgx.Identifier{p.name}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // t.Context is over here
		if err := execOn(context.Background(), p.admin, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return databaseURL(t, p.admin, name)
}

// make makes the template, once.
func (p *template) make(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name != "" {
		return
	}
	admin, name := p.server(t).AdminURL, services.Name(t)
	if err := execOn(t.Context(), admin, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	p.name, p.admin = name, admin // it is dropped from now on, also if the rest fails
	url := databaseURL(t, admin, name)
	migrate(t, url, nil)
	if err := execOn(t.Context(), url, createEffects); err != nil {
		t.Fatal(err)
	}
}

// dropTemplates ends a run of tests.
func dropTemplates() {
	for _, p := range []*template{template18, template14} {
		if p.name == "" {
			continue
		}
		if err := execOn(context.Background(), p.admin, "DROP DATABASE "+pgx.Identifier{p.name}.Sanitize()+" WITH (FORCE)"); err != nil {
			fmt.Fprintf(os.Stderr, "drop the template %s: %v\n", p.name, err)
		}
	}
}

func databaseURL(t testing.TB, admin, name string) string {
	t.Helper()
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawPath = "/"+name, ""
	return u.String()
}

func execOn(ctx context.Context, url, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

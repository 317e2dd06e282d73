package services

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// ErrNoPgBouncer says that PgBouncer is not on this machine and cannot be fetched here, and why. It is wrapped in an error
// of one line.
var ErrNoPgBouncer = errors.New("services: no PgBouncer here: install it (Debian, Ubuntu: apt install pgbouncer; macOS: brew install pgbouncer)")

// PgBouncer is a pooler that belongs to the caller.
type PgBouncer struct{ *Server }

// URL leads through the pooler to the database of the given URL, as the same user. The pooler asks for no password.
func (p *PgBouncer) URL(database string) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", errors.New("services: the database's URL cannot be read") // not the value: it may hold a password
	}
	u.Host = p.Addr()
	u.RawQuery = "sslmode=disable"
	return u.String(), nil
}

// StartPgBouncer starts a pooler in transaction mode before the server of a URL, with so many connections to each of its
// databases, and returns when it answers. It is the program of that name on PATH, or else Debian's package, unpacked into
// the cache; where neither can be had the error is [ErrNoPgBouncer]. ctx bounds the start alone. The caller closes it.
func StartPgBouncer(ctx context.Context, database string, connections int) (*PgBouncer, error) {
	return StartPgBouncerIn(ctx, "transaction", database, connections)
}

// StartPgBouncerIn is StartPgBouncer in another mode: session, transaction or statement.
func StartPgBouncerIn(ctx context.Context, mode, database string, connections int) (*PgBouncer, error) {
	to, err := pgx.ParseConfig(database)
	if err != nil {
		return nil, errors.New("services: the database's URL cannot be read")
	}
	binary, env, err := pgbouncerPackage.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPgBouncer, err)
	}
	cred, err := unprivileged() // it refuses to run as root, too
	if err != nil {
		return nil, err
	}
	uid := -1
	if cred != nil {
		uid = int(cred.Uid)
	}
	base, err := tempBase(uid)
	if err != nil {
		return nil, err
	}
	dir, err := newFolder(base)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	conf := filepath.Join(dir.path, "pgbouncer.ini")
	login := "user=" + to.User
	if to.Password != "" {
		login += " password=" + to.Password
	}
	text := fmt.Sprintf(`[databases]
* = host=%s port=%d %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = %d
max_client_conn = 500
`, to.Host, to.Port, login, ports[0], mode, connections)
	s := &Server{addr: loopback(ports[0]), folder: dir, stopSignal: syscall.SIGINT, killSignal: syscall.SIGKILL, command: command{
		name: "PgBouncer", path: binary, args: []string{conf}, dir: "/", log: filepath.Join(dir.path, "log"), cred: cred, env: env,
	}}
	s.ready = func(ctx context.Context) error { return askPgBouncer(ctx, database, s.addr) }
	if err = os.WriteFile(conf, []byte(text), 0o600); err == nil && cred != nil {
		err = os.Chown(conf, int(cred.Uid), int(cred.Gid)) // it may hold a password
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &PgBouncer{s}, nil
}

func askPgBouncer(ctx context.Context, database, addr string) error {
	through, err := (&PgBouncer{&Server{addr: addr}}).URL(database)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, through)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol)
	return errors.Join(err, conn.Close(ctx))
}

// pgbouncerPackage is PgBouncer, and the two libraries that are not on every machine.
var pgbouncerPackage = debian{
	packages: []string{"pgbouncer"}, needs: regexp.MustCompile(`lib(event|c-ares|cares)[^\s:]*`), binary: "usr/sbin/pgbouncer",
	installed: []string{"pgbouncer", "/usr/sbin/pgbouncer"},
}

package services

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoPgBouncer says that PgBouncer is not on this machine and cannot be fetched here, and why. It is wrapped in an error
// of one line.
var ErrNoPgBouncer = errors.New("services: no PgBouncer here: install it (Debian, Ubuntu: apt install pgbouncer; macOS: brew install pgbouncer)")

// PgBouncer is a pooler in transaction mode that belongs to the caller.
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
	to, err := pgx.ParseConfig(database)
	if err != nil {
		return nil, errors.New("services: the database's URL cannot be read")
	}
	binary, env, err := findPgBouncer(ctx)
	if err != nil {
		return nil, err
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
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
`, to.Host, to.Port, login, ports[0], connections)
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

// findPgBouncer returns the program, and what its environment needs.
func findPgBouncer(ctx context.Context) (path string, env []string, err error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil, nil
		}
	}
	root, err := unpackPgBouncer(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrNoPgBouncer, err)
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-*"))
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(root, "usr", "sbin", "pgbouncer"), []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}, nil
}

// downloadLimit bounds the download of a few hundred kilobytes.
const downloadLimit = time.Minute

// unpackPgBouncer has Debian's package, and the two libraries that are not on every machine, in a folder that every user
// can reach. Nothing is installed.
func unpackPgBouncer(ctx context.Context) (string, error) {
	final := filepath.Join(os.TempDir(), "ackledger-pgbouncer")
	if isDir(final) {
		return final, nil
	}
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	unlock, err := lockFile(ctx, final+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(final) {
		return final, nil
	}
	work, err := os.MkdirTemp(os.TempDir(), "ackledger-pgbouncer-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	out, err := toolOutput(ctx, work, "apt-cache", "depends", "pgbouncer")
	if err != nil {
		return "", err
	}
	packages := append([]string{"download", "pgbouncer"}, neededLibrary.FindAllString(string(out), -1)...)
	if _, err := toolOutput(ctx, work, "apt-get", packages...); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return "", err
	}
	into := filepath.Join(work, "unpacked")
	for _, deb := range found {
		if _, err := toolOutput(ctx, work, "dpkg-deb", "-x", deb, into); err != nil {
			return "", err
		}
	}
	return final, os.Rename(into, final)
}

// neededLibrary are the packages that pgbouncer needs and small machines lack.
var neededLibrary = regexp.MustCompile(`lib(event|c-ares|cares)[^\s:]*`)

func toolOutput(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.ReplaceAll(lastLines(out), "\n", "; "))
	}
	return out, nil
}

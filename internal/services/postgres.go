package services

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresOptions says what [StartPostgres] starts. The zero value is PostgreSQL 18 with the settings below.
type PostgresOptions struct {
	// Version is the major version, 14 to 18; 0 is 18. For who tests the oldest supported one, and those in between.
	Version int
	// Conf is added to postgresql.conf, where ALTER SYSTEM, ALTER DATABASE and SET may still override it. For who
	// tests against a setting, such as synchronous_commit=off. It wins over the defaults of this package:
	// max_connections=200, shared_buffers=128MB. fsync stays on.
	Conf map[string]string
	// TLS makes the server speak TLS with this certificate beside plain text. For who tests sslmode=verify-full.
	TLS *Identity
	// Dir is where the temporary folder of the data is made, instead of the system's place; its user must reach it. For
	// who tests a file system that fills up.
	Dir string
}

// PostgresServer is a PostgreSQL server that belongs to the caller.
type PostgresServer struct {
	*Server
	version int
}

// URL leads to the database postgres as the superuser postgres, without a password. A user's own URL may have parameters
// or none, and tests must work with both: that of version 14 has one, that of version 18 has none. A test adds its own
// with [WithParameter].
func (p *PostgresServer) URL() string {
	url := postgresURL(p.Addr())
	if p.version == 14 {
		url += "?sslmode=disable"
	}
	return url
}

func postgresURL(addr string) string { return "postgres://postgres@" + addr + "/postgres" }

// StartPostgres starts a server on a free loopback port with empty data in a temporary folder, and returns when it
// answers. ctx bounds the start alone. The caller closes the server; it also ends with this process.
//
// PostgreSQL refuses to run as root. For root it runs as the user nobody.
func StartPostgres(ctx context.Context, o PostgresOptions) (*PostgresServer, error) {
	b, err := postgresBundle(o.Version)
	if err != nil {
		return nil, err
	}
	binaries, err := fetch(ctx, b)
	if err != nil {
		return nil, err
	}
	cred, err := unprivileged()
	if err != nil {
		return nil, err
	}
	uid := -1
	if cred != nil {
		uid = int(cred.Uid)
	}
	base := o.Dir
	if base == "" {
		if base, err = tempBase(uid); err != nil {
			return nil, err
		}
	}
	dir, err := newFolder(base)
	if err != nil {
		return nil, err
	}
	server := &Server{folder: dir, stopSignal: syscall.SIGINT, killSignal: syscall.SIGQUIT, command: command{
		name: "PostgreSQL " + b.version, log: filepath.Join(dir.path, "log"), cred: cred,
	}}
	if err := setUpPostgres(ctx, server, binaries, o); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	if err := server.Start(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &PostgresServer{Server: server, version: o.Version}, nil
}

// setUpPostgres runs initdb and completes the server's command.
func setUpPostgres(ctx context.Context, s *Server, binaries string, o PostgresOptions) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	s.addr = loopback(ports[0])
	data := filepath.Join(s.folder.path, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if cred := s.command.cred; cred != nil {
		if err := os.Chown(data, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
		if binaries, err = reachableCopy(binaries, s.folder.path, cred); err != nil {
			return err
		}
	}
	s.command.dir = data
	initdb := s.command
	initdb.name += " initdb"
	initdb.path = filepath.Join(binaries, "bin", "initdb")
	initdb.args = []string{"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"}
	if err := runOnce(ctx, initdb); err != nil {
		return err
	}
	conf := maps.Clone(o.Conf)
	if o.TLS != nil {
		if conf, err = writeTLS(data, o.TLS, s.command.cred, conf); err != nil {
			return err
		}
	}
	if err := writeConf(filepath.Join(data, "postgresql.conf"), ports[0], conf); err != nil {
		return err
	}
	// postgres itself, not pg_ctl: pg_ctl would leave a daemon that does not end with us.
	s.command.path = filepath.Join(binaries, "bin", "postgres")
	s.command.args = []string{"-D", data}
	s.ready = func(ctx context.Context) error { return askPostgres(ctx, postgresURL(s.addr), data) }
	return nil
}

// writeTLS writes certificate and key where the server, and nobody else, reads them, and returns the settings that name
// them.
func writeTLS(data string, id *Identity, cred *syscall.Credential, conf map[string]string) (map[string]string, error) {
	all := map[string]string{"ssl": "on"}
	for setting, pem := range map[string][]byte{"ssl_cert_file": id.Cert, "ssl_key_file": id.Key} {
		path := filepath.Join(data, setting+".pem")
		if err := os.WriteFile(path, pem, 0o600); err != nil {
			return nil, err
		}
		if cred != nil {
			if err := os.Chown(path, int(cred.Uid), int(cred.Gid)); err != nil {
				return nil, err
			}
		}
		all[setting] = path
	}
	maps.Copy(all, conf)
	return all, nil
}

// writeConf appends the settings; the last one of a name counts.
func writeConf(path string, port int, conf map[string]string) error {
	settings := map[string]string{"max_connections": "200", "shared_buffers": "128MB"}
	maps.Copy(settings, conf)
	maps.Copy(settings, map[string]string{
		"port":                    strconv.Itoa(port),
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "", // a socket's path may be too long, and nobody needs it
	})
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "\n%s = '%s'", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text.String() + "\n")
	return errors.Join(err, f.Close())
}

// askPostgres is the first request: it also sees that this is our server and no stranger on the port.
func askPostgres(ctx context.Context, url, data string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	var got string
	err = conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&got)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return err
	}
	if filepath.Base(filepath.Dir(got)) != filepath.Base(filepath.Dir(data)) {
		return fmt.Errorf("another server answers, with its data in %s, not %s", got, data)
	}
	return nil
}

func postgresBundle(version int) (bundle, error) {
	if version == 0 {
		version = 18
	}
	env := EnvPostgres
	switch version {
	case 18:
	case 15, 16, 17: // no shared ones, so none is named in the environment
	case 14:
		env = EnvPostgres14
	default:
		return bundle{}, fmt.Errorf("services: PostgresOptions.Version: 14 to 18 are offered, got %d", version)
	}
	platform, err := postgresPlatform(version, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return bundle{}, err
	}
	b, err := loadBundle("postgres"+strconv.Itoa(version), env)
	b.props, b.finish = []string{"-Dplatform=" + platform}, unpackPostgres
	return b, err
}

// postgresPlatform names the artifact that holds the binaries. There is no PostgreSQL 14 for Apple's own processors:
// the one for amd64 runs there through Rosetta.
func postgresPlatform(version int, goos, goarch string) (string, error) {
	if version == 14 && goos == "darwin" {
		goarch = "amd64"
	}
	arch, known := map[string]string{"amd64": "amd64", "arm64": "arm64v8"}[goarch]
	if !known || goos != "linux" && goos != "darwin" {
		return "", fmt.Errorf("services: no PostgreSQL for %s/%s: name a running server in %s", goos, goarch, EnvPostgres)
	}
	return goos + "-" + arch, nil
}

// unprivileged is nil, or for root the user nobody.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("services: PostgreSQL refuses to run as root, and there is no user nobody: %w", err)
	}
	uid, uidErr := strconv.ParseInt(nobody.Uid, 10, 64) // -2 on macOS
	gid, gidErr := strconv.ParseInt(nobody.Gid, 10, 64)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("services: the ids of the user nobody: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// reachableCopy returns binaries if every user can reach them. Root's cache mostly lies where only root may enter: then
// it copies them into dir, for the given user.
func reachableCopy(binaries, dir string, cred *syscall.Credential) (string, error) {
	if reachable(binaries) {
		return binaries, nil
	}
	into := filepath.Join(dir, "postgres")
	err := os.CopyFS(into, os.DirFS(binaries))
	if err == nil {
		err = filepath.WalkDir(into, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, int(cred.Uid), int(cred.Gid))) // whatever the umask
		})
	}
	if err != nil {
		return "", fmt.Errorf("services: copy %s to where uid %d can reach it: %w", binaries, cred.Uid, err)
	}
	return into, nil
}

package services

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// EnvRedis is the address, host:port, of a Redis that tests may write to.
const EnvRedis = "ACKLEDGER_TEST_REDIS"

// ErrNoRedis says that Redis is not on this machine and cannot be fetched here, and why. It is wrapped in an error of one line.
var ErrNoRedis = errors.New("services: no Redis here: install it (Debian, Ubuntu: apt install redis-server; macOS: brew install redis), " +
	"or name a running one in " + EnvRedis)

// RedisServer is a Redis that belongs to the caller. It keeps its data in memory alone: a restart empties it.
type RedisServer struct{ *Server }

// redisPackage is Redis (the first package has a link to the second's program, which goes by its name), and the libraries that are not
// on every machine.
var redisPackage = debian{
	packages: []string{"redis-server", "redis-tools"}, needs: regexp.MustCompile(`lib(jemalloc|lzf|atomic)[^\s:]*`), binary: "usr/bin/redis-server",
	installed: []string{"redis-server"},
}

// StartRedis starts a Redis on a free loopback port, and returns when it answers. args are added to its command line, such as
// "--maxmemory", "4mb". It is the program of that name on PATH, or else Debian's package, unpacked into the temporary folder; where
// neither can be had the error is [ErrNoRedis]. ctx bounds the start alone. The caller closes it; it also ends with this process.
func StartRedis(ctx context.Context, args ...string) (*RedisServer, error) {
	binary, env, err := redisPackage.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRedis, err)
	}
	base, err := tempBase(-1)
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
	s := &Server{addr: loopback(ports[0]), folder: dir, stopSignal: syscall.SIGTERM, killSignal: syscall.SIGKILL, command: command{
		name: "Redis", path: binary, dir: dir.path, log: filepath.Join(dir.path, "log"), env: env,
		args: append([]string{"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--save", "", "--dir", dir.path}, args...),
	}}
	s.ready = func(ctx context.Context) error { return askRedis(ctx, s.addr) }
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &RedisServer{s}, nil
}

// Freeze stops the process (SIGSTOP): its connections stay, and nothing is answered until [RedisServer.Thaw].
func (r *RedisServer) Freeze() error { return r.signal(syscall.SIGSTOP) }

// Thaw lets the process go on.
func (r *RedisServer) Thaw() error { return r.signal(syscall.SIGCONT) }

func (r *RedisServer) signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return errors.New("services: Redis does not run")
	}
	return r.proc.signal(sig)
}

var ownRedis = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	server, err := StartRedis(ctx)
	if err != nil {
		return "", err
	}
	return server.Addr(), nil
})

// Redis returns the address of the shared Redis, or the one named in [EnvRedis]. Keys get a prefix of their own ([Name]). Where there is
// none ([ErrNoRedis]) the test is skipped.
func Redis(tb testing.TB) string {
	tb.Helper()
	addr, named := fromEnv(tb, EnvRedis)
	if !named {
		addr, err := ownRedis()
		if errors.Is(err, ErrNoRedis) {
			tb.Skip(err)
		}
		if err != nil {
			tb.Fatal(err)
		}
		return addr
	}
	if err := askRedis(tb.Context(), addr); err != nil {
		tb.Fatalf("services: %s=%s: %v", EnvRedis, addr, err)
	}
	return addr
}

// askRedis is the first request: PING, as a line.
func askRedis(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("PING is answered with %q", line)
	}
	return err
}

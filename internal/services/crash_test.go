package services

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A test process that is killed (a timeout of go test, an impatient developer) leaves no server on its port, and its
// data goes with the next server that starts.
func TestKilledProcessLeavesNoServer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postgres", "elasticmq"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proc, line := child(t, name)
			addr, folder, _ := strings.Cut(line, " ")
			if !listening(addr) {
				t.Fatalf("the child's server does not listen on %s", addr)
			}
			if err := sweepFolders(filepath.Dir(folder)); err != nil || !isDir(folder) {
				t.Fatalf("the folder of a living process was swept (%v)", err)
			}
			if err := proc.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, addr+" is closed", func() bool { return !listening(addr) })
			eventually(t, folder+" is swept", func() bool {
				if err := sweepFolders(filepath.Dir(folder)); err != nil {
					t.Fatal(err)
				}
				return !isDir(folder)
			})
		})
	}
}

// The signal on the parent's death is sent when the forking THREAD ends. A goroutine that ends while locked to its
// thread ends the thread: forked from there, the server would die under a living process.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux alone has a signal on the parent's death")
	}
	var p *process
	var tid int
	var err error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		tid = syscall.Gettid()
		p, err = launch(command{name: "sleep", path: "/bin/sleep", args: []string{"1000"}, log: filepath.Join(t.TempDir(), "log")})
	}()
	<-asked
	if err != nil {
		t.Fatal(err)
	}
	thread := "/proc/self/task/" + strconv.Itoa(tid)
	if tid == os.Getpid() { // Go keeps the main thread
		t.Skip("the goroutine ran on the main thread, which never ends")
	}
	eventually(t, "the thread has ended", func() bool { _, err := os.Stat(thread); return err != nil })
	// The kernel has sent its signal by now, if it sends one; a killed process is a zombie until it is waited for.
	if !alive(p.cmd.Process.Pid) || !p.running() {
		<-p.done
		t.Fatalf("the process ended with the thread: %v", p.exit())
	}
	if err := p.end(syscall.SIGTERM, stopGrace); err != nil || p.running() {
		t.Fatalf("end: %v", err)
	}
}

// What stands in for the kernel's signal on other systems.
func TestGuard(t *testing.T) {
	t.Run("kills when the parent is killed", func(t *testing.T) {
		parent, line := child(t, "guard")
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); err != nil {
			t.Fatalf("the guarded process does not run: %v", err)
		}
		if err := parent.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the guarded process is gone", func() bool { return !alive(pid) })
	})
	t.Run("released, it kills nothing", func(t *testing.T) {
		sleep := exec.Command("sleep", "1000")
		if err := sleep.Start(); err != nil {
			t.Fatal(err)
		}
		release, err := guard(sleep.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := release(); err != nil { // waits for the shell
			t.Fatal(err)
		}
		if !alive(sleep.Process.Pid) {
			t.Error("the released guard killed the process")
		}
		if err := sleep.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := sleep.Wait(); err == nil {
			t.Error("sleep ended by itself")
		}
	})
}

// alive is false for a zombie, too: an orphan's new parent may be slow to collect it.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// debian is a server that comes from Debian's packages: it is the program that is installed, or else that of the packages, which are
// unpacked into the temporary folder. Nothing is installed.
type debian struct {
	packages  []string
	needs     *regexp.Regexp // of the packages' dependencies: libraries that small machines lack
	binary    string         // where the packages have the program
	installed []string       // names and paths of the installed one
}

// downloadLimit bounds the download of a few megabytes.
const downloadLimit = time.Minute

// find returns the program, and what its environment needs.
func (d *debian) find(ctx context.Context) (path string, env []string, err error) {
	for _, name := range d.installed {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil, nil
		}
	}
	root, err := d.unpack(ctx)
	if err != nil {
		return "", nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-*"))
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(root, filepath.FromSlash(d.binary)), []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}, nil
}

// unpack has the packages and the libraries in a folder that every user can reach.
func (d *debian) unpack(ctx context.Context) (string, error) {
	final := filepath.Join(os.TempDir(), "ackledger-"+d.packages[0])
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
	work, err := os.MkdirTemp(os.TempDir(), "ackledger-"+d.packages[0]+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	out, err := toolOutput(ctx, work, "apt-cache", append([]string{"depends"}, d.packages...)...)
	if err != nil {
		return "", err
	}
	packages := append([]string{"download"}, d.packages...)
	if _, err := toolOutput(ctx, work, "apt-get", append(packages, d.needs.FindAllString(string(out), -1)...)...); err != nil {
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

func toolOutput(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.ReplaceAll(lastLines(out), "\n", "; "))
	}
	return out, nil
}

package services

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// downloadNPM has npm install what the lock file names into work, by its checksums, and returns the folder of packages. Scripts of
// packages do not run.
func downloadNPM(ctx context.Context, b bundle, work string) (string, error) {
	if err := needTools(b.env, toolNPM); err != nil {
		return "", err
	}
	for name, text := range b.npm {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return "", err
		}
	}
	args := []string{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = work
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, lastLines(out))
	}
	return filepath.Join(work, "node_modules"), nil
}

// oneBinary finds the one program of this name among the packages: npm installs what is for this platform alone.
func oneBinary(name string) func(packages, into string) error {
	return func(packages, into string) error {
		var found []string
		err := filepath.WalkDir(packages, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && d.Name() == name {
				found = append(found, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(found) != 1 {
			return fmt.Errorf("want one program %s for this platform in %s, got %v", name, packages, found)
		}
		final := filepath.Join(into, name)
		return errors.Join(os.Rename(found[0], final), os.Chmod(final, 0o755))
	}
}

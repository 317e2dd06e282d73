package services

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestMissingIsNotedOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "missing")
	if lines, err := ReadMissing(file); err != nil || len(lines) > 0 {
		t.Errorf("before: %q, %v", lines, err)
	}
	for _, text := range []string{"b", "a", "b"} {
		if err := noteMissing(file, text); err != nil {
			t.Fatal(err)
		}
	}
	if lines, err := ReadMissing(file); err != nil || !slices.Equal(lines, []string{"a", "b"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if err := noteMissing("", "nobody asks"); err != nil {
		t.Error(err)
	}
}

package services

import (
	"context"
	"os"
	"path/filepath"
)

// AxeCore returns the path of axe-core's script (MPL-2.0), which finds what people cannot read or reach on a page. npm fetches it into
// the cache; it is not part of this module. The error is a [*MissingToolError] where npm is not there.
func AxeCore(ctx context.Context) (string, error) {
	const script = "axe.min.js"
	b, err := loadNPM("axecore", "PATH")
	if err != nil {
		return "", err
	}
	b.finish = func(packages, into string) error {
		return os.Rename(filepath.Join(packages, "axe-core", script), filepath.Join(into, script))
	}
	folder, err := fetch(ctx, b)
	return filepath.Join(folder, script), err
}

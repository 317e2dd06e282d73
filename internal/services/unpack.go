package services

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"
)

// unpackPostgres finds the one jar in jars, in it the one .txz (a tar archive packed with xz), and unpacks that.
func unpackPostgres(jars, into string) error {
	found, err := filepath.Glob(filepath.Join(jars, "*.jar"))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("want 1 jar in %s, got %d", jars, len(found))
	}
	jar, err := zip.OpenReader(found[0])
	if err != nil {
		return err
	}
	defer jar.Close()
	for _, f := range jar.File {
		if path.Ext(f.Name) != ".txz" {
			continue
		}
		packed, err := f.Open()
		if err != nil {
			return err
		}
		plain, err := xz.NewReader(packed)
		if err == nil {
			err = untar(plain, into)
		}
		return errors.Join(err, packed.Close())
	}
	return fmt.Errorf("%s holds no .txz", found[0])
}

// untar unpacks folders, files and symbolic links below dir. Nothing is written outside of it (os.Root).
func untar(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = writeFile(root, name, h, archive)
		default:
			err = fmt.Errorf("entry %q has the unexpected type %q", h.Name, h.Typeflag)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

func writeFile(root *os.Root, name string, h *tar.Header, r io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode().Perm()|0o644)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, r, h.Size)
	return errors.Join(err, f.Close())
}

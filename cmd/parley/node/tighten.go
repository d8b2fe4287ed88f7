package node

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// tighten takes from everybody else the access to a data directory that a release before, or who made the directory, gave. What is
// written from now on is private by the process's mask. What does not let itself be changed (a volume may belong to somebody
// else) is told, and is no reason not to serve.
func (n *Node) tighten(dir string) {
	root, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // it is made now
	}
	if err == nil {
		err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err == nil {
				err = makePrivate(name, entry)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				n.log.Warn("access to a file of the data directory cannot be restricted", slog.String("file", name), slog.Any("err", err))
			}
			return nil
		})
	}
	if err != nil {
		n.log.Warn("access to the data directory cannot be restricted", slog.String("file", dir), slog.Any("err", err))
	}
}

// makePrivate lets the owner alone use a file or directory. Of a link only the target would be changed, which is elsewhere.
func makePrivate(name string, entry fs.DirEntry) error {
	taken := fs.FileMode(0o177)
	switch {
	case entry.IsDir():
		taken = 0o077
	case !entry.Type().IsRegular():
		return nil
	}
	info, err := entry.Info()
	if err != nil || info.Mode()&taken == 0 {
		return err
	}
	return os.Chmod(name, info.Mode()&^taken)
}

package node

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// tighten restricts the files of a data directory to their owner: an earlier release, or whoever made the directory, may have left
// them readable to others. New files are private by the process's umask. What cannot be changed (a volume may belong to another
// user) is logged and does not keep the node from serving.
func (n *Node) tighten(dir string) {
	root, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // it will be created
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

// makePrivate restricts a file or directory to its owner. Links are skipped: chmod would change their target, which is elsewhere.
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

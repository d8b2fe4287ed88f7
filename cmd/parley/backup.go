package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"parley/actors/core/feature"
	"parley/cmd/parley/node"
	"parley/persistence"
)

// takeBackup writes a backup of a running cluster to a file.
func takeBackup(ctx context.Context, args []string, s surroundings) int {
	flags := flag.NewFlagSet("backup", flag.ContinueOnError)
	from := operatorFlags(flags)
	to := flags.String("out", "", "`FILE` to write; must not exist (required)")
	if _, err := parse(flags, args, s, operands{}); err != nil {
		return ended(s, err)
	}
	if *to == "" {
		fmt.Fprintln(s.stderr, "parley backup: --out is required")
		return exitUsage
	}
	return ended(s, backupTo(ctx, from, *to, s.stdout))
}

func backupTo(ctx context.Context, from *operator, name string, w io.Writer) (err error) {
	if _, err = os.Lstat(name); err == nil {
		return fmt.Errorf("%s exists", name)
	}
	draft, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, draft.Close(), os.Remove(draft.Name()))
		}
	}()
	body, err := from.call(ctx, http.MethodGet, "/v1/backup")
	if err != nil {
		return err
	}
	size, err := io.Copy(draft, body)
	_ = body.Close()
	if err != nil {
		return fmt.Errorf("the backup broke off: %w", err)
	}
	manifest, err := checkBackup(draft, size)
	if err != nil {
		return fmt.Errorf("the backup broke off: %w", err)
	}
	if err = draft.Sync(); err != nil {
		return err
	}
	if err = draft.Close(); err != nil {
		return err
	}
	if err = os.Rename(draft.Name(), name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: cluster %s, %d shards, %.1f MiB, taken in %s\n",
		name, manifest.ClusterID, manifest.Shards, float64(size)/(1<<20), manifest.Ended.Sub(manifest.Begun).Round(time.Millisecond))
	return err
}

// maxManifest bounds the size of a manifest.
const maxManifest = 16 << 20

// readManifest reads the manifest of a backup, with an error if the file is not one.
func readManifest(file *zip.Reader) (*node.Manifest, error) {
	text, err := file.Open(node.ManifestName)
	if err != nil {
		return nil, fmt.Errorf("it is no backup, or not a whole one: %w", err)
	}
	defer text.Close() //nolint:errcheck // only read
	manifest := &node.Manifest{}
	if err := json.NewDecoder(io.LimitReader(text, maxManifest)).Decode(manifest); err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	switch {
	case manifest.Level > uint32(feature.Newest):
		return nil, fmt.Errorf("this release has feature level %d, the backup is at level %d: restore it with a newer release", feature.Newest, manifest.Level)
	case manifest.Format < 1 || manifest.Format > node.BackupFormat:
		return nil, fmt.Errorf("it has format %d, this version reads up to %d", manifest.Format, node.BackupFormat)
	case manifest.Shards < 1 || len(manifest.Parts) != manifest.Shards+1:
		return nil, fmt.Errorf("its manifest names %d parts of %d shards and the directory", len(manifest.Parts), manifest.Shards)
	}
	return manifest, nil
}

// checkBackup verifies the checksum of every part.
func checkBackup(r io.ReaderAt, size int64) (*node.Manifest, error) {
	file, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("it is no backup, or not a whole one: %w", err)
	}
	manifest, err := readManifest(file)
	if err != nil {
		return nil, err
	}
	for i := range manifest.Parts {
		part := &manifest.Parts[i]
		if part.Group != uint32(i) || part.File != node.PartName(part.Group) {
			return nil, fmt.Errorf("its manifest names %s where shard %d should be", part.File, i)
		}
		if err := checkPart(file, part); err != nil {
			return nil, fmt.Errorf("%s: %w", part.File, err)
		}
	}
	return manifest, nil
}

func checkPart(file *zip.Reader, part *node.Part) error {
	stream, err := file.Open(part.File)
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, stream); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != part.SHA256 {
		return fmt.Errorf("its checksum is %s, the manifest says %s", got, part.SHA256)
	}
	return nil
}

// restore makes a data directory from a backup.
func restore(ctx context.Context, args []string, s surroundings) int {
	flags := flag.NewFlagSet("restore", flag.ContinueOnError)
	from := flags.String("from", "", "`FILE` of parley backup (required)")
	to := flags.String("data-dir", "", "`DIR`ectory to make: new or empty (required)")
	if _, err := parse(flags, args, s, operands{}); err != nil {
		return ended(s, err)
	}
	if *from == "" || *to == "" {
		fmt.Fprintln(s.stderr, "parley restore: --from and --data-dir are required")
		return exitUsage
	}
	return ended(s, restoreFrom(ctx, *from, *to, s.stdout))
}

func restoreFrom(ctx context.Context, name, dir string, w io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	manifest, err := checkBackup(file, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	parts, err := zip.NewReader(file, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	identity, err := persistence.Restore(ctx, persistence.Options{Dir: dir, Level: manifest.Level}, manifest.Shards, func(group uint32) (io.ReadCloser, error) {
		return parts.Open(node.PartName(group))
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	_, err = fmt.Fprintf(w, `%s holds the state of cluster %s as of %s, as a new cluster: %s
Start its first node on it, then let others join with empty data directories:

  parley serve --data-dir %s
`, dir, manifest.ClusterID, manifest.Begun.Local().Format(time.DateTime), identity.ClusterID, dir)
	return err
}

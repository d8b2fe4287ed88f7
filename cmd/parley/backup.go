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
	"parley/cmd/parley/progress"
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
	return ended(s, backupTo(ctx, from, *to, s))
}

func backupTo(ctx context.Context, from *operator, name string, s surroundings) (err error) {
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
	shown := progress.New(s.stderr, progress.Bytes)
	defer shown.Close()
	shown.Begin(progress.Phase{Name: "copying", Total: from.stateBytes(ctx)})
	body, err := from.call(ctx, http.MethodGet, "/v1/backup")
	if err != nil {
		return err
	}
	size, err := io.Copy(draft, shown.Reader(body))
	_ = body.Close()
	if err != nil {
		return fmt.Errorf("the backup broke off: %w", err)
	}
	manifest, err := checkBackup(draft, size, shown)
	shown.Close()
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
	_, err = fmt.Fprintf(s.stdout, "%s: cluster %s, %d shards, %.1f MiB, taken in %s\n",
		name, manifest.ClusterID, manifest.Shards, float64(size)/(1<<20), manifest.Ended.Sub(manifest.Begun).Round(time.Millisecond))
	return err
}

// stateBytes is how much state the cluster holds: about as much as its backup, but for the directory and the framing. 0 = unknown.
func (o *operator) stateBytes(ctx context.Context) (sum int64) {
	found, _, err := o.status(ctx)
	if err != nil {
		return 0
	}
	for i := range found.Shards {
		sum += int64(found.Shards[i].Bytes)
	}
	return sum
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
func checkBackup(r io.ReaderAt, size int64, shown *progress.Bar) (*node.Manifest, error) {
	file, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("it is no backup, or not a whole one: %w", err)
	}
	manifest, err := readManifest(file)
	if err != nil {
		return nil, err
	}
	shown.Begin(progress.Phase{Name: "checking", Total: sizeOf(manifest)})
	for i := range manifest.Parts {
		part := &manifest.Parts[i]
		if part.Group != uint32(i) || part.File != node.PartName(part.Group) {
			return nil, fmt.Errorf("its manifest names %s where shard %d should be", part.File, i)
		}
		if err := checkPart(file, part, shown); err != nil {
			return nil, fmt.Errorf("%s: %w", part.File, err)
		}
	}
	return manifest, nil
}

// sizeOf is the size of all parts.
func sizeOf(manifest *node.Manifest) (sum int64) {
	for i := range manifest.Parts {
		sum += manifest.Parts[i].Size
	}
	return sum
}

func checkPart(file *zip.Reader, part *node.Part, shown *progress.Bar) error {
	stream, err := file.Open(part.File)
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, shown.Reader(stream)); err != nil {
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
	return ended(s, restoreFrom(ctx, *from, *to, s))
}

func restoreFrom(ctx context.Context, name, dir string, s surroundings) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	shown := progress.New(s.stderr, progress.Bytes)
	defer shown.Close()
	manifest, err := checkBackup(file, info.Size(), shown)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	parts, err := zip.NewReader(file, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	shown.Begin(progress.Phase{Name: "restoring", Total: sizeOf(manifest)})
	identity, err := persistence.Restore(ctx, persistence.Options{Dir: dir, Level: manifest.Level}, manifest.Shards, func(group uint32) (io.ReadCloser, error) {
		part, failed := parts.Open(node.PartName(group))
		if failed != nil {
			return nil, failed
		}
		return counted{shown.Reader(part), part}, nil
	})
	shown.Close()
	if err != nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	_, err = fmt.Fprintf(s.stdout, `%s holds the state of cluster %s as of %s, as a new cluster: %s
Start its first node on it, then let others join with empty data directories:

  parley serve --data-dir %s
`, dir, manifest.ClusterID, manifest.Begun.Local().Format(time.DateTime), identity.ClusterID, dir)
	return err
}

// counted is a part of a backup whose reading is shown.
type counted struct {
	io.Reader
	io.Closer
}

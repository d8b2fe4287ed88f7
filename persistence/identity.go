package persistence

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DirFormat is the newest format of a data directory as a whole that this release knows: which files it has, and what they mean
// together.
const DirFormat = 2

// Releases that know nothing of feature levels look at the format only, and those that brought them know no other format than the
// first. So a directory has the first one up to the level of the latter, and the second one above it, which both refuse.
const (
	firstFormat      = 1
	firstFormatLevel = 1
)

// FormatAt is the format of a directory whose data may make use of a feature level.
func FormatAt(level uint32) int {
	if level <= firstFormatLevel {
		return firstFormat
	}
	return DirFormat
}

// Files of a data directory. identityDraft exists only while a directory is being created. A crash leaves it behind;
// nothing has been acknowledged by then, so creation starts over. restoreDraft marks a restore in progress in the same
// way, so that half a restore is not taken for an empty directory.
const (
	identityName  = "IDENTITY"
	identityDraft = "IDENTITY.new"
	identityLevel = "IDENTITY.level" // the next identity, with a higher level; its last step is to be renamed
	restoreDraft  = "IDENTITY.restore"
	lockName      = "LOCK"
	spoolDir      = "snapshots"
	identityTitle = "parley data directory"
	maxIdentity   = 4 << 10
)

// identityRecord is the JSON line of the identity file.
type identityRecord struct {
	Format    int    `json:"format"`
	ClusterID string `json:"cluster_id"`
	NodeID    uint64 `json:"node_id"`
	Shards    int    `json:"shards"`
	Level     uint32 `json:"level,omitempty"`
}

// dataDir is a data directory that this process has locked and whose identity it knows.
type dataDir struct {
	fs       vfs.FS
	dir      string
	lock     io.Closer
	identity Identity
	isNew    bool
	drafted  string // name of the draft: identityDraft, or restoreDraft of a restore
}

// PeekIdentity reads the identity of a data directory, without locking or changing it. found is false for a directory
// that is empty, does not exist, or was never completed. The error is ErrRefused for one that Open would refuse.
func PeekIdentity(dir string) (id Identity, found bool, err error) {
	d := &dataDir{fs: vfs.Default, dir: dir, drafted: identityDraft}
	if _, err = d.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return Identity{}, false, nil
	}
	found, err = d.inspect()
	return d.identity, found, err
}

// NewNodeID returns a random number for a new node.
func NewNodeID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])>>1 | 1
}

// openDir locks a data directory and reads its identity, or writes a new one to the draft file in an empty directory.
// It inspects the directory before it changes anything.
func openDir(o Options, draft string) (_ *dataDir, err error) {
	d := &dataDir{fs: o.FS, dir: o.Dir, drafted: draft}
	if err = makeDir(o.FS, o.Dir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if _, err = d.inspect(); err != nil {
		return nil, err
	}
	d.lock, err = o.FS.Lock(d.path(lockName))
	if err != nil {
		return nil, fmt.Errorf("%w: %s is in use by another process (%s is locked): %w", ErrRefused, o.Dir, lockName, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.lock.Close())
		}
	}()
	found, err := d.inspect()
	if err != nil {
		return nil, err
	}
	if !found {
		return d, d.draft(o)
	}
	switch {
	case draft == restoreDraft:
		return nil, fmt.Errorf("%w: %s holds data; a backup is restored into an empty directory", ErrRefused, o.Dir)
	case o.ClusterID != "" && o.ClusterID != d.identity.ClusterID:
		return nil, fmt.Errorf("%w: %s belongs to cluster %s, this is cluster %s; correct the setting, or choose an empty directory",
			ErrRefused, o.Dir, d.identity.ClusterID, o.ClusterID)
	case o.Shards != 0 && o.Shards != d.identity.Shards:
		return nil, fmt.Errorf("%w: %s was made with %d shards, configured are %d; the number is fixed when a directory is made: set it to %d, or choose an empty directory",
			ErrRefused, o.Dir, d.identity.Shards, o.Shards, d.identity.Shards)
	case o.NodeID != 0 && o.NodeID != d.identity.NodeID:
		return nil, fmt.Errorf("%w: %s belongs to node %d, configured is %d; a node keeps its directory: correct the setting, or choose an empty directory",
			ErrRefused, o.Dir, d.identity.NodeID, o.NodeID)
	}
	return d, nil
}

func (d *dataDir) path(name string) string { return d.fs.PathJoin(d.dir, name) }

// inspect reads the identity if there is one, and otherwise checks that the directory is empty.
func (d *dataDir) inspect() (found bool, err error) {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return false, fmt.Errorf("list data directory: %w", err)
	}
	if slices.Contains(names, identityName) {
		data, err := readFile(d.fs, d.path(identityName))
		if err != nil {
			return false, fmt.Errorf("%w: %s: %w", ErrRefused, d.path(identityName), err)
		}
		d.identity, err = decodeIdentity(data)
		if err != nil {
			return false, fmt.Errorf("%w: %s: %w", ErrRefused, d.path(identityName), err)
		}
		return true, nil
	}
	unfinished := slices.Contains(names, d.drafted)
	for _, name := range names {
		switch name {
		case lockName, reserveName, identityDraft, "lost+found":
		case restoreDraft:
			if d.drafted != restoreDraft {
				return false, fmt.Errorf("%w: %s holds a backup that was not restored to its end; restore it again, or choose an empty directory",
					ErrRefused, d.dir)
			}
		case engineDir, spoolDir:
			if !unfinished {
				return false, fmt.Errorf("%w: %s holds data but no %s file; restore that file from a backup, or choose an empty directory",
					ErrRefused, d.dir, identityName)
			}
		default:
			return false, fmt.Errorf("%w: %s is not empty and no data directory of parley (it holds %q); choose an empty directory",
				ErrRefused, d.dir, name)
		}
	}
	return false, nil
}

// draft gives the directory a new identity, which takes effect with settle.
func (d *dataDir) draft(o Options) error {
	d.isNew = true
	d.identity = Identity{ClusterID: o.ClusterID, NodeID: o.NodeID, Shards: o.Shards, Format: FormatAt(o.Level), Level: o.Level}
	if d.identity.ClusterID == "" {
		d.identity.ClusterID = rand.Text()
	}
	if d.identity.Shards == 0 {
		d.identity.Shards = defaultShards
	}
	if d.identity.NodeID == 0 {
		d.identity.NodeID = NewNodeID()
	}
	// The draft is durable before there is data: data without it would be refused at the next start.
	err := writeFile(d.fs, d.path(d.drafted), encodeIdentity(d.identity))
	if err == nil {
		err = syncDir(d.fs, d.dir)
	}
	if err == nil {
		err = errors.Join(d.fs.RemoveAll(d.path(engineDir)), d.fs.RemoveAll(d.path(spoolDir)))
	}
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// settle makes a new directory's identity final. Everything else must be in place.
func (d *dataDir) settle() error {
	if !d.isNew {
		return nil
	}
	err := syncDir(d.fs, d.dir)
	if err == nil {
		err = d.fs.Rename(d.path(d.drafted), d.path(identityName))
	}
	if err == nil {
		err = syncDir(d.fs, d.dir)
	}
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// encodeIdentity returns three lines: title, JSON, and a checksum of both. It is text, so that an operator can read it.
func encodeIdentity(id Identity) []byte {
	line, _ := json.Marshal(identityRecord{
		Format: id.Format, ClusterID: id.ClusterID, NodeID: id.NodeID, Shards: id.Shards, Level: id.Level,
	}) // plain fields marshal
	text := identityTitle + "\n" + string(line) + "\n"
	return fmt.Appendf(nil, "%scrc32c %08x\n", text, checksum([]byte(text)))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func decodeIdentity(data []byte) (Identity, error) {
	title, rest, _ := bytes.Cut(data, []byte("\n"))
	if string(title) != identityTitle {
		return Identity{}, errors.New("not an identity file of parley; choose another directory")
	}
	line, sum, ok := bytes.Cut(rest, []byte("\n"))
	covered := len(title) + 1 + len(line) + 1
	if !ok || string(sum) != fmt.Sprintf("crc32c %08x\n", checksum(data[:covered])) {
		return Identity{}, errors.New("damaged (checksum does not match); restore it from a backup")
	}
	var r identityRecord
	if err := json.Unmarshal(line, &r); err != nil {
		return Identity{}, fmt.Errorf("damaged: %w; restore it from a backup", err)
	}
	switch {
	case r.Format > DirFormat:
		return Identity{}, fmt.Errorf("written by a newer release (format %d, this one knows %d); run that release, or restore a backup from before it into an empty directory", r.Format, DirFormat)
	case r.Format < 1 || r.ClusterID == "" || r.NodeID == 0 || r.Shards < 1 || r.Shards > maxShards:
		return Identity{}, errors.New("damaged (a field is missing or out of range); restore it from a backup")
	}
	return Identity{ClusterID: r.ClusterID, NodeID: r.NodeID, Shards: r.Shards, Format: r.Format, Level: r.Level}, nil
}

func readFile(fsys vfs.FS, path string) (_ []byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxIdentity))
}

func writeFile(fsys vfs.FS, path string, data []byte) (err error) {
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(fsys vfs.FS, dir string) error {
	f, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDir durably creates a directory and its missing parents.
func makeDir(fsys vfs.FS, dir string) error {
	var missing []string
	for at := dir; ; at = fsys.PathDir(at) {
		_, err := fsys.Stat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, at)
		if at == fsys.PathDir(at) {
			break
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, at := range missing {
		parent := fsys.PathDir(at)
		if strings.TrimSpace(parent) == "" {
			continue
		}
		if err := syncDir(fsys, parent); err != nil {
			return err
		}
	}
	return nil
}

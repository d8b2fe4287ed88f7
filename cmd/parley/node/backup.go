package node

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"parley/actors/core/failure"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/persistence/backup"
	"parley/proto/failurepb"
)

// A backup is a zip file: a stream for each shard as package persistence/backup writes it, then a manifest. A file without a
// manifest is incomplete.
const (
	// BackupFormat is the newest format of the file as a whole that this release knows. It goes with the feature level as the format
	// of a data directory does: releases that do not look at the level refuse the second one.
	BackupFormat = persistence.DirFormat
	// ManifestName is the manifest's name in the file.
	ManifestName = "manifest.json"
)

// Manifest describes the contents of a backup.
type Manifest struct {
	Format    int       `json:"format"`
	Level     uint32    `json:"level,omitempty"` // feature level of the cluster: a release that has a lower one must not restore it
	ClusterID string    `json:"cluster_id"`
	Shards    int       `json:"shards"` // conversation shards; the directory is one more part
	Begun     time.Time `json:"begun"`
	Ended     time.Time `json:"ended"`
	Parts     []Part    `json:"parts"`
}

// Part is a snapshot of one shard. Snapshots of different shards are taken at different times.
type Part struct {
	persistence.BackupInfo
	File   string `json:"file"`
	SHA256 string `json:"sha256"` // of the part's stream
	Size   int64  `json:"size"`
}

// PartName is the name of a shard's copy in a backup.
func PartName(group uint32) string { return fmt.Sprintf("shards/%04d", group) }

// backup writes a backup of the whole cluster.
func (n *Node) backup(ctx context.Context, w io.Writer) error {
	if n.storeIfOpen() == nil {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.NodeStarting)
	}
	identity := n.store.Identity()
	manifest := Manifest{ClusterID: identity.ClusterID, Shards: identity.Shards, Begun: time.Now().UTC()}
	file := zip.NewWriter(w)
	for group := range uint32(identity.Shards) + 1 {
		part, err := n.backupPart(ctx, file, group)
		if err != nil {
			return fmt.Errorf("shard %d: %w", group, err)
		}
		manifest.Parts = append(manifest.Parts, part)
	}
	manifest.Ended = time.Now().UTC()
	manifest.Level = uint32(n.features.Level())
	manifest.Format = persistence.FormatAt(manifest.Level)
	entry, err := file.Create(ManifestName)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	encoder := json.NewEncoder(entry)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(manifest); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	n.log.Info("backup was taken", slog.Duration("took", manifest.Ended.Sub(manifest.Begun)))
	return file.Close()
}

// backupPart copies one shard from its owner and verifies the stream.
func (n *Node) backupPart(ctx context.Context, file *zip.Writer, group uint32) (part Part, err error) {
	stream, err := n.openBackup(ctx, group)
	if err != nil {
		return Part{}, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	part.File = PartName(group)
	entry, err := file.Create(part.File)
	if err != nil {
		return Part{}, err
	}
	sum := sha256.New()
	size := &counter{}
	_, part.BackupInfo, err = backup.Verify(io.TeeReader(stream, io.MultiWriter(entry, sum, size)))
	part.SHA256, part.Size = hex.EncodeToString(sum.Sum(nil)), size.n
	return part, err
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// ownerWait is how long a backup waits for a shard without an owner.
const ownerWait = 5 * time.Second

// openBackup opens the stream of a shard once that has an owner that answers.
func (n *Node) openBackup(ctx context.Context, group uint32) (io.ReadCloser, error) {
	const pause = 50 * time.Millisecond
	for deadline := time.Now().Add(ownerWait); ; {
		stream, err := n.openBackupNow(ctx, group)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return stream, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// openBackupNow opens the stream of a shard, locally or from another node.
func (n *Node) openBackupNow(ctx context.Context, group uint32) (io.ReadCloser, error) {
	owner, known := n.owners.Owner(shard.ID(group))
	switch {
	case !known:
		return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.ShardWithoutOwner).Param("shard", group)
	case owner.Node == n.config.Node.Name:
		r, w := io.Pipe()
		go func() {
			_, err := n.store.Backup(ctx, group, w)
			_ = w.CloseWithError(err) // the reader gets the error
		}()
		return r, nil
	}
	id, known := n.nodeNamed(owner.Node)
	if !known {
		return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.NodeNotKnown).Param("node", owner.Node)
	}
	request, err := json.Marshal(fetchRequest{Backup: &group})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return n.links.peers.Fetch(ctx, id, request)
}

// fetchRequest asks another node for a stream.
type fetchRequest struct {
	Backup *uint32 `json:"backup"` // of the shard
}

// serveFetch answers another node's request for a stream.
func (n *Node) serveFetch(ctx context.Context, from uint64, request []byte, w io.Writer) error {
	var r fetchRequest
	store := n.storeIfOpen()
	if err := json.Unmarshal(request, &r); err != nil || r.Backup == nil || store == nil {
		return fmt.Errorf("this node cannot answer %.100q now", request)
	}
	n.log.Info("a shard is copied for another node", slog.Uint64("shard", uint64(*r.Backup)), slog.Uint64("for", from))
	_, err := store.Backup(ctx, *r.Backup, w)
	return err
}

func (n *Node) nodeNamed(name string) (uint64, bool) {
	for _, m := range n.links.membersKnown() {
		if m.Name == name {
			return m.Node, true
		}
	}
	return 0, false
}

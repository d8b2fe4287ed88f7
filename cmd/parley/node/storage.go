package node

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"time"

	"parley/actors/core/feature"
	"parley/actors/turn"
	"parley/cluster"
	"parley/cluster/shard"
	"parley/cmd/parley/node/configure"
	"parley/cmd/parley/node/files"
	"parley/cmd/parley/node/ids"
	"parley/persistence"
	"parley/proto/conversationpb"
)

// turnFiles opens whole files by id, for turns.
type turnFiles struct{ node *Node }

// Open reads a committed file.
func (t turnFiles) Open(ctx context.Context, fileID string) (io.ReadCloser, error) {
	f := t.node.storage.files // set before any turn runs
	file, err := f.File(ctx, fileID)
	if err != nil {
		return nil, err
	}
	return f.Open(ctx, file, 0, -1)
}

// imageTime is how long an image of a tool is kept for a turn that does not end.
const imageTime = 7 * 24 * time.Hour

// Keep stores an image of a tool as a file of the turn's conversation that nobody lists.
func (t turnFiles) Keep(ctx context.Context, job *turn.Job, mimeType string, data []byte) (*conversationpb.FileRef, error) {
	now := time.Now()
	file := &conversationpb.File{
		Id: ids.New(t.node.shards).NewIDFor("file", job.ConversationID), Name: "image", MimeType: mimeType, Size: int64(len(data)),
		ConversationId: job.ConversationID, TenantId: job.TenantID, ProjectId: job.ProjectID, UserId: job.UserID,
		CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(imageTime).UnixMilli(),
	}
	f := t.node.storage.files // set before any turn runs
	stored, err := f.Store(ctx, file.GetId(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	return file.Ref(), f.Commit(ctx, file, stored)
}

// Drop implements turn.Images.
func (t turnFiles) Drop(ctx context.Context, fileID string) error {
	return t.node.storage.files.Delete(ctx, fileID)
}

// storage is what surrounds the store: its leadership changes and the files in it.
type storage struct {
	opened   atomic.Pointer[persistence.Store] // for calls of other nodes that may arrive before the store is open
	changes  *changes
	files    *files.Files
	filePace files.Pace
}

// electionTicks are the log's ticks without a message from a leader after which another is elected.
const electionTicks = 10

// recoverTimeout bounds the start of the log: opening has replayed it, what is left is to become its leader.
const recoverTimeout = time.Minute

// storeIfOpen returns nil until the store is open.
func (n *Node) storeIfOpen() *persistence.Store { return n.storage.opened.Load() }

func (n *Node) openStore(ctx context.Context) error {
	options := configure.Store(n.config, n.descriptors)
	options.Logger, options.Registerer = n.log, n.metrics
	options.PackSums = n.packUsage
	n.storage.changes = newChanges()
	options.OnLeader = n.storage.changes.add
	options.OnFileBytes = n.storage.filePace.Flow
	n.later(n.storage.filePace.Stop)
	if l := n.links; l != nil {
		options.ClusterID, options.NodeID, options.Join, options.Shards = l.origin.cluster, l.origin.node, l.origin.join, l.origin.shards
		options.TickInterval = n.config.Cluster.ElectionTimeout / electionTicks
		options.Transport, options.OnChange = logTransport{l.peers}, l.poke
	}
	n.tighten(n.config.DataDir)
	store, err := persistence.Open(ctx, options)
	if err != nil {
		return err
	}
	n.store = store
	n.storage.opened.Store(store)
	n.later(func(context.Context) { store.Stop() })
	return nil
}

// packUsage is how usage is stored, once every node can read packs.
func (n *Node) packUsage(now time.Time) persistence.Packing {
	if !n.features.On(feature.PackedUsage) {
		return persistence.Packing{}
	}
	return configure.PackUsage(now)
}

func (n *Node) startStore(ctx context.Context) error {
	n.store.Start() //nolint:contextcheck // the store lives until Stop, not as long as its start
	if n.links != nil {
		return nil // when it is ready depends on the other nodes: until then requests are answered 503
	}
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	return n.store.WaitReady(ctx)
}

// leaderChanged takes or gives up the ownership of a shard, and reports it to the other nodes.
func (n *Node) leaderChanged(change leaderChange) {
	in := shard.ID(change.group)
	owner := cluster.Owner{Node: n.config.Node.Name, Shard: in, Epoch: shard.Epoch(change.epoch)}
	if change.leader {
		if in != shard.Directory {
			n.shell.system.Own(change.group, change.epoch)
		}
		n.owners.Set(owner)
	} else {
		n.owners.Unset(owner)
		if in != shard.Directory {
			n.shell.system.Disown(change.group)
		}
	}
	switch {
	case n.links == nil:
	case change.leader:
		n.links.announce()
	default:
		n.links.poke()
	}
}

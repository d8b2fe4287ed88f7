package node

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/machine"
	"parley/actors/turn"
	"parley/cluster/shard"
	"parley/cmd/parley/node/files"
	"parley/cmd/parley/node/ids"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

var _ endpoint.Files = (*files.Files)(nil)

func someBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

func requireCode(t *testing.T, code failurepb.Code, err error) {
	t.Helper()
	var failure *machine.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, code, failure.Code, "%v", err)
}

// keep stores and commits a file of no conversation.
func keep(t *testing.T, through *Node, id string, data []byte) *conversationpb.File {
	t.Helper()
	stored, err := through.storage.files.Store(t.Context(), id, iotest.HalfReader(bytes.NewReader(data)), int64(len(data)))
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	require.Equal(t, sum[:], stored.SHA256)
	require.True(t, bytes.Equal(data[:min(len(data), endpoint.SniffBytes)], stored.Head))
	require.Equal(t, int64(len(data)), stored.Size)
	file := &conversationpb.File{Id: id, Name: "a.bin", Size: stored.Size, Sha256: stored.SHA256}
	_, err = through.storage.files.File(t.Context(), id)
	requireCode(t, failurepb.Code_NOT_FOUND, err)
	require.NoError(t, through.storage.files.Commit(t.Context(), file, stored))
	return file
}

func readPart(t *testing.T, through *Node, file *conversationpb.File, offset, length int64) []byte {
	t.Helper()
	body, err := through.storage.files.Open(t.Context(), file, offset, length)
	require.NoError(t, err)
	data, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	return data
}

// TestFilesOnEveryNode: a file that is stored through one node is read through all, wherever its shard lies, and is gone
// everywhere at once.
func TestFilesOnEveryNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	mint := ids.New(f.nodes["n1"].shards)
	names := []string{"n1", "n2", "n3"}
	for i, size := range []int{0, 5, persistence.ChunkSize, 9*persistence.ChunkSize + 77} {
		through := f.nodes[names[i%3]]
		data := someBytes(size)
		file := keep(t, through, mint.NewID("file"), data)
		for _, name := range names {
			n := f.nodes[name]
			got, err := n.storage.files.File(t.Context(), file.GetId())
			require.NoError(t, err)
			require.Equal(t, file.GetSha256(), got.GetSha256())
			require.Equal(t, "a.bin", got.GetName())
			require.True(t, bytes.Equal(data, readPart(t, n, got, 0, -1)), "%d bytes through %s", size, name)
			from, to := int64(size)/3, int64(size)/3*2
			require.True(t, bytes.Equal(data[from:to], readPart(t, n, got, from, to-from)))
			body, err := turnFiles{n}.Open(t.Context(), file.GetId())
			require.NoError(t, err)
			whole, err := io.ReadAll(body)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, whole))
		}
		require.NoError(t, f.nodes[names[(i+1)%3]].storage.files.Delete(t.Context(), file.GetId()))
		require.NoError(t, through.storage.files.Delete(t.Context(), file.GetId()))
		for _, name := range names {
			_, err := f.nodes[name].storage.files.File(t.Context(), file.GetId())
			requireCode(t, failurepb.Code_NOT_FOUND, err)
			if size > 0 {
				f.eventually("its bytes are gone", 60*time.Second, func() bool {
					body, failed := f.nodes[name].storage.files.Open(t.Context(), file, 0, -1)
					require.NoError(t, failed)
					_, err = body.Read(make([]byte, 1))
					return err != nil
				})
				requireCode(t, failurepb.Code_NOT_FOUND, err)
			}
		}
	}
	f.images(t, mint.NewID("conv"))
	f.refusals(t, mint)
}

// images are those of tools: kept through one node for a turn that may go on at another one.
func (f *fleet) images(t *testing.T, conversation string) {
	t.Helper()
	job := &turn.Job{Place: turn.Place{ConversationID: conversation}, TenantID: "t"}
	image, err := turnFiles{f.nodes["n1"]}.Keep(t.Context(), job, "image/png", []byte("\x89PNG"))
	require.NoError(t, err)
	require.Equal(t, []any{"image/png", int64(4)}, []any{image.GetMimeType(), image.GetSize()})
	body, err := turnFiles{f.nodes["n2"]}.Open(t.Context(), image.GetId())
	require.NoError(t, err)
	data, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Equal(t, "\x89PNG", string(data))
	file, err := f.nodes["n3"].storage.files.File(t.Context(), image.GetId())
	require.NoError(t, err)
	require.Positive(t, file.GetExpiresAt(), "it goes by itself, too")
	require.NoError(t, turnFiles{f.nodes["n2"]}.Drop(t.Context(), image.GetId()))
	_, err = turnFiles{f.nodes["n1"]}.Open(t.Context(), image.GetId())
	requireCode(t, failurepb.Code_NOT_FOUND, err)
}

// refusals are what cannot be stored, read or removed.
func (f *fleet) refusals(t *testing.T, mint ids.IDs) {
	t.Helper()
	n := f.nodes["n1"]
	for _, id := range []string{"", "file_", "file_x", "../../etc"} {
		_, err := n.storage.files.Store(t.Context(), id, bytes.NewReader(nil), 10)
		requireCode(t, failurepb.Code_NOT_FOUND, err)
		_, err = n.storage.files.File(t.Context(), id)
		requireCode(t, failurepb.Code_NOT_FOUND, err)
		_, err = n.storage.files.Open(t.Context(), &conversationpb.File{Id: id, Size: 5}, 0, -1)
		requireCode(t, failurepb.Code_NOT_FOUND, err)
		requireCode(t, failurepb.Code_NOT_FOUND, n.storage.files.Delete(t.Context(), id))
		requireCode(t, failurepb.Code_NOT_FOUND, n.storage.files.Commit(t.Context(), &conversationpb.File{Id: id}, endpoint.Stored{}))
	}
	id := mint.NewID("file")
	_, err := n.storage.files.Store(t.Context(), id, bytes.NewReader(someBytes(persistence.ChunkSize+9)), persistence.ChunkSize+8)
	requireCode(t, failurepb.Code_TOO_LARGE, err)
	broken := errors.New("the client left")
	_, err = n.storage.files.Store(t.Context(), id, io.MultiReader(bytes.NewReader(someBytes(100)), iotest.ErrReader(broken)), 1<<30)
	require.ErrorIs(t, err, broken)
	// What was not stored cannot be committed; what was begun can be taken away.
	requireCode(t, failurepb.Code_NOT_FOUND, n.storage.files.Commit(t.Context(), &conversationpb.File{Id: id}, endpoint.Stored{Size: 5, Chunks: 1}))
	require.NoError(t, n.storage.files.Delete(t.Context(), id))
	// Two files of one id: the first one stays.
	file := keep(t, n, id, someBytes(100))
	requireCode(t, failurepb.Code_ALREADY_EXISTS, n.storage.files.Commit(t.Context(), &conversationpb.File{Id: id, Name: "b"}, endpoint.Stored{Size: 100, Chunks: 1}))
	require.True(t, bytes.Equal(someBytes(100), readPart(t, n, file, 0, -1)))
}

// pauseAt hands out data, and calls back once when so much of it was read.
type pauseAt struct {
	data []byte
	at   int
	call func()
}

func (p *pauseAt) Read(b []byte) (int, error) {
	if p.at <= 0 && p.call != nil {
		p.call()
		p.call = nil
	}
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 64<<10)], p.data)
	p.data = p.data[n:]
	p.at -= n
	return n, nil
}

// TestUploadOutlivesItsOwner: the owner of the file's shard is cut off in the middle of the upload, which goes on with
// the next one; what was acknowledged is whole.
func TestUploadOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	mint := ids.New(f.nodes["n1"].shards)
	id := mint.NewID("file")
	in, ok := mint.Shards.Of(id)
	require.True(t, ok)
	owner, known := f.nodes["n1"].owners.Owner(in)
	require.True(t, known)
	others := slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(name string) bool { return name == owner.Node })
	through := f.nodes[others[0]]
	data := someBytes(20*persistence.ChunkSize + 5)
	stored, err := through.storage.files.Store(t.Context(), id, &pauseAt{data: data, at: len(data) / 2, call: func() {
		f.network.Isolate(owner.Node, others...)
	}}, 1<<30)
	require.NoError(t, err)
	file := &conversationpb.File{Id: id, Size: stored.Size}
	require.NoError(t, through.storage.files.Commit(t.Context(), file, stored))
	next, _ := through.owners.Owner(in)
	require.NotEqual(t, owner.Node, next.Node)
	for _, name := range others {
		require.True(t, bytes.Equal(data, readPart(t, f.nodes[name], file, 0, -1)))
	}
	f.network.Heal()
	f.eventually("the one that was cut off has it too", 60*time.Second, func() bool {
		at, err := f.nodes[owner.Node].store.Replicas(t.Context())
		if err != nil {
			return false
		}
		return slices.ContainsFunc(at, func(r persistence.ReplicaStatus) bool {
			_, found, err := f.nodes[owner.Node].store.Blob(persistence.WithStale(t.Context()), uint32(in), id)
			return shard.ID(r.Group) == in && err == nil && found
		})
	})
	require.True(t, bytes.Equal(data, readPart(t, f.nodes[owner.Node], file, 0, -1)))
}

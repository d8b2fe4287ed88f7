package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/feature"
	"parley/cluster"
	"parley/cluster/peer/peertest"
	"parley/cmd/parley/config"
	"parley/persistence"
	"parley/proto/nodepb"
)

// unknownLevel is one that no release has.
const unknownLevel = 1 << 20

func aloneConfig(t *testing.T) *config.Config {
	t.Helper()
	c := config.Default()
	c.DataDir, c.Listen, c.OpsListen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	c.Storage.Shards, c.Storage.Memtable = 1, 4*config.MiB
	return c
}

func startAlone(t *testing.T, c *config.Config) (*Node, error) {
	t.Helper()
	require.NoError(t, c.Validate())
	n, err := Start(t.Context(), c, testLog(t, "alone"))
	if err == nil {
		t.Cleanup(func() { _ = n.Stop(t.Context()) })
	}
	return n, err
}

func notedLevel(t *testing.T, dir string) uint32 {
	t.Helper()
	known, found, err := persistence.PeekIdentity(dir)
	require.NoError(t, err)
	require.True(t, found)
	return known.Level
}

// TestLevelOfANodeAlone: it is at its newest level before it serves, unless it is to be startable with the release before.
func TestLevelOfANodeAlone(t *testing.T) {
	t.Parallel()
	c := aloneConfig(t)
	for _, step := range []struct {
		preserve bool
		want     feature.Level
	}{{true, feature.Oldest}, {true, feature.Oldest}, {false, feature.Newest}, {true, feature.Newest}} {
		c.Cluster.PreserveDowngrade = step.preserve
		n, err := startAlone(t, c)
		require.NoError(t, err)
		require.Equal(t, step.want, n.features.Level())
		require.Equal(t, uint32(step.want), notedLevel(t, c.DataDir))
		answer, err := n.statusNow(t.Context())
		require.NoError(t, err)
		status, ok := answer.(*Status)
		require.True(t, ok)
		require.Equal(t, uint32(step.want), status.Level)
		require.NoError(t, n.Stop(t.Context()))
	}
}

// TestDataOfALaterReleaseIsRefused: before it is opened where the directory's identity says so, else before it is served.
func TestDataOfALaterReleaseIsRefused(t *testing.T) {
	t.Parallel()
	c := aloneConfig(t)
	n, err := startAlone(t, c)
	require.NoError(t, err)
	require.NoError(t, n.raiseLevel(t.Context(), unknownLevel))
	require.NoError(t, n.Stop(t.Context()))
	_, err = startAlone(t, c)
	require.ErrorIs(t, err, errTooNew)
	require.ErrorContains(t, err, "the cluster is at level 1048576")

	c = aloneConfig(t)
	n, err = startAlone(t, c)
	require.NoError(t, err)
	require.NoError(t, n.store.RaiseLevel(unknownLevel))
	require.NoError(t, n.Stop(t.Context()))
	require.EqualValues(t, unknownLevel, notedLevel(t, c.DataDir))
	before := contents(t, c.DataDir)
	_, err = startAlone(t, c)
	require.ErrorIs(t, err, errTooNew)
	require.EqualError(t, err, fmt.Sprintf("look at the data directory: this release has feature level %d, %s is at level %d: start a newer release,"+
		" or restore a backup from before the upgrade into an empty directory", feature.Newest, c.DataDir, unknownLevel))
	require.Equal(t, before, contents(t, c.DataDir), "nothing is changed in it")
}

// contents are the files of a folder, with when they were written.
func contents(t *testing.T, dir string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files = append(files, fmt.Sprint(path, info.Mode(), info.Size(), info.ModTime()))
		}
		return err
	}))
	return files
}

// TestDirectoryIsMarkedBeforeTheLevelIsRecorded: a node that dies between the two is kept from older releases, and goes on.
func TestDirectoryIsMarkedBeforeTheLevelIsRecorded(t *testing.T) {
	t.Parallel()
	c := aloneConfig(t)
	c.Cluster.PreserveDowngrade = true
	n, err := startAlone(t, c)
	require.NoError(t, err)
	n.config.Cluster.PreserveDowngrade = false
	over, cancel := context.WithCancel(t.Context())
	cancel() // so that nothing is recorded
	require.Error(t, n.raiseAlone(over))
	record, _, err := n.levelRecord()
	require.NoError(t, err)
	require.EqualValues(t, feature.Oldest, record.GetLevel())
	require.EqualValues(t, feature.Newest, notedLevel(t, c.DataDir))
	require.NoError(t, n.Stop(t.Context()))
	n, err = startAlone(t, c)
	require.NoError(t, err)
	record, _, err = n.levelRecord()
	require.NoError(t, err)
	require.EqualValues(t, feature.Newest, record.GetLevel())
}

// TestLevelOfACluster: it rises once no node holds it down any more, at all nodes.
func TestLevelOfACluster(t *testing.T) {
	t.Parallel()
	// All hold it down at first: whoever founds the cluster is alone until the others have joined, and might raise it.
	f := newFleetWith(t, func(_ string, c *config.Config) { c.Cluster.PreserveDowngrade = true }, "n1", "n2", "n3")
	f.grown()
	for _, name := range []string{"n1", "n3"} {
		f.restartUpgradable(name)
		f.grown()
	}
	for _, n := range f.nodes {
		require.Equal(t, feature.Oldest, n.features.Level())
	}
	require.NoError(t, f.nodes["n2"].Stop(t.Context()))
	require.Never(t, func() bool { return f.nodes["n1"].features.On(feature.Newest) }, 2*time.Second, 20*time.Millisecond,
		"nobody knows with which release it is started again")
	f.startUpgradable("n2")
	for name, n := range f.nodes {
		f.eventually(name+" is at the newest level", 30*time.Second, func() bool { return n.features.On(feature.Newest) })
		require.Equal(t, uint32(feature.Newest), notedLevel(t, f.configs[name].DataDir))
	}
}

// restartUpgradable stops a node and starts it without a hold on the level.
func (f *fleet) restartUpgradable(name string) {
	f.t.Helper()
	require.NoError(f.t, f.nodes[name].Stop(f.t.Context()))
	f.startUpgradable(name)
}

func (f *fleet) startUpgradable(name string) {
	f.t.Helper()
	f.configs[name].Cluster.PreserveDowngrade = false
	var err error
	f.nodes[name], err = start(f.t.Context(), f.configs[name], testLog(f.t, name), f.network.Dialer(name))
	require.NoError(f.t, err)
}

// TestClusterOfALaterReleaseIsNotJoined: neither by a node without data nor by one of its own.
func TestClusterOfALaterReleaseIsNotJoined(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "n1", "n2")
	own := f.configs["n2"]
	require.NoError(t, f.nodes["n2"].Stop(t.Context()))
	delete(f.nodes, "n2")
	n1 := f.nodes["n1"]
	n1.features.Raise(unknownLevel)
	n1.links.peers.SetIdentity(n1.hello(n1.links.origin))

	_, err := start(t.Context(), own, testLog(t, "n2"), nil)
	require.ErrorIs(t, err, errTooNew)
	fresh := *own
	fresh.Node.Name, fresh.DataDir, fresh.Cluster.Listen = "n3", t.TempDir(), peertest.Address()
	_, err = start(t.Context(), &fresh, testLog(t, "n3"), nil)
	require.ErrorIs(t, err, errTooNew)
}

func TestCommonLevel(t *testing.T) {
	node := func(number uint64, level uint32, gone bool, led ...*nodepb.Replica) cluster.NodeView {
		return cluster.NodeView{Node: number, Gone: gone, Report: &nodepb.Report{Level: level, Replicas: led}}
	}
	leads := func(in uint32, members ...uint64) *nodepb.Replica {
		return &nodepb.Replica{Shard: in, Leading: true, Voters: members[:1], Learners: members[1:]}
	}
	newest := uint32(feature.Newest)
	for name, test := range map[string]struct {
		nodes []cluster.NodeView
		want  uint32
	}{
		"all have it":                   {[]cluster.NodeView{node(1, newest, false, leads(0, 1, 2), leads(1, 2, 1)), node(2, newest, false)}, newest},
		"one has not":                   {[]cluster.NodeView{node(1, newest, false, leads(0, 1), leads(1, 1)), node(2, 0, false)}, 0},
		"a member is away":              {[]cluster.NodeView{node(1, newest, false, leads(0, 1, 2), leads(1, 1)), node(2, newest, true)}, 0},
		"a member was never heard of":   {[]cluster.NodeView{node(1, newest, false, leads(0, 1), leads(1, 1, 3))}, 0},
		"one that was replaced is away": {[]cluster.NodeView{node(1, newest, false, leads(0, 1), leads(1, 1)), node(2, 0, true)}, newest},
		"nobody leads a shard":          {[]cluster.NodeView{node(1, newest, false, leads(0, 1))}, 0},
		"no report yet":                 {[]cluster.NodeView{node(1, newest, false, leads(0, 1), leads(1, 1)), {Node: 2}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, commonLevel(&cluster.View{Nodes: test.nodes}, 2))
		})
	}
}

// A field that a later release adds to the record stays when this one raises the level.
func TestLevelRecordKeepsUnknownFields(t *testing.T) {
	c := aloneConfig(t)
	c.Cluster.PreserveDowngrade = true
	n, err := startAlone(t, c)
	require.NoError(t, err)
	later := []byte{0x7a, 1, 'x'} // field 15, of one byte
	_, version, err := n.levelRecord()
	require.NoError(t, err)
	_, err = n.store.Directory().Put(t.Context(), featuresCollection, featuresKey, version, later)
	require.NoError(t, err)
	require.NoError(t, n.raiseLevel(t.Context(), 1))
	record, _, err := n.levelRecord()
	require.NoError(t, err)
	require.Equal(t, later, []byte(record.ProtoReflect().GetUnknown()))
	require.EqualValues(t, 1, record.GetLevel())
}

func TestNodeRecordKeepsUnknownFields(t *testing.T) {
	var record nodeRecord
	require.NoError(t, json.Unmarshal([]byte(`{"node":18446744073709551615,"state":"active","zone":{"of":["a"]}}`), &record))
	record.State = stateDraining
	text, err := json.Marshal(record)
	require.NoError(t, err)
	require.JSONEq(t, `{"node":18446744073709551615,"state":"draining","zone":{"of":["a"]}}`, string(text))
	text, err = json.Marshal(nodeRecord{Node: 1, State: stateActive})
	require.NoError(t, err)
	require.JSONEq(t, `{"node":1,"state":"active"}`, string(text))
}

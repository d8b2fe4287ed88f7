package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/cluster/shard"
	"parley/cmd/parley/node/ids"
	"parley/cmd/parley/node/reads"
	"parley/cmd/parley/node/records"
	"parley/cmd/parley/node/usage"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// directories are the directory through each node of a fleet.
func (f *fleet) directories() map[string]*records.Store {
	f.t.Helper()
	all := make(map[string]*records.Store)
	for name, n := range f.nodes {
		r, stop := records.New(n.recordsConfig())
		f.t.Cleanup(func() { stop(context.Background()) })
		all[name] = r
	}
	return all
}

func isCode(err error, code failurepb.Code) bool {
	var failure *machine.Failure
	return errors.As(err, &failure) && failure.Code == code
}

// TestRecordsOnEveryNode: what one node writes all nodes read at once, a write that is late is refused and can be made
// again, and the directory's node may go away at any time.
func TestRecordsOnEveryNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	all := f.directories()
	names := []string{"n1", "n2", "n3"}
	ctx := t.Context()

	version := uint64(0)
	for i := range 30 {
		by, value := names[i%3], fmt.Appendf(nil, "%d", i)
		next, err := all[by].Put(ctx, identity.Tokens, "a", version, value)
		require.NoError(t, err)
		require.Greater(t, next, version)
		version = next
		for name, r := range all {
			record, found := r.Get(identity.Tokens, "a")
			require.True(t, found)
			require.Equal(t, collection.Record{Key: "a", Version: version, Value: value}, record, "on %s", name)
		}
		_, err = all[names[(i+1)%3]].Put(ctx, identity.Tokens, "a", version-1, nil)
		require.True(t, isCode(err, failurepb.Code_CONFLICT), "%v", err)
	}
	require.True(t, isCode(all["n1"].Delete(ctx, identity.Tokens, "a", 1), failurepb.Code_CONFLICT))
	require.NoError(t, all["n1"].Delete(ctx, identity.Tokens, "a", version))
	for _, r := range all {
		_, found := r.Get(identity.Tokens, "a")
		require.False(t, found)
		_, found, err := r.Find(ctx, identity.Tokens, "a")
		require.NoError(t, err)
		require.False(t, found)
	}

	// Counting with compare-and-put through all nodes at once loses nothing.
	const each = 15
	var counting sync.WaitGroup
	for _, r := range all {
		counting.Go(func() {
			for done := 0; done < each; {
				record, _ := r.Get(identity.RequestCounts, "t")
				_, err := r.Put(ctx, identity.RequestCounts, "t", record.Version, append(slices.Clone(record.Value), '.'))
				switch {
				case err == nil:
					done++
				case !isCode(err, failurepb.Code_CONFLICT):
					t.Errorf("count: %v", err)
					return
				}
			}
		})
	}
	counting.Wait()
	record, _ := all["n2"].Get(identity.RequestCounts, "t")
	require.Len(t, record.Value, 3*each)

	// Prefixes.
	for _, key := range []string{"p/a", "p/b", "p0/a", "o/z", "q"} {
		_, err := all["n3"].Put(ctx, catalog.Agents, key, 0, nil)
		require.NoError(t, err)
	}
	for prefix, want := range map[string]string{"p/": "p/a p/b", "": "o/z p/a p/b p0/a q", "p": "p/a p/b p0/a", "r": "", "q": "q", "q/": ""} {
		var keys []string
		for _, record := range all["n1"].List(catalog.Agents, prefix) {
			keys = append(keys, record.Key)
		}
		require.Equal(t, want, strings.Join(keys, " "), "prefix %q", prefix)
	}

	_, err := all["n1"].Put(ctx, identity.Tokens, "big", 0, make([]byte, 2<<20))
	require.True(t, isCode(err, failurepb.Code_TOO_LARGE), "%v", err)
	f.ownerOfDirectoryIsCutOff(all)
}

// ownerOfDirectoryIsCutOff: writes through the others go on by themselves, those through the one that was cut off are
// refused in time, and it does not take what it has for what there is.
func (f *fleet) ownerOfDirectoryIsCutOff(all map[string]*records.Store) {
	t, ctx := f.t, f.t.Context()
	owner, known := f.nodes["n1"].owners.Owner(shard.Directory)
	require.True(t, known)
	others := slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(name string) bool { return name == owner.Node })
	f.network.Isolate(owner.Node, others...)
	_, err := all[others[0]].Put(ctx, identity.Users, "u", 0, []byte("made"))
	require.NoError(t, err)
	_, found := all[others[0]].Get(identity.Users, "u")
	require.True(t, found)
	record, found, err := all[others[1]].Find(ctx, identity.Users, "u")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "made", string(record.Value))
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, _, err = all[owner.Node].Find(short, identity.Users, "u")
	require.True(t, isCode(err, failurepb.Code_UNAVAILABLE), "%v", err)
	short, cancel = context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = all[owner.Node].Put(short, identity.Users, "v", 0, nil)
	require.True(t, isCode(err, failurepb.Code_UNAVAILABLE), "%v", err)

	f.network.Heal()
	f.eventually("who was cut off hears of it", 60*time.Second, func() bool {
		_, found, err := all[owner.Node].Find(ctx, identity.Users, "u")
		return err == nil && found
	})
}

// TestGuardedWrites: of what is written at once through all nodes as much is written as there is room for, and one of a name.
func TestGuardedWrites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	const each, limit = 8, 5
	full := failure.Verbatim(failurepb.Code_QUOTA_REACHED, "full")
	all := f.directories()
	scope := collection.Scope(catalog.Models, "t")
	var made, refused atomic.Int64
	var writing sync.WaitGroup
	for name, r := range all {
		for i := range each {
			writing.Go(func() {
				_, err := r.Guarded(t.Context(), scope, func() (*collection.Write, error) {
					if len(r.List(catalog.Models, "")) >= limit {
						return nil, full
					}
					return &collection.Write{Collection: catalog.Models, Key: fmt.Sprintf("%s/%d", name, i), Value: []byte("v")}, nil
				})
				switch {
				case err == nil:
					made.Add(1)
				case errors.Is(err, full):
					refused.Add(1)
				default:
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	writing.Wait()
	require.Equal(t, []int64{limit, 3*each - limit}, []int64{made.Load(), refused.Load()})
	for _, r := range all {
		require.Len(t, r.List(catalog.Models, ""), limit)
	}

	// A write that was decided by what is no more the state is decided anew, one that is not decided writes nothing.
	r, asked := all["n1"], 0
	_, err := r.Guarded(t.Context(), scope, func() (*collection.Write, error) {
		_, there := r.Get(catalog.Models, "between")
		if asked++; asked == 1 {
			_, err := all["n2"].Guarded(t.Context(), scope, func() (*collection.Write, error) {
				return &collection.Write{Collection: catalog.Models, Key: "between"}, nil
			})
			require.NoError(t, err)
		}
		require.Equal(t, asked == 2, there)
		return &collection.Write{Collection: catalog.Models, Key: "own"}, nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, asked)
	version, err := r.Guarded(t.Context(), scope, func() (*collection.Write, error) { return nil, nil }) //nolint:nilnil // that is the case
	require.NoError(t, err)
	require.Zero(t, version)
}

// TestReadsAcrossNodes: heads and sums of all shards come together whoever asks, in as many answers as it takes.
func TestReadsAcrossNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	ctx := t.Context()

	// Heads that fill several answers, some of entities that are gone.
	big := &conversationpb.State{RuntimeContext: make([]byte, 900<<10)}
	var page []kit.Row
	for i := range 60 {
		row := kit.Row{Shard: uint32(i%4 + 1), Member: fmt.Sprintf("conv_%d", i)}
		page = append(page, row)
		if i%7 == 0 {
			continue
		}
		big.Id = row.Member
		head, err := proto.Marshal(big)
		require.NoError(t, err)
		f.appendTo(row.Shard, &logpb.Append{Id: row.Member, Create: true, Head: head})
	}
	for _, n := range f.nodes {
		var heads [][]byte
		f.eventually("all shards have an owner", 60*time.Second, func() bool { // on a busy machine they may change hands
			var err error
			heads, err = reads.NewScatteredRows(n.route()).Heads(ctx, page)
			require.True(t, err == nil || kit.IsCode(err, failurepb.Code_UNAVAILABLE), err)
			return err == nil
		})
		for i, head := range heads {
			if i%7 == 0 {
				require.Nil(t, head)
				continue
			}
			state := &conversationpb.State{}
			require.NoError(t, proto.Unmarshal(head, state))
			require.Equal(t, page[i].Member, state.GetId())
		}
	}

	// Usage that every node adds is read as one, by whom it may be.
	const rows, times = 5000, 3
	for _, n := range f.nodes {
		meter, stop := usage.New(usage.Config{
			Entities: &client{n}, NewID: ids.New(n.shards).NewID, Folder: t.TempDir(), Ready: func() bool { return true }, Logger: n.log,
		})
		for range times {
			for i := range rows {
				meter.Add(&logpb.Sum{Name: "usage/t/p", Member: fmt.Sprintf("%05d", i), Deltas: []int64{1, int64(i)}})
			}
		}
		meter.Add(nil)
		f.eventually("it is written", 60*time.Second, func() bool {
			return meter.Waiting() == 0
		})
		meter.Add(&logpb.Sum{Name: "usage/t/p", Member: "99999", Deltas: []int64{1}})
		stop(ctx) // writes the rest
	}
	for _, n := range f.nodes {
		way := n.route()
		next := 0
		require.NoError(t, way.Usage(ctx, "usage/t/p", "00100", "99999", func(row persistence.SumRow) bool {
			if next == 0 {
				next = 100
			}
			require.Equal(t, fmt.Sprintf("%05d", next), row.Member)
			require.Equal(t, []int64{9, 9 * int64(next)}, row.Values)
			next++
			return true
		}))
		require.Equal(t, rows, next)
		require.NoError(t, way.Usage(ctx, "usage/t/p", "99999", "", func(row persistence.SumRow) bool {
			require.EqualValues(t, 3, row.Value(0))
			return true
		}))
	}
	status, _, answer, err := f.call("n1", http.MethodGet, "/conversations?userId=ada", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
}

// appendTo appends where the shard is led.
func (f *fleet) appendTo(group uint32, a *logpb.Append) {
	f.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		for _, n := range f.nodes {
			if owner, _ := n.owners.Owner(shard.ID(group)); owner.Node != n.config.Node.Name {
				continue
			}
			result, err := n.store.Append(f.t.Context(), group, a)
			if err == nil && (result.GetOutcome() == logpb.Outcome_APPLIED || result.GetOutcome() == logpb.Outcome_EXISTS) {
				return
			}
		}
		<-time.After(time.Millisecond)
	}
	f.t.Errorf("shard %d does not take %s", group, a.GetId())
}

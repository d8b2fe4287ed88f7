package actors

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// What the engine had registered before its registry was made smaller is found afterwards.
func TestSmallRegistryFindsAll(t *testing.T) {
	engine := actor.NewActorSystem()
	defer engine.Shutdown()
	registry := engine.ProcessRegistry
	before := map[string]any{}
	for _, bucket := range registry.LocalPIDs.LocalPIDs {
		bucket.IterCb(func(id string, process any) { before[id] = process })
	}
	require.NotEmpty(t, before)
	shrink(registry)
	require.Len(t, registry.LocalPIDs.LocalPIDs, registryBuckets)
	for id, process := range before {
		found, ok := registry.GetLocal(id)
		require.True(t, ok, id)
		require.Same(t, process, found)
	}
	for range 1000 {
		pid := engine.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
		_, ok := registry.Get(pid)
		require.True(t, ok)
		require.NoError(t, engine.Root.StopFuture(pid).Wait())
		_, ok = registry.Get(pid)
		require.False(t, ok)
	}
}

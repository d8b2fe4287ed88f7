package node

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"parley/actors/core/catalog"
	"parley/actors/core/feature"
	"parley/actors/core/identity"
	"parley/actors/core/subscription"
	"parley/actors/schema"
	"parley/cmd/parley/node/configure"
	"parley/cmd/parley/node/ids"
	"parley/cmd/parley/node/records"
	"parley/cmd/parley/node/registry"
	"parley/cmd/parley/node/seal"
	"parley/cmd/parley/node/spending"
	"parley/httpedge/token"
)

// recorded is what is made of the records of the cluster's directory.
type recorded struct {
	records  *records.Store
	policies *spending.Policies
	agents   *registry.Registry
	accounts atomic.Pointer[identity.Accounts]     // nil until the directory is open
	seal     *seal.Sealer                          // encrypts the secrets in records
	webhooks atomic.Pointer[subscription.Webhooks] // nil until the directory is open
}

// startDirectory makes the directory's records available to the edge and the runner. It runs before the log is recovered, since
// recovered turns may be of agents that are recorded there.
func (n *Node) startDirectory(context.Context) error {
	store, stop := records.New(n.recordsConfig())
	n.directory.records = store
	n.directory.policies = spending.NewPolicies(store)
	n.later(stop)
	licences, err := configure.Licences(n.config)
	if err != nil {
		return err
	}
	n.directory.agents.Record(registry.NewRecorded(store, registry.NewCompiler(n.config, n.directory.seal.Open, n.log)))
	n.directory.accounts.Store(identity.New(store, identity.Env{
		NewID: ids.New(n.shards).NewID, Now: time.Now, Random: fillRandom,
		Ready:       func() bool { return n.features.On(feature.Webhooks) }, // the level of the release that brought members, too
		LicenceKeys: licences, LicenceGrace: time.Duration(n.config.License.GraceDays) * 24 * time.Hour,
		LicencesReady: func() bool { return n.features.On(feature.Console) }, Policies: n.directory.policies.Of,
	}))
	n.directory.webhooks.Store(n.newWebhooks(store))
	return nil
}

func (n *Node) recordsConfig() records.Config {
	return records.Config{
		Store: n.store, Router: n.router, Owners: &n.owners, Others: n.otherNames, Wait: n.config.Cluster.OwnerWait,
	}
}

// fillRandom fills a slice with cryptographic randomness.
func fillRandom(into []byte) { _, _ = rand.Read(into) } // never fails: the runtime ends the process instead

func (n *Node) newCatalog() *catalog.Catalog {
	return catalog.New(n.directory.records, catalog.Env{
		NewID: ids.New(n.shards).NewID, Now: time.Now, Random: fillRandom, Seal: n.directory.seal.Seal, CheckAgent: n.directory.agents.CheckAgent,
		CheckSchema: schema.Check, Policies: n.directory.policies.Of,
		Configured: func(projectID, key string) bool { _, is := n.directory.agents.Configured(projectID, key); return is },
	})
}

// startTokens starts what authenticates callers by their API tokens.
func (n *Node) startTokens() *token.Authenticator {
	tokens := token.New(token.Config{
		CacheTTL: n.config.Client.TokenCacheTTL, CacheEntries: n.config.Client.TokenCacheEntries,
		MaxTokenBytes: int(n.config.Auth.MaxToken), Policy: configure.Permission(n.config).Policy,
		Licence: n.directory.accounts.Load().Licence,
	}, n.directory.records, n.log)
	tokens.Start()
	n.later(func(context.Context) { tokens.Stop() })
	return tokens
}

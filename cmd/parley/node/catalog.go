package node

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"parley/actors/core/catalog"
	"parley/actors/core/identity"
	"parley/httpedge/token"
)

// recorded is what is made of the records of the cluster's directory.
type recorded struct {
	records  *records
	agents   *registry
	accounts atomic.Pointer[identity.Accounts] // nil until the directory is open
	seal     *sealer                           // encrypts the secrets in records
}

// startDirectory makes the directory's records available to the edge and the runner. It runs before the log is recovered, since
// recovered turns may be of agents that are recorded there.
func (n *Node) startDirectory(context.Context) error {
	records, stop := newRecords(n)
	n.directory.records = records
	n.later(stop)
	n.directory.agents.recorded = newRecordedAgents(records, newCompiler(n.config, n.directory.seal.Open, n.log))
	n.directory.accounts.Store(identity.New(records, identity.Env{NewID: ids{n.shards}.NewID, Now: time.Now, Random: fillRandom}))
	return nil
}

// fillRandom fills a slice with cryptographic randomness.
func fillRandom(into []byte) { _, _ = rand.Read(into) } // never fails: the runtime ends the process instead

func (n *Node) newCatalog() *catalog.Catalog {
	return catalog.New(n.directory.records, catalog.Env{
		NewID: ids{n.shards}.NewID, Now: time.Now, Random: fillRandom, Seal: n.directory.seal.Seal, CheckAgent: n.directory.agents.recorded.checkAgent,
		Configured: func(projectID, key string) bool { _, is := n.directory.agents.configured(projectID, key); return is },
	})
}

// startTokens starts what authenticates callers by their API tokens.
func (n *Node) startTokens() *token.Authenticator {
	tokens := token.New(token.Config{
		CacheTTL: n.config.Client.TokenCacheTTL, CacheEntries: n.config.Client.TokenCacheEntries,
		MaxTokenBytes: int(n.config.Auth.MaxToken),
	}, n.directory.records, n.log)
	tokens.Start()
	n.later(func(context.Context) { tokens.Stop() })
	return tokens
}

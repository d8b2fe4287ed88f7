package node

import (
	"context"
	"crypto/rand"
	"time"

	"parley/actors/core/catalog"
	"parley/actors/core/identity"
	"parley/actors/inference"
	"parley/actors/turn/tool"
	"parley/cmd/parley/config"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/httpedge/token"
)

// startDirectory opens the directory to the edge and to the runner. Before the log is recovered: what it recovers may be turns
// of agents that are recorded here.
func (n *Node) startDirectory(context.Context) error {
	records, stop := newRecords(n)
	n.records = records
	n.later(stop)
	n.agents.recorded = newRecordedAgents(records, newCompiler(n.config, n.seal.Open, n.log))
	n.accounts.Store(identity.New(records, identity.Env{NewID: ids{n.shards}.NewID, Now: time.Now, Random: fillRandom}))
	return nil
}

// fillRandom fills a slice with cryptographic randomness.
func fillRandom(into []byte) { _, _ = rand.Read(into) } // never fails: the runtime ends the process instead

func (n *Node) newCatalog() *catalog.Catalog {
	return catalog.New(n.records, catalog.Env{
		NewID: ids{n.shards}.NewID, Now: time.Now, Random: fillRandom, Seal: n.seal.Seal, CheckAgent: n.agents.recorded.checkAgent,
		Configured: func(projectID, key string) bool { _, is := n.agents.configured(projectID, key); return is },
	})
}

// startTokens begins to know callers by their API tokens.
func (n *Node) startTokens() {
	n.tokens = token.New(token.Config{
		CacheTTL: n.config.Client.TokenCacheTTL, CacheEntries: n.config.Client.TokenCacheEntries,
		MaxTokenBytes: int(n.config.Auth.MaxToken),
	}, n.records, n.log)
	n.tokens.Start()
	n.later(func(context.Context) { n.tokens.Stop() })
}

func clientConfig(c *config.Config) clientapi.Config {
	settings := clientapi.DefaultConfig()
	settings.BasePath = c.Client.BasePath
	settings.TurnTimeout = c.Turn.Timeout + c.HTTP.RequestTimeout
	settings.CancelWait = c.Conversation.CancelWait
	settings.RunWait, settings.MaxRunWait = c.Client.RunWait, c.Client.MaxRunWait
	settings.EventPage, settings.MaxEventPage = c.Conversation.EventPageSize, c.Conversation.MaxEventPageSize
	settings.MaxFileBody = int(c.HTTP.MaxFileBody)
	settings.Docs = c.HTTP.Docs
	return settings
}

func gatewayConfig(c *config.Config) gateway.Config {
	settings := gateway.DefaultConfig()
	settings.BasePath = c.Client.BasePath
	settings.CallTimeout = c.Gateway.RequestTimeout + gatewayMargin
	settings.StreamTimeout = c.Gateway.StreamTimeout + gatewayMargin
	settings.PingEvery, settings.WriteTimeout = c.SSE.Ping, c.SSE.WriteTimeout
	settings.MaxBody = int(c.Gateway.MaxBody)
	return settings
}

// gatewayMargin is what the edge gives a call beyond its own time, so that it is the call that says what was too slow.
const gatewayMargin = 5 * time.Second

func inferenceConfig(c *config.Config) inference.Config {
	settings := inference.DefaultConfig()
	settings.RequestTimeout, settings.MaxAttempts = c.Gateway.RequestTimeout, c.Gateway.MaxAttempts
	settings.StreamTimeout, settings.MaxStreamBytes = c.Gateway.StreamTimeout, int64(c.Gateway.MaxStream)
	settings.RetryDelay = c.Gateway.RetryDelay
	settings.MaxConcurrent = c.Gateway.MaxConcurrent
	return settings
}

// mountClient puts the Client API and the gateway on the server. Who may use a route is decided alike for both.
func (n *Node) mountClient(conversations *runtime, reads endpoint.Reader, mint ids, hooks endpoint.Authorizer) error {
	meter, stopMeter := newUsageMeter(n.route(), n.log, n.metrics)
	n.later(stopMeter)
	calls := inferenceConfig(n.config)
	if err := calls.Validate(); err != nil {
		return err
	}
	caller := inference.New(calls, inference.Parts{
		Catalog: n.agents, Providers: n.providers, Circuits: n.circuits, Client: n.guard.Client(0), Book: bookInference(meter.Add),
		Logger: n.log, Registerer: n.metrics,
	})
	n.gateway = gateway.New(gatewayConfig(n.config), gatewayModels{caller}, n.log)
	settings := clientConfig(n.config)
	if err := settings.Validate(); err != nil {
		return err
	}
	inferring := n.gateway.Surface()
	client := clientapi.New(settings, clientapi.Parts{
		Runtime: conversations, Reader: reads, Entities: &client{n}, Agents: n.agents,
		Accounts: n.accounts.Load(), Catalog: n.newCatalog(), Sealer: n.seal, Files: n.files, IDs: mint, Hub: n.hub, Gateway: inferring,
		CheckTools: tool.CheckCallers, Authorizer: hooks,
		CheckCallback: checkCallback(n.guard), Features: n.features,
	}).Surface()

	counter := token.NewCounter(n.records, n.log)
	counter.Start()
	n.later(func(context.Context) { counter.Stop() }) //nolint:contextcheck // it bounds itself
	permit := token.Permit(counter)
	client.Authenticator, client.Permit = n.tokens, permit
	inferring.Authenticator, inferring.Permit, inferring.Headers = token.Always401(n.tokens), permit, endpoint.SecurityHeaders()
	for _, surface := range []endpoint.Surface{client, inferring} {
		if err := n.server.Mount(settings.BasePath, surface); err != nil {
			return err
		}
	}
	return nil
}

package node

import (
	"context"
	"log/slog"
	"time"

	"parley/actors/inference"
	"parley/actors/turn/tool"
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/httpedge/hook"
	"parley/httpedge/limit"
	"parley/httpedge/opsapi"
	"parley/httpedge/sse"
	"parley/httpedge/token"
	"parley/httpedge/web"
)

// edge is the HTTP servers of this node and what their routes share.
type edge struct {
	server  *httpedge.Server
	hub     *sse.Hub
	gateway *gateway.API
}

func (n *Node) startOps(context.Context) error {
	ops, err := opsapi.New(opsConfig(n.config, n.descriptors), opsapi.Parts{
		Listener: n.network.opsListener, Ready: n.unready, Gatherer: n.metrics, Logger: n.log,
		Admin: opsapi.Admin{Status: n.statusNow, Drain: n.drain, Backup: n.backup, Accounts: n.directory.accounts.Load},
	})
	if err != nil {
		return err
	}
	n.later(func(ctx context.Context) {
		if err := ops.Stop(ctx); err != nil {
			n.log.Warn("stop operations listener", slog.Any("err", err))
		}
	})
	return ops.Start()
}

func (n *Node) startHub(context.Context) error {
	reach := &client{n}
	conversations := &runtime{reach, n.router}
	var err error
	n.edge.hub, err = sse.New(hubConfig(n.config), convapi.NewUpstream(conversations, reach), n.log, n.metrics)
	if err != nil {
		return err
	}
	if err := n.edge.hub.Start(); err != nil {
		return err
	}
	return n.buildServer(conversations, ids{n.shards}) //nolint:contextcheck // there are no requests yet
}

func (n *Node) buildServer(conversations *runtime, mint ids) error {
	authenticator, stopAuth, err := newAuthenticator(n.config, n.log, n.metrics)
	if err != nil {
		return err
	}
	n.later(func(context.Context) { stopAuth() })
	authenticator.Start()
	tokens := n.startTokens()
	limiter, err := limit.New(limitConfig(n.config), n.metrics)
	if err != nil {
		return err
	}
	hooks, err := hook.New(hookConfig(n.config), n.log, n.metrics)
	if err != nil {
		return err
	}
	n.later(func(context.Context) { hooks.Stop() })
	n.edge.server, err = httpedge.New(httpConfig(n.config, n.descriptors), httpedge.Parts{
		Listener: n.network.listener, Node: n.config.Node.Name,
		Authenticator: token.First(tokens, hooks.Authenticator(authenticator)), Limiter: hooks.Limiter(limiter),
		Idempotency: &keptRequests{router: n.router, ids: mint, keep: n.config.Client.IdempotencyTTL, seal: n.directory.seal},
		Logger:      n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	printer, err := newPrinter(n.config)
	if err != nil {
		return err
	}
	settings := apiConfig(n.config)
	if err := settings.Validate(); err != nil {
		return err
	}
	surface := convapi.New(settings, convapi.Parts{
		Runtime: conversations, Agents: n.directory.agents, IDs: mint, Hub: n.edge.hub,
		Files: n.storage.files, Entities: &client{n}, PDF: printer,
		Authorizer: hooks.Authorizer(), CheckCallback: checkCallback(n.outbound.guard), Features: n.features,
	}).Surface()
	if err := n.edge.server.Mount(settings.BasePath, surface); err != nil {
		return err
	}
	if err := n.mountClient(conversations, mint, tokens, hooks.Authorizer()); err != nil {
		return err
	}
	return n.mountPage(settings.BasePath, surface)
}

func (n *Node) mountPage(basePath string, surface endpoint.Surface) error {
	if !n.config.HTTP.Page {
		return nil
	}
	files, err := web.Files(basePath)
	if err != nil {
		return err
	}
	page, err := httpedge.Files(files, surface)
	if err != nil {
		return err
	}
	page.Rows = append(page.Rows, web.ClusterRow(n.view))
	return n.edge.server.Mount("", page)
}

// startServer is the last step of a start: from here on requests arrive. Its stop is the first step of a shutdown: new commands
// are refused while running turns finish and their streams and callers still get the results; then the streams end, then the server.
func (n *Node) startServer(context.Context) error {
	n.later(func(ctx context.Context) {
		n.leave(ctx)
		turns, cancel := context.WithDeadline(ctx, n.turnsUntil(ctx))
		n.shell.system.Stop(turns)
		n.edge.hub.Finish(turns) // of turns that run on other nodes
		if err := n.edge.gateway.Stop(turns); err != nil {
			n.log.Warn("stop the gateway", slog.Any("err", err))
		}
		cancel()
		if err := n.edge.hub.Stop(ctx); err != nil {
			n.log.Warn("stop streams", slog.Any("err", err))
		}
		if err := n.edge.server.Stop(ctx); err != nil {
			n.log.Warn("stop http server", slog.Any("err", err))
		}
	})
	return n.edge.server.Start()
}

// turnsUntil is the deadline for running turns: it leaves a fifth of the grace period to the steps after them.
func (n *Node) turnsUntil(ctx context.Context) time.Time {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(n.config.ShutdownGrace)
	}
	return end.Add(-time.Until(end) / 5)
}

// mountClient mounts the Client API and the gateway. Both authorize their routes in the same way.
func (n *Node) mountClient(
	conversations *runtime, mint ids, tokens *token.Authenticator, hooks endpoint.Authorizer,
) error {
	meter, stopMeter := newUsageMeter(n.route(), n.log, n.metrics)
	n.later(stopMeter)
	calls := inferenceConfig(n.config)
	if err := calls.Validate(); err != nil {
		return err
	}
	caller := inference.New(calls, inference.Parts{
		Catalog: n.directory.agents, Providers: n.outbound.providers, Circuits: n.outbound.circuits, Client: n.outbound.guard.Client(0), Book: bookInference(meter.Add),
		Logger: n.log, Registerer: n.metrics,
	})
	n.edge.gateway = gateway.New(gatewayConfig(n.config), gatewayModels{caller}, n.log)
	settings := clientConfig(n.config)
	if err := settings.Validate(); err != nil {
		return err
	}
	inferring := n.edge.gateway.Surface()
	client := clientapi.New(settings, clientapi.Parts{
		Runtime: conversations, Entities: &client{n}, Agents: n.directory.agents,
		Accounts: n.directory.accounts.Load(), Catalog: n.newCatalog(), Sealer: n.directory.seal, Files: n.storage.files, IDs: mint, Hub: n.edge.hub, Gateway: inferring,
		CheckTools: tool.CheckCallers, Authorizer: hooks,
		CheckCallback: checkCallback(n.outbound.guard), Features: n.features,
	}).Surface()

	counter := token.NewCounter(n.directory.records, n.log)
	counter.Start()
	n.later(func(context.Context) { counter.Stop() }) //nolint:contextcheck // it bounds itself
	permit := token.Permit(counter)
	client.Authenticator, client.Permit = tokens, permit
	inferring.Authenticator, inferring.Permit, inferring.Headers = token.Always401(tokens), permit, endpoint.SecurityHeaders()
	for _, surface := range []endpoint.Surface{client, inferring} {
		if err := n.edge.server.Mount(settings.BasePath, surface); err != nil {
			return err
		}
	}
	return nil
}

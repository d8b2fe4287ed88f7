package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"parley/actors/core/feature"
	"parley/actors/guard"
	"parley/actors/inference"
	"parley/actors/turn/tool"
	"parley/cmd/parley/node/configure"
	"parley/cmd/parley/node/ids"
	"parley/cmd/parley/node/spool"
	"parley/cmd/parley/node/usage"
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/convapi"
	"parley/httpedge/dashboard"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/httpedge/gateway/audio"
	"parley/httpedge/hook"
	"parley/httpedge/limit"
	"parley/httpedge/live"
	"parley/httpedge/opsapi"
	"parley/httpedge/permission"
	"parley/httpedge/sse"
	"parley/httpedge/token"
	"parley/httpedge/web"
)

// edge is the HTTP servers of this node and what their routes share.
type edge struct {
	server  *httpedge.Server
	hub     *sse.Hub
	live    *live.Feeds
	gateway *gateway.API
	letters atomic.Pointer[dashboard.Letters] // nil until people may come in
}

func (n *Node) startOps(context.Context) error {
	ops, err := opsapi.New(configure.Ops(n.config, n.descriptors), opsapi.Parts{
		Listener: n.network.opsListener, Ready: n.unready, Gatherer: n.metrics, Logger: n.log,
		Admin: opsapi.Admin{Status: n.statusNow, Drain: n.drain, Backup: n.backup, Accounts: n.directory.accounts.Load, Audit: n.exportAudit},
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
	reach := n.door()
	conversations := &runtime{reach, n.router}
	var err error
	n.edge.live = live.New(convapi.NewUpstream(conversations, reach), n.shardNumbers(), n.followFeed)
	n.later(func(context.Context) { n.edge.live.Stop() })
	n.edge.hub, err = sse.New(configure.Hub(n.config), n.edge.live, n.log, n.metrics)
	if err != nil {
		return err
	}
	if err := n.edge.hub.Start(); err != nil {
		return err
	}
	return n.buildServer(conversations, ids.New(n.shards)) //nolint:contextcheck // there are no requests yet
}

func (n *Node) buildServer(conversations *runtime, mint ids.IDs) error {
	authenticator, stopAuth, err := configure.Authenticator(n.config, n.log, n.metrics)
	if err != nil {
		return err
	}
	n.later(func(context.Context) { stopAuth() })
	authenticator.Start()
	tokens := n.startTokens()
	permissions, err := n.startPermissions(mint)
	if err != nil {
		return err
	}
	limiter, err := limit.New(configure.Limit(n.config), n.metrics)
	if err != nil {
		return err
	}
	hooks, err := hook.New(configure.Hooks(n.config), n.log, n.metrics)
	if err != nil {
		return err
	}
	n.later(func(context.Context) { hooks.Stop() })
	audits := n.startTrail(mint)
	n.edge.server, err = httpedge.New(configure.HTTP(n.config, n.descriptors), httpedge.Parts{
		Listener: n.network.listener, Node: n.config.Node.Name,
		Authenticator: token.First(tokens, permissions, hooks.Authenticator(authenticator)), Limiter: hooks.Limiter(limiter),
		Auditor:     audits,
		Idempotency: &keptRequests{router: n.router, ids: mint, keep: n.config.Client.IdempotencyTTL, seal: n.directory.seal},
		Logger:      n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	printer, err := configure.Printer(n.config)
	if err != nil {
		return err
	}
	settings := configure.API(n.config)
	if err = settings.Validate(); err != nil {
		return err
	}
	surface := convapi.New(settings, convapi.Parts{
		Runtime: conversations, Agents: n.directory.agents, IDs: mint, Hub: n.edge.hub,
		Files: n.storage.files, Entities: n.door(), PDF: printer,
		Authorizer: hooks.Authorizer(), CheckCallback: configure.CheckCallback(n.outbound.guard),
		CanQueue: func() bool { return n.features.On(feature.Console) }, CountsFiles: func() bool { return n.features.On(feature.Aegis) }, CheckArgs: tool.Checks{}.Args,
	}).Surface()
	if err = n.edge.server.Mount(settings.BasePath, surface); err != nil {
		return err
	}
	resources, err := n.mountClient(conversations, mint, tokens, permissions, hooks.Authorizer())
	if err != nil {
		return err
	}
	if err := n.mountDashboard(permissions, resources); err != nil {
		return err
	}
	return n.mountPage(settings.BasePath, surface)
}

func (n *Node) mountPage(basePath string, surface endpoint.Surface) error {
	if !n.config.HTTP.Page {
		return nil
	}
	files, version, err := web.Files(basePath)
	if err != nil {
		return err
	}
	page, err := httpedge.Files(files, version, surface, httpedge.Alias{File: web.ConsoleFile, Paths: web.ConsolePaths()})
	if err != nil {
		return err
	}
	page.Routes = append(page.Routes, web.ClusterRoute(n.view))
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

// startPermissions starts what decides about the routes of the Client API, and its log.
func (n *Node) startPermissions(mint ids.IDs) (*permission.Engine, error) {
	log := permission.NewLog(permission.LogParts{
		Entities: &client{n}, NewID: mint.NewID, Features: n.features, Keep: n.config.Permissions.DecisionRetention,
		Logger: n.log, Registerer: n.metrics,
	})
	n.later(log.Stop)
	engine, err := permission.New(configure.Permission(n.config), log, n.log, n.metrics)
	if err != nil {
		return nil, err
	}
	n.later(func(context.Context) { engine.Stop() })
	return engine, nil
}

// door is how people and programs reach entities: past the shields of agents.
func (n *Node) door() *guard.Door {
	return &guard.Door{Client: &client{n}, Guard: n.outbound.shields.Guard, Agents: n.directory.agents.Versions(), Known: &n.outbound.shields.known}
}

// mountClient mounts the Client API and the gateway. Both authorize their routes in the same way. It returns the API, whose resources
// signed-in users have, too.
func (n *Node) mountClient(
	conversations *runtime, mint ids.IDs, tokens *token.Authenticator, permissions *permission.Engine, hooks endpoint.Authorizer,
) (*clientapi.API, error) {
	n.outbound.shields.start(n)
	meter, stopMeter := usage.New(usage.Config{
		Entities: &client{n}, NewID: mint.NewID, Folder: filepath.Join(n.config.DataDir, usageFolder),
		Ready: func() bool { return n.features.On(feature.Meters) }, Logger: n.log, Registerer: n.metrics,
	})
	n.later(stopMeter)
	n.later(n.outbound.door.Stop)
	calls := configure.Inference(n.config)
	if err := calls.Validate(); err != nil {
		return nil, err
	}
	caller := inference.New(calls, inference.Parts{
		Catalog: n.directory.agents, Providers: n.outbound.providers, Circuits: n.outbound.circuits, Client: n.outbound.guard.Direct(), Answers: n.outbound.answers, Book: bookInference(meter.Add), Door: n.outbound.door,
		Logger: n.log, Registerer: n.metrics,
	})
	n.outbound.shields.judges.open(caller)
	n.edge.gateway = gateway.New(configure.Gateway(n.config), gatewayModels{caller}, n.log)
	n.edge.gateway.Guard(n.outbound.shields.rails(), n.outbound.shields.Keep)
	settings := configure.Client(n.config)
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	inferring := inferring(n.edge.gateway, audio.New(configure.Audio(n.config), gatewaySound{caller}, uploads{
		spool.New(filepath.Join(n.config.DataDir, uploadsFolder), int64(n.config.Gateway.UploadSpace)),
	}))
	api := clientapi.New(settings, clientapi.Parts{
		Runtime: conversations, Entities: n.door(), Agents: n.directory.agents,
		Accounts: n.directory.accounts.Load(), Catalog: n.newCatalog(), Sealer: n.directory.seal, Files: n.storage.files, IDs: mint, Hub: n.edge.hub, Console: n.consoleParts(mint, caller), Gateway: inferring,
		Limits: handler.Limits{Door: n.outbound.door, FileDoor: n.outbound.door, Policies: n.directory.policies.Of, Release: handler.Release{
			CanPush: func() bool { return n.features.On(feature.Webhooks) }, Current: func() bool { return n.features.On(feature.Console) },
			CanBudget: func() bool { return n.features.On(feature.Aegis) }, CanTrace: func() bool { return n.features.On(feature.Meters) },
		}},
		Schemas: tool.Checks{}, Aegis: n.outbound.shields, Authorizer: hooks, Permissions: permissions, Webhooks: n.directory.webhooks.Load(), AuditChain: n.chainOf,
		CheckCallback: configure.CheckCallback(n.outbound.guard), InviteLink: inviteLink(&n.config.Accounts),
	})

	counter := token.NewCounter(n.directory.records, n.log)
	counter.Start()
	n.later(func(context.Context) { counter.Stop() }) //nolint:contextcheck // it bounds itself
	permit := token.Permit(permissions, counter)
	resources := api.Surface()
	resources.Authenticator, resources.Permit = tokens, permit
	inferring.Authenticator, inferring.Permit, inferring.Headers = token.Always401(tokens), permit, endpoint.SecurityHeaders()
	for _, surface := range []endpoint.Surface{resources, inferring} {
		if err := n.edge.server.Mount(settings.BasePath, surface); err != nil {
			return nil, err
		}
	}
	return api, nil
}

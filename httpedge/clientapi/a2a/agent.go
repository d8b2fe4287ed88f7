package a2a

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/httpedge/a2a/protocol"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/failurepb"
)

// exposed returns an active agent that other agents may reach. One that they may not is not there.
func (a *api) exposed(ctx context.Context, key string) (*agentpb.Agent, error) {
	agent, err := a.ActiveAgent(ctx, key)
	if handler.IsCode(err, failurepb.Code_AGENT_NOT_ACTIVE) {
		record, failed := a.Catalog.Agent(ctx, endpoint.CallerFrom(ctx).ProjectID, key)
		if _, missing := errors.AsType[*collection.MissingError](failed); !missing && failed != nil {
			return nil, failed
		}
		if known, failed := definition.ParseMetadata(record.GetMetadata()); failed != nil || !known.IsExposed() {
			return nil, handler.AgentNotFound()
		}
	}
	if err == nil && !agent.GetExposed() {
		return nil, handler.AgentNotFound()
	}
	return agent, err
}

type agentCardIn struct {
	Key string `path:"agentKey"`
}

func (a *api) getAgentCard(ctx context.Context, in *agentCardIn) (*protocol.Card, error) {
	agent, err := a.exposed(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	scheme, host := endpoint.RequestedURL(ctx)
	home := (&url.URL{Scheme: scheme, Host: host}).String()
	of := &protocol.Agent{
		Name: agent.GetName(), Description: agent.GetDescription(), Version: strconv.FormatInt(agent.GetRunningVersion(), 10),
		URL: home + a.Config.BasePath + "/a2a/" + url.PathEscape(in.Key), Home: home,
	}
	for _, tool := range agent.GetTools() {
		of.Tools = append(of.Tools, tool.GetName())
	}
	return protocol.NewCard(of, protocol.CardCapabilities{Streaming: true, PushNotifications: a.pushes()}), nil
}

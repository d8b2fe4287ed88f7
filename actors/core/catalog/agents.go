package catalog

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/actors/core/failure"
	"parley/actors/core/naming"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// States of an agent.
const (
	AgentActive   = "active"
	AgentInactive = "inactive"
	AgentDraft    = "draft"
)

// maxChangelog bounds the changelog of a version, in bytes.
const maxChangelog = 4 << 10

// AgentInput is what to create or change of an agent. What is nil stays as it is, and is empty in a new one.
type AgentInput struct {
	Name, Description, Status *string
	Config                    json.RawMessage // replaces the stored one; see package definition for its secrets
	Metadata                  json.RawMessage // replaces the stored one
}

// CreateAgent creates an agent; its key is made of its name.
func (c *Catalog) CreateAgent(ctx context.Context, caller Caller, in AgentInput) (*directorypb.Agent, error) {
	name, err := agentName(value(in.Name))
	if err != nil {
		return nil, err
	}
	draft, refused := definition.Read(in.Config)
	if refused != nil {
		return nil, refused
	}
	status := value(in.Status)
	if status == "" {
		status = AgentActive
	}
	metadata, refused := definition.ReadMetadata(in.Metadata, nil, c.newSlug)
	if refused != nil {
		return nil, refused
	}
	if err = checkAgentTexts(value(in.Description), status); err != nil {
		return nil, err
	}
	if err = c.checkConfig(ctx, caller.TenantID, caller.ProjectID, draft); err != nil {
		return nil, err
	}
	key := c.newKey(name, "agent")
	sealed, err := draft.Seal(Key(caller.ProjectID, key), definition.Stored{}, c.env.Seal)
	if err != nil {
		return nil, err
	}
	now := c.env.Now().UnixMilli()
	agent := &directorypb.Agent{
		Id: c.env.NewID("agt"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Key: key, Status: status,
		Draft:    &directorypb.Definition{Name: name, Description: value(in.Description), Config: draft.Config, Sealed: sealed.Encode()},
		Metadata: metadata, CreatedBy: caller.UserID, UpdatedBy: caller.UserID, CreatedAt: now, UpdatedAt: now,
	}
	return agent, c.agents.Create(ctx, agent, func() error { return c.agentRoom(agent) }, limit("agents", projectTerm(caller.ProjectID), maxRecords))
}

// value is a text that may be absent.
func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func agentName(given string) (string, error) {
	name := strings.TrimSpace(naming.Plain(given))
	switch {
	case name == "":
		return "", invalid(failure.AgentNameRequired)
	case utf8.RuneCountInString(name) > definition.MaxName:
		return "", invalid(failure.AtMostCharacters).In("name").Param("most", definition.MaxName)
	}
	return name, nil
}

func checkAgentTexts(description, status string) error {
	if status != AgentActive && status != AgentInactive && status != AgentDraft {
		return invalid(failure.NotOneOf).Param("name", "status").Param("choices", "active, inactive, draft")
	}
	return checkDescription(description)
}

func checkDescription(description string) error {
	if utf8.RuneCountInString(description) > definition.MaxDescription {
		return invalid(failure.AtMostCharacters).In("description").Param("most", definition.MaxDescription)
	}
	return nil
}

// checkConfig refuses a config that could not be run.
func (c *Catalog) checkConfig(ctx context.Context, tenantID, projectID string, draft *definition.Draft) error {
	if id := draft.Parsed.ShieldID; id != "" {
		if _, err := c.Shield(ctx, tenantID, projectID, id); err != nil {
			return invalid(failure.AgentShieldGone).In("config.shieldId").Param("shield", id)
		}
	}
	if err := c.callable(projectID, draft.Parsed.ModelKey); err != nil {
		return err
	}
	if c.env.CheckAgent == nil {
		return nil
	}
	if err := c.env.CheckAgent(projectID, draft.Parsed); err != nil {
		return invalid(failure.AgentConfigRefused).In("config").Param("problem", err.Error())
	}
	return nil
}

// Agent returns an agent of a project.
func (c *Catalog) Agent(ctx context.Context, projectID, key string) (*directorypb.Agent, error) {
	if !isKey(key) {
		return nil, missing("agent", key)
	}
	return c.agents.Get(ctx, Key(projectID, key))
}

func missing(noun, key string) error { return &collection.MissingError{Noun: noun, Key: key} }

// PageAgents returns agents of a project, newest first, and how many there are; status "" = in any.
func (c *Catalog) PageAgents(projectID, status string, limit, offset int) ([]*directorypb.Agent, int, error) {
	term := projectTerm(projectID)
	if status != "" {
		term = statusTerm(projectID, status)
	}
	return c.agents.Page(term, limit, offset)
}

// UpdateAgent changes an agent.
func (c *Catalog) UpdateAgent(ctx context.Context, caller Caller, key string, in AgentInput) (*directorypb.Agent, error) {
	return c.changeAgent(ctx, caller, key, func(agent *directorypb.Agent) error { return c.applyAgent(ctx, caller, in, agent) })
}

func (c *Catalog) applyAgent(ctx context.Context, caller Caller, in AgentInput, agent *directorypb.Agent) (err error) {
	draft := agent.GetDraft()
	if in.Name != nil {
		if draft.Name, err = agentName(*in.Name); err != nil {
			return err
		}
	}
	if in.Description != nil {
		draft.Description = *in.Description
	}
	if in.Status != nil {
		agent.Status = *in.Status
	}
	if err = checkAgentTexts(draft.GetDescription(), agent.GetStatus()); err != nil {
		return err
	}
	if len(in.Metadata) > 0 {
		metadata, refused := definition.ReadMetadata(in.Metadata, agent.GetMetadata(), c.newSlug)
		if refused != nil {
			return refused
		}
		agent.Metadata = metadata
	}
	if len(in.Config) > 0 {
		if err = c.applyConfig(ctx, agent, in.Config); err != nil {
			return err
		}
	}
	agent.UpdatedBy, agent.UpdatedAt = caller.UserID, c.env.Now().UnixMilli()
	return nil
}

// applyConfig puts a config in place of the stored one. A native one never overwrites a connected agent.
func (c *Catalog) applyConfig(ctx context.Context, agent *directorypb.Agent, raw json.RawMessage) error {
	stored := agent.GetDraft()
	if definition.KindOf(stored.GetConfig()) == definition.Connected && definition.KindOf(raw) != definition.Connected {
		return nil
	}
	draft, refused := definition.Read(raw)
	if refused != nil {
		return refused
	}
	if err := c.checkConfig(ctx, agent.GetTenantId(), agent.GetProjectId(), draft); err != nil {
		return err
	}
	former, err := definition.ParseSealed(stored.GetSealed())
	if err != nil {
		return err
	}
	sealed, err := draft.Seal(Key(agent.GetProjectId(), agent.GetKey()), definition.Stored{Config: stored.GetConfig(), Sealed: former}, c.env.Seal)
	if err != nil {
		return err
	}
	stored.Config, stored.Sealed = draft.Config, sealed.Encode()
	return nil
}

func (c *Catalog) changeAgent(
	ctx context.Context, caller Caller, key string, edit func(*directorypb.Agent) error,
) (*directorypb.Agent, error) {
	if err := c.writableAgent(caller, key); err != nil {
		return nil, err
	}
	return c.agents.Change(ctx, Key(caller.ProjectID, key), edit)
}

// writableAgent refuses agents of the server's configuration, and keys that are none.
func (c *Catalog) writableAgent(caller Caller, key string) error {
	if c.env.Configured != nil && c.env.Configured(caller.ProjectID, key) {
		return failure.New(failurepb.Code_FORBIDDEN, failure.AgentConfigured)
	}
	if !isKey(key) {
		return missing("agent", key)
	}
	return nil
}

// DeleteAgent deletes an agent and its versions; its sessions stay.
func (c *Catalog) DeleteAgent(ctx context.Context, caller Caller, key string) error {
	if err := c.writableAgent(caller, key); err != nil {
		return err
	}
	if err := c.agents.Delete(ctx, Key(caller.ProjectID, key), nil); err != nil {
		return err
	}
	c.versions.Drop(ctx, Key(caller.ProjectID, key)+"/")
	return nil
}

// PublishAgent stores the agent as it is under the next version number, and makes that version the one that runs.
//
// It is two writes: the version, then the agent's pointer to it. A version without a pointer is not run, so a failure between them
// leaves the agent as it was; repeating the call stores the same snapshot under the number after it. Publications at the same
// time get different numbers, and the pointer only grows. A version of an agent that was deleted in between is left behind; its
// key is not used again.
func (c *Catalog) PublishAgent(ctx context.Context, caller Caller, key, changelog string) (*directorypb.AgentVersion, error) {
	if len(changelog) > maxChangelog {
		return nil, invalid(failure.TooLong).In("changelog").Param("maxBytes", maxChangelog)
	}
	if err := c.writableAgent(caller, key); err != nil {
		return nil, err
	}
	agent, err := c.Agent(ctx, caller.ProjectID, key)
	if err != nil {
		return nil, err
	}
	version, err := c.addVersion(ctx, caller, agent, changelog)
	if err != nil {
		return nil, err
	}
	_, err = c.changeAgent(ctx, caller, key, func(agent *directorypb.Agent) error {
		agent.LatestVersion = max(agent.GetLatestVersion(), version.GetVersion())
		agent.PublishedVersion = max(agent.GetPublishedVersion(), version.GetVersion())
		return nil
	})
	return version, err
}

// addVersion stores a snapshot of an agent under the next free number.
func (c *Catalog) addVersion(
	ctx context.Context, caller Caller, agent *directorypb.Agent, changelog string,
) (*directorypb.AgentVersion, error) {
	version := &directorypb.AgentVersion{
		Id: c.env.NewID("agv"), TenantId: agent.GetTenantId(), ProjectId: agent.GetProjectId(),
		AgentId: agent.GetId(), AgentKey: agent.GetKey(), Definition: agent.GetDraft(), Status: agent.GetStatus(),
		Changelog: changelog, PublishedBy: caller.UserID, CreatedAt: c.env.Now().UnixMilli(),
	}
	return version, c.versions.Create(ctx, version, func() error {
		newest, _, err := c.PageVersions(agent.GetProjectId(), agent.GetKey(), 1, 0)
		if err != nil {
			return err
		}
		version.Version = agent.GetLatestVersion() + 1
		if len(newest) > 0 {
			version.Version = max(version.GetVersion(), newest[0].GetVersion()+1)
		}
		if version.GetVersion() > maxVersions {
			return failure.New(failurepb.Code_QUOTA_REACHED, failure.VersionLimitReached).Param("most", maxVersions)
		}
		return nil
	})
}

// AgentVersion returns a version of an agent.
func (c *Catalog) AgentVersion(ctx context.Context, projectID, key string, version int64) (*directorypb.AgentVersion, error) {
	if !isKey(key) || version <= 0 {
		return nil, missing("agent version", key)
	}
	return c.versions.Get(ctx, VersionKey(Key(projectID, key), version))
}

// PageVersions returns versions of an agent, newest first, and how many there are.
func (c *Catalog) PageVersions(projectID, key string, limit, offset int) ([]*directorypb.AgentVersion, int, error) {
	return c.versions.LastByKey(Key(projectID, key)+"/", limit, offset)
}

package clientapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/machine"
	"parley/httpedge/definition"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// maxAgents bounds the agents of a project, maxVersions those of an agent: every node has all of them in memory.
const (
	maxAgents   = 10_000
	maxVersions = 1_000
)

// maxChangelog bounds the changelog of a version, in bytes.
const maxChangelog = 4 << 10

type createAgentInput struct {
	Name        string          `json:"name" required:"true"`
	Description string          `json:"description"`
	Config      json.RawMessage `json:"config" required:"true" doc:"Native: modelKey, systemPrompt, temperature, topP, maxTokens, tools, ...; connected: kind external and connection"`
	Status      string          `json:"status" enum:"active,inactive,draft"`
	Metadata    json.RawMessage `json:"metadata"`
}

type agentOut struct {
	Agent *agentFullRecord `json:"agent"`
}

func (a *API) createAgent(ctx context.Context, in *createAgentInput) (*agentOut, error) {
	caller := endpoint.CallerFrom(ctx)
	name, failure := agentName(in.Name)
	if failure != nil {
		return nil, failure
	}
	draft, failure := definition.Read(in.Config)
	if failure != nil {
		return nil, failure
	}
	if in.Status == "" {
		in.Status = agentActive
	}
	metadata, failure := definition.ReadMetadata(in.Metadata, nil, newSlug)
	if failure == nil {
		failure = checkAgentTexts(in.Description, in.Status)
	}
	if failure != nil {
		return nil, failure
	}
	if err := a.runnable(ctx, draft); err != nil {
		return nil, err
	}
	key := slug(name, "agent") + "-" + randomText(6)
	record := catalog.Key(caller.ProjectID, key)
	sealed, err := draft.Seal(record, definition.Stored{}, a.Sealer.Seal)
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	agent := &directorypb.Agent{
		Id: a.IDs.NewID("agt"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Key: key, Status: in.Status,
		Draft:    &directorypb.Definition{Name: name, Description: in.Description, Config: draft.Config, Sealed: sealed.Encode()},
		Metadata: metadata, CreatedBy: caller.UserID, UpdatedBy: caller.UserID, CreatedAt: now, UpdatedAt: now,
	}
	err = a.createRecord(ctx, catalog.Agents, func() (string, proto.Message, error) {
		if n := len(a.Records.List(catalog.Agents, catalog.Key(caller.ProjectID, ""))); n >= maxAgents {
			return "", nil, limitReached("agents", n, maxAgents)
		}
		return record, agent, nil
	})
	if err != nil {
		return nil, err
	}
	return &agentOut{agentJSON(agent)}, nil
}

func agentName(given string) (string, *machine.Failure) {
	name := strings.TrimSpace(given)
	switch {
	case name == "":
		return "", machine.Fail(failurepb.Code_INVALID_REQUEST, "Agent name is required")
	case utf8.RuneCountInString(name) > definition.MaxName:
		return "", machine.Fail(failurepb.Code_INVALID_REQUEST, "name must be at most %d characters", definition.MaxName)
	}
	return name, nil
}

func checkAgentTexts(description, status string) *machine.Failure {
	if status != agentActive && status != agentInactive && status != agentDraft {
		return machine.Fail(failurepb.Code_INVALID_REQUEST, "status must be one of: active, inactive, draft")
	}
	if utf8.RuneCountInString(description) > definition.MaxDescription {
		return machine.Fail(failurepb.Code_INVALID_REQUEST, "description must be at most %d characters", definition.MaxDescription)
	}
	return nil
}

// runnable refuses a config that could not be run.
func (a *API) runnable(ctx context.Context, draft *definition.Draft) error {
	if a.CheckAgent == nil {
		return nil
	}
	if err := a.CheckAgent(endpoint.CallerFrom(ctx).ProjectID, draft.Parsed); err != nil {
		return machine.Fail(failurepb.Code_INVALID_REQUEST, "config: %s", err.Error())
	}
	return nil
}

// newSlug names an agent towards other agents: 16 hex digits.
func newSlug() string { return hex.EncodeToString(randomBytes(8)) }

type updateAgentInput struct {
	agentInput
	Name        *string         `json:"name"`
	Description given[string]   `json:"description"`
	Status      *string         `json:"status" enum:"active,inactive,draft"`
	Config      json.RawMessage `json:"config" doc:"Replaces the stored one; an omitted connection.apiKey and masked headers stay while the URL names the same host. Ignored when it is native and the agent is connected"`
	Metadata    json.RawMessage `json:"metadata" doc:"Replaces the stored one"`
}

func (a *API) updateAgent(ctx context.Context, in *updateAgentInput) (*agentOut, error) {
	var changed *directorypb.Agent
	err := a.changeAgent(ctx, in.Key, func(agent *directorypb.Agent) error {
		changed = agent
		return a.applyUpdate(ctx, in, agent)
	})
	if err != nil {
		return nil, err
	}
	return &agentOut{agentJSON(changed)}, nil
}

func (a *API) applyUpdate(ctx context.Context, in *updateAgentInput, agent *directorypb.Agent) error {
	draft := agent.GetDraft()
	if in.Name != nil {
		name, failure := agentName(*in.Name)
		if failure != nil {
			return failure
		}
		draft.Name = name
	}
	if in.Description.set {
		draft.Description = in.Description.value
	}
	if in.Status != nil {
		agent.Status = *in.Status
	}
	if failure := checkAgentTexts(draft.GetDescription(), agent.GetStatus()); failure != nil {
		return failure
	}
	if len(in.Metadata) > 0 {
		metadata, failure := definition.ReadMetadata(in.Metadata, agent.GetMetadata(), newSlug)
		if failure != nil {
			return failure
		}
		agent.Metadata = metadata
	}
	if len(in.Config) > 0 {
		if err := a.applyConfig(ctx, catalog.Key(agent.GetProjectId(), agent.GetKey()), in.Config, draft); err != nil {
			return err
		}
	}
	agent.UpdatedBy, agent.UpdatedAt = endpoint.CallerFrom(ctx).UserID, time.Now().UnixMilli()
	return nil
}

// applyConfig puts a config in place of the stored one. A native one never overwrites a connected agent.
func (a *API) applyConfig(ctx context.Context, record string, raw json.RawMessage, stored *directorypb.Definition) error {
	if definition.KindOf(stored.GetConfig()) == definition.Connected && definition.KindOf(raw) != definition.Connected {
		return nil
	}
	draft, failure := definition.Read(raw)
	if failure != nil {
		return failure
	}
	if err := a.runnable(ctx, draft); err != nil {
		return err
	}
	former, err := definition.ParseSealed(stored.GetSealed())
	if err != nil {
		return err
	}
	sealed, err := draft.Seal(record, definition.Stored{Config: stored.GetConfig(), Sealed: former}, a.Sealer.Seal)
	if err != nil {
		return err
	}
	stored.Config, stored.Sealed = draft.Config, sealed.Encode()
	return nil
}

// changeAgent changes a recorded agent of the caller's project; change may be called again when somebody else has been faster.
func (a *API) changeAgent(ctx context.Context, key string, change func(*directorypb.Agent) error) error {
	record, err := a.writableAgent(ctx, key)
	if err != nil {
		return err
	}
	agent := new(directorypb.Agent)
	err = a.change(ctx, catalog.Agents, record, agent, func() error { return change(agent) })
	return absent(err, failurepb.Code_AGENT_NOT_FOUND, textNoAgent)
}

// writableAgent returns the record key of an agent that can be written.
func (a *API) writableAgent(ctx context.Context, key string) (record string, err error) {
	if _, ok := a.configured(ctx, key); ok {
		return "", machine.Fail(failurepb.Code_FORBIDDEN, textConfiguredAgent)
	}
	if !isKey(key) {
		return "", machine.Fail(failurepb.Code_AGENT_NOT_FOUND, textNoAgent)
	}
	return catalog.Key(endpoint.CallerFrom(ctx).ProjectID, key), nil
}

type successOut struct {
	Success bool `json:"success"`
}

// deleteAgent deletes an agent and its versions; its sessions stay.
func (a *API) deleteAgent(ctx context.Context, in *agentInput) (*successOut, error) {
	record, err := a.writableAgent(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	if err = a.remove(ctx, catalog.Agents, record); err != nil {
		return nil, absent(err, failurepb.Code_AGENT_NOT_FOUND, textNoAgent)
	}
	a.dropVersions(ctx, record)
	return &successOut{true}, nil
}

// dropVersions deletes the versions of an agent that is gone, as far as that can be done now: nothing leads to them any more.
func (a *API) dropVersions(ctx context.Context, record string) {
	for _, version := range a.Records.List(catalog.AgentVersions, record+"/") {
		if a.Records.Delete(ctx, catalog.AgentVersions, version.Key, version.Version) != nil {
			return
		}
	}
}

type publishAgentInput struct {
	agentInput
	Changelog string `json:"changelog"`
}

type snapshotRecord struct {
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Config      json.RawMessage `json:"config"`
	Status      string          `json:"status"`
}

type agentVersionRecord struct {
	InternalID  string         `json:"_id"`
	TenantID    string         `json:"tenantId"`
	ProjectID   string         `json:"projectId"`
	AgentID     string         `json:"agentId"`
	AgentKey    string         `json:"agentKey"`
	Version     int64          `json:"version"`
	Snapshot    snapshotRecord `json:"snapshot"`
	Changelog   *string        `json:"changelog"`
	PublishedBy *string        `json:"publishedBy"`
	CreatedAt   string         `json:"createdAt" format:"date-time"`
}

type versionOut struct {
	Version *agentVersionRecord `json:"version"`
}

// publishAgent keeps the agent as it is under the next number, and makes that what runs.
func (a *API) publishAgent(ctx context.Context, in *publishAgentInput) (*versionOut, error) {
	if len(in.Changelog) > maxChangelog {
		return nil, machine.Fail(failurepb.Code_INVALID_REQUEST, "changelog is longer than %d bytes", maxChangelog)
	}
	record, err := a.writableAgent(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	agent, err := a.agentRecord(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	snapshot, err := a.keepVersion(ctx, record, agent, in.Changelog)
	if err != nil {
		return nil, err
	}
	err = a.changeAgent(ctx, in.Key, func(agent *directorypb.Agent) error {
		agent.LatestVersion = max(agent.GetLatestVersion(), snapshot.GetVersion())
		agent.PublishedVersion = max(agent.GetPublishedVersion(), snapshot.GetVersion())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &versionOut{versionJSON(snapshot)}, nil
}

// keepVersion writes a snapshot of an agent under the next free number.
func (a *API) keepVersion(ctx context.Context, record string, agent *directorypb.Agent, changelog string) (*directorypb.AgentVersion, error) {
	snapshot := &directorypb.AgentVersion{
		Id: a.IDs.NewID("agv"), TenantId: agent.GetTenantId(), ProjectId: agent.GetProjectId(),
		AgentId: agent.GetId(), AgentKey: agent.GetKey(), Definition: agent.GetDraft(), Status: agent.GetStatus(),
		Changelog: changelog, PublishedBy: endpoint.CallerFrom(ctx).UserID, CreatedAt: time.Now().UnixMilli(),
	}
	err := a.createRecord(ctx, catalog.AgentVersions, func() (string, proto.Message, error) {
		snapshot.Version = max(agent.GetLatestVersion(), a.newestVersion(record)) + 1
		if snapshot.GetVersion() > maxVersions {
			return "", nil, machine.Fail(failurepb.Code_QUOTA_REACHED, "versions limit reached (%d)", maxVersions)
		}
		return catalog.VersionKey(record, snapshot.GetVersion()), snapshot, nil
	})
	return snapshot, err
}

// newestVersion is the highest number that a version of the agent has, 0 when there is none.
func (a *API) newestVersion(record string) int64 {
	versions := a.Records.List(catalog.AgentVersions, record+"/")
	if len(versions) == 0 {
		return 0
	}
	newest := new(directorypb.AgentVersion)
	if err := proto.Unmarshal(versions[len(versions)-1].Value, newest); err != nil {
		return 0
	}
	return newest.GetVersion()
}

func versionJSON(version *directorypb.AgentVersion) *agentVersionRecord {
	kept := version.GetDefinition()
	return &agentVersionRecord{
		InternalID: version.GetId(), TenantID: version.GetTenantId(), ProjectID: version.GetProjectId(),
		AgentID: version.GetAgentId(), AgentKey: version.GetAgentKey(), Version: version.GetVersion(),
		Snapshot: snapshotRecord{
			Name: kept.GetName(), Description: nullable(kept.GetDescription()), Config: shownConfig(kept),
			Status: version.GetStatus(),
		},
		Changelog: nullable(version.GetChangelog()), PublishedBy: nullable(version.GetPublishedBy()),
		CreatedAt: timeText(version.GetCreatedAt()),
	}
}

// absent gives a failure of what is not there its own code.
func absent(err error, code failurepb.Code, text string) error {
	if errors.Is(err, errNoRecord) {
		return machine.Fail(code, "%s", text)
	}
	return err
}

package convapi

import (
	"context"
	"encoding/json"
	"slices"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
)

type listAgentsIn struct{}

type agentList struct {
	Agents []*agentRecord `json:"agents"`
}

type agentRecord struct {
	ID           string             `json:"id"`
	Name         string             `json:"name"`
	Description  string             `json:"description,omitempty"`
	Version      string             `json:"version,omitempty"`
	Capabilities capabilitiesRecord `json:"capabilities"`
	Priced       bool               `json:"priced,omitempty" doc:"Its answers have a price, so a budget can be set"`
	Metadata     agentMetadata      `json:"metadata" doc:"Welcome text and starters as configured, attachment keys, experience"`
}

type capabilitiesRecord struct {
	ToolApproval bool              `json:"toolApproval"`
	AskUser      bool              `json:"askUser"`
	ClientTools  bool              `json:"clientTools"`
	Attachments  attachmentsRecord `json:"attachments"`
}

type attachmentsRecord struct {
	Enabled          bool     `json:"enabled"`
	MaxFiles         int32    `json:"maxFiles,omitempty"`
	MaxFileSize      int64    `json:"maxFileSize,omitempty" doc:"Bytes"`
	AllowedMimeTypes []string `json:"allowedMimeTypes,omitempty"`
	AcceptsImages    bool     `json:"acceptsImages"`
	RetentionDays    int32    `json:"retentionDays,omitempty"`
}

// agentMetadata is the configured object merged with the computed keys, which take precedence.
type agentMetadata map[string]any

// Described implements openapi.Described.
func (agentMetadata) Described() (value any, nullable bool) {
	return struct {
		EnableFileUpload bool             `json:"enableFileUpload"`
		AcceptsImages    bool             `json:"acceptsImages"`
		MaxFiles         int32            `json:"maxFiles,omitempty"`
		MaxFileSize      int64            `json:"maxFileSize,omitempty"`
		AllowedFileTypes []string         `json:"allowedFileTypes,omitempty"`
		Experience       experienceRecord `json:"experience"`
	}{}, false
}

type experienceRecord struct {
	MessageActions struct {
		Copy       bool `json:"copy"`
		Regenerate bool `json:"regenerate"`
		Edit       bool `json:"edit"`
	} `json:"messageActions"`
	History struct {
		Rename     bool `json:"rename"`
		Pin        bool `json:"pin"`
		BulkDelete bool `json:"bulkDelete"`
	} `json:"history"`
	Feedback struct {
		Enabled          bool     `json:"enabled"`
		Comments         bool     `json:"comments"`
		Reasons          []string `json:"reasons"`
		MaxCommentLength int32    `json:"maxCommentLength"`
	} `json:"feedback"`
	Export struct {
		Enabled      bool     `json:"enabled"`
		IncludeTools bool     `json:"includeTools"`
		Formats      []string `json:"formats"`
	} `json:"export"`
	Titles bool `json:"titles"`
}

func (a *API) listAgents(ctx context.Context, _ *listAgentsIn) (*agentList, error) {
	agents := a.agents.Agents(endpoint.CallerFrom(ctx).ProjectID)
	list := &agentList{Agents: make([]*agentRecord, len(agents))}
	for i, agent := range agents {
		list.Agents[i] = a.recordOf(agent)
	}
	return list, nil
}

type getAgentIn struct {
	ID string `path:"agentId"`
}

func (a *API) getAgent(ctx context.Context, in *getAgentIn) (*agentRecord, error) {
	agent, ok := a.agents.Agent(endpoint.CallerFrom(ctx).ProjectID, in.ID)
	if !ok {
		return nil, notFound(failure.AgentNotFound)
	}
	return a.recordOf(agent), nil
}

func (a *API) recordOf(agent *agentpb.Agent) *agentRecord {
	capabilities := agent.GetCapabilities()
	files := capabilities.GetAttachments()
	return &agentRecord{
		ID: agent.GetId(), Name: agent.GetName(), Description: agent.GetDescription(), Version: agent.GetVersion(),
		Capabilities: capabilitiesRecord{
			ToolApproval: capabilities.GetToolApproval(),
			AskUser:      capabilities.GetAskUser(),
			ClientTools:  capabilities.GetClientTools(),
			Attachments: attachmentsRecord{
				Enabled: files.GetEnabled(), MaxFiles: files.GetMaxFiles(), MaxFileSize: files.GetMaxFileSize(),
				AllowedMimeTypes: files.GetAllowedMimeTypes(), AcceptsImages: files.GetAcceptsImages(),
				RetentionDays: files.GetRetentionDays(),
			},
		},
		Priced: agent.GetModel().GetPrice() != nil, Metadata: a.metadataOf(agent),
	}
}

func (a *API) metadataOf(agent *agentpb.Agent) agentMetadata {
	shown := agentMetadata{}
	var configured map[string]json.RawMessage
	if json.Unmarshal(agent.GetMetadata(), &configured) == nil {
		for key, value := range configured {
			shown[key] = value
		}
	}
	files := agent.GetCapabilities().GetAttachments()
	shown["enableFileUpload"] = files.GetEnabled()
	shown["acceptsImages"] = files.GetAcceptsImages()
	if files.GetEnabled() {
		shown["maxFiles"] = files.GetMaxFiles()
		shown["maxFileSize"] = files.GetMaxFileSize()
		shown["allowedFileTypes"] = orEmpty(files.GetAllowedMimeTypes())
	}
	experience := experienceOf(agent.GetExperience())
	if a.pdf == nil {
		experience.Export.Formats = slices.DeleteFunc(slices.Clone(experience.Export.Formats), func(format string) bool { return format == "pdf" })
	}
	shown["experience"] = experience
	return shown
}

// experienceOf shows the agent's switches. Without a definition, only what needs no agent is allowed.
func experienceOf(e *agentpb.Experience) *experienceRecord {
	if e == nil {
		e = &agentpb.Experience{Copy: true, Rename: true, Pin: true, BulkDelete: true}
	}
	shown := &experienceRecord{Titles: e.GetTitles()}
	shown.MessageActions.Copy = e.GetCopy()
	shown.MessageActions.Regenerate = e.GetRegenerate()
	shown.MessageActions.Edit = e.GetEdit()
	shown.History.Rename = e.GetRename()
	shown.History.Pin = e.GetPin()
	shown.History.BulkDelete = e.GetBulkDelete()
	shown.Feedback.Enabled = e.GetFeedbackEnabled()
	shown.Feedback.Comments = e.GetFeedbackComments()
	shown.Feedback.Reasons = orEmpty(e.GetFeedbackReasons())
	shown.Feedback.MaxCommentLength = e.GetFeedbackMaxCommentLength()
	shown.Export.Enabled = e.GetExportEnabled()
	shown.Export.IncludeTools = e.GetExportIncludeTools()
	shown.Export.Formats = orEmpty(e.GetExportFormats())
	return shown
}

// orEmpty makes an absent list an empty one on the wire.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

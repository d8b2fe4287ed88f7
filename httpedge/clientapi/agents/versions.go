package agents

import (
	"context"

	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
)

type listVersionsInput struct {
	agentInput
	Limit  int `query:"limit" default:"50" max:"500"`
	Offset int `query:"offset"`
}

type versionListOut struct {
	Versions         []*agentVersionRecord `json:"versions"`
	Total            int                   `json:"total"`
	PublishedVersion *int64                `json:"publishedVersion"`
	Pagination       resource.Pagination   `json:"pagination"`
}

// listAgentVersions lists the published versions of an agent, newest first.
func (a *api) listAgentVersions(ctx context.Context, in *listVersionsInput) (*versionListOut, error) {
	out := &versionListOut{
		Versions: []*agentVersionRecord{}, Pagination: resource.Pagination{Limit: in.Limit, Offset: in.Offset},
	}
	if _, ok := a.configured(ctx, in.Key); ok {
		return out, nil // it has none
	}
	agent, err := a.agentRecord(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	out.PublishedVersion = nullableVersion(agent.GetPublishedVersion())
	versions, total, err := a.Catalog.PageVersions(agent.GetProjectId(), agent.GetKey(), in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	out.Total, out.Pagination = total, resource.Paginate(in.Limit, in.Offset, total)
	for _, version := range versions {
		out.Versions = append(out.Versions, versionJSON(version))
	}
	return out, nil
}

type getVersionInput struct {
	agentInput
	Version int `path:"version"`
}

func (a *api) getAgentVersion(ctx context.Context, in *getVersionInput) (*versionOut, error) {
	if _, ok := a.configured(ctx, in.Key); !ok {
		if _, err := a.agentRecord(ctx, in.Key); err != nil {
			return nil, err
		}
	}
	version, err := a.Catalog.AgentVersion(ctx, endpoint.CallerFrom(ctx).ProjectID, in.Key, int64(in.Version))
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &versionOut{versionJSON(version)}, nil
}

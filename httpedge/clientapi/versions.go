package clientapi

import (
	"context"
	"slices"

	"parley/actors/core/catalog"
	"parley/proto/directorypb"
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
	Pagination       paginationSchema      `json:"pagination"`
}

// listAgentVersions lists what was published of an agent, newest first.
func (a *API) listAgentVersions(ctx context.Context, in *listVersionsInput) (*versionListOut, error) {
	out := &versionListOut{
		Versions: []*agentVersionRecord{}, Pagination: paginationSchema{Limit: in.Limit, Offset: in.Offset},
	}
	if _, ok := a.configured(ctx, in.Key); ok {
		return out, nil // it has none
	}
	agent, err := a.agentRecord(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	out.PublishedVersion = nullableVersion(agent.GetPublishedVersion())
	all := slices.Clone(a.Records.List(catalog.AgentVersions, catalog.Key(agent.GetProjectId(), agent.GetKey())+"/"))
	slices.Reverse(all)
	out.Total = len(all)
	all, out.Pagination = pageOf(all, in.Limit, in.Offset)
	versions, err := decodeAll[directorypb.AgentVersion](all)
	if err != nil {
		return nil, err
	}
	for _, version := range versions {
		out.Versions = append(out.Versions, versionJSON(version))
	}
	return out, nil
}

type getVersionInput struct {
	agentInput
	Version int `path:"version"`
}

func (a *API) getAgentVersion(ctx context.Context, in *getVersionInput) (*versionOut, error) {
	if _, ok := a.configured(ctx, in.Key); !ok {
		if _, err := a.agentRecord(ctx, in.Key); err != nil {
			return nil, err
		}
	}
	version, err := a.agentVersion(ctx, in.Key, int64(in.Version))
	if err != nil {
		return nil, err
	}
	return &versionOut{versionJSON(version)}, nil
}

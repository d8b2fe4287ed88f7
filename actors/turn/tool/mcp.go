package tool

import (
	"context"

	"parley/proto/agentpb"
)

type pool struct{}
type server struct{}
type offer struct{}

func newPool(config *Config) *pool { return &pool{} }
func (p *pool) close()             {}
func (p *pool) server(spec *agentpb.MCP) *server {
	return &server{}
}
func (p *pool) offers(ctx context.Context, servers []*server) []*offer          { return nil }
func (s *server) tools(offer *offer, spec *agentpb.MCP, box *Box) []*Tool { return nil }
func checkServer(spec *agentpb.MCP) error                                      { return nil }

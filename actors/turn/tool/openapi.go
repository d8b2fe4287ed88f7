package tool

import (
	"errors"

	"parley/proto/agentpb"
)

func (b *Box) operations(api *agentpb.OpenAPI) ([]*Tool, error) { return nil, errors.New("not yet") }

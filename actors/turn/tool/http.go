package tool

import (
	"errors"

	"parley/proto/agentpb"
)

func (b *Box) plain(spec *agentpb.Tool) (*Tool, error) { return nil, errors.New("not yet") }

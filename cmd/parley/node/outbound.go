package node

import (
	"context"

	"parley/actors/turn/tool"
)

// newTools makes the toolbox that runs agents' tools.
func (n *Node) newTools() (*tool.Toolbox, error) {
	box, err := tool.New(tool.Config{
		Guard: n.outbound.guard, Timeout: n.config.Tools.Timeout, MaxResult: int(n.config.Tools.MaxResult), Answers: n.outbound.answers, Logger: n.log,
	})
	if err != nil {
		return nil, err
	}
	n.later(func(context.Context) { box.Close() })
	return box, nil
}

package node

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/feature"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
)

// client implements entity.Client over the router, for this node's edge and its own entities.
type client struct{ node *Node }

// Ask routes a command to its entity's owner.
func (c *client) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	if err := c.node.shell.kinds.Accepts(c.node.shards, id, command); err != nil {
		return nil, err
	}
	c.sign(command)
	reply, servedBy, err := c.node.router.Ask(ctx, id, command)
	endpoint.ServedBy(ctx, servedBy)
	return reply, err
}

// tell is Ask for whom the reply does not matter.
func (c *client) tell(ctx context.Context, id string, command proto.Message) error {
	_, err := c.Ask(ctx, id, command)
	return err
}

// Read routes a query to the owner of its entity, or a list to the owners of all shards.
func (c *client) Read(ctx context.Context, query proto.Message) (proto.Message, error) {
	return c.node.route().Read(ctx, c.node.answerer(), query)
}

// sign says by which clock a command was issued, once all nodes read that. One that was sent before stays as it was sent.
func (c *client) sign(command proto.Message) {
	given, is := command.(*conversationpb.Command)
	if is && !given.GetRepeated() && given.GetIssuedBy() == "" && c.node.features.On(feature.Console) {
		given.IssuedBy = c.node.config.Node.Name
	}
}

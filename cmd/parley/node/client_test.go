package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/feature"
	"parley/cmd/parley/config"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// A command says which node's clock it was issued by when all nodes read that, and stays as it was first sent.
func TestCommandsSayWhoIssuedThem(t *testing.T) {
	n := &Node{features: feature.NewGate(feature.Webhooks), config: &config.Config{Node: config.Node{Name: "n1"}}}
	reach := &client{n}
	before := &conversationpb.Command{}
	reach.sign(before)
	require.Empty(t, before.GetIssuedBy())
	n.features.Raise(feature.Console)
	before = before.Again()
	reach.sign(before)
	require.Empty(t, before.GetIssuedBy(), "it is given again")
	command := &conversationpb.Command{}
	reach.sign(command)
	require.Equal(t, "n1", command.Again().GetIssuedBy())
	reach.sign(&runpb.Command{})
}

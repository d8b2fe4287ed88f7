package guard

import (
	"context"
	"sync"

	"parley/actors/core/entity"
	"parley/actors/kit"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// maxKnown bounds the conversations of one generation.
const maxKnown = 16 << 10

// Known remembers whose agent's a conversation is, which never changes: messages need not say it. It is safe for concurrent use; the zero
// value is empty.
type Known struct {
	mu       sync.Mutex
	new, old map[string]string // agents by conversations
}

func (k *Known) find(conversation string) (agent string, found bool) {
	k.mu.Lock()
	agent, found = k.new[conversation]
	if !found {
		agent, found = k.old[conversation]
	}
	k.mu.Unlock()
	return agent, found
}

func (k *Known) keep(conversation, agent string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.new == nil || len(k.new) >= maxKnown {
		k.new, k.old = make(map[string]string), k.new
	}
	k.new[conversation] = agent
}

// agentOf is the agent of a conversation that a command does not name; "" = there is no such conversation.
func (d *Door) agentOf(ctx context.Context, id string, c *conversationpb.Command) (string, error) {
	if agent := c.GetOpening().GetCreate().GetAgent().GetId(); agent != "" {
		return agent, nil
	}
	if agent, found := d.Known.find(id); found {
		return agent, nil
	}
	read, err := entity.Read[*nodepb.StateReply](ctx, d.Client, &nodepb.StateQuery{Id: id})
	switch {
	case kit.IsCode(err, failurepb.Code_NOT_FOUND):
		return "", nil // which the rules will say
	case err != nil:
		return "", err
	}
	d.Known.keep(id, read.GetState().GetAgentId())
	return read.GetState().GetAgentId(), nil
}

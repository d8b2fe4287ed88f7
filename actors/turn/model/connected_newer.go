package model

import "sync"

// maxNewer bounds how many agents are remembered.
const maxNewer = 1000

// newer remembers, by their URLs, which agents know only the next version of their protocol, so that their refusal of the first is
// waited for once. What it forgets, or what is no longer so, costs that one round trip again. The zero value knows of none; it is
// safe for concurrent use.
type newer struct {
	mu     sync.Mutex
	agents map[string]struct{}
}

func (n *newer) has(url string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, found := n.agents[url]
	return found
}

// note takes what an agent has just shown.
func (n *newer) note(url string, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.agents, url)
	if !is {
		return
	}
	if n.agents == nil {
		n.agents = make(map[string]struct{})
	}
	for other := range n.agents {
		if len(n.agents) < maxNewer {
			break
		}
		delete(n.agents, other) // any
	}
	n.agents[url] = struct{}{}
}

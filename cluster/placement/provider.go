package placement

import (
	"errors"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	actorcluster "github.com/asynkron/protoactor-go/cluster"
)

// kind is the kind of the virtual actors: every entity, found by its id.
const kind = "entity"

// provider is a ClusterProvider: it gives the engine the members of the cluster.
type provider struct {
	engine *engine

	// mu is held while the engine is updated: an older snapshot that arrives after a newer one would block members for good.
	mu      sync.Mutex
	present map[string]string // member id by host
	gone    map[string]int    // how often a host was reported gone
}

// StartMember implements actorcluster.ClusterProvider.
func (p *provider) StartMember(*actorcluster.Cluster) error { return nil }

// StartClient implements actorcluster.ClusterProvider.
func (p *provider) StartClient(*actorcluster.Cluster) error {
	return errors.New("placement: a node is always a member")
}

// Shutdown implements actorcluster.ClusterProvider.
func (p *provider) Shutdown(bool) error { return nil }

// update gives the engine the members. A member that was gone returns under another id, since the engine never accepts an id
// again. The ids need not be the same on all nodes.
func (p *provider) update(members []Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	present := map[string]string{}
	var told actorcluster.Members
	for _, member := range members {
		host := hostOf(member.Name, member.Boot)
		_, port, err := splitAddress(member.Address)
		if err != nil {
			continue
		}
		id := host
		if n := p.gone[host]; n > 0 {
			id = fmt.Sprintf("%s#%d", host, n)
		}
		present[host] = id
		told = append(told, &actorcluster.Member{Host: host, Port: int32(port), Id: id, Kinds: []string{kind}})
	}
	for host := range p.present {
		if present[host] == "" {
			p.gone[host]++
		}
	}
	p.present = present
	p.engine.cluster.MemberList.UpdateClusterTopology(told)
}

// lookup is an IdentityLookup: an entity is addressed through the gate of its shard on the shard's owner. Nothing is cached.
type lookup struct{ engine *engine }

// Get implements actorcluster.IdentityLookup.
func (l *lookup) Get(id *actorcluster.ClusterIdentity) *actor.PID {
	s := l.engine.system
	in, valid := s.config.Shards.Of(id.GetIdentity())
	if !valid {
		return nil
	}
	owner, known := s.config.Owners.Owner(in)
	if !known {
		return nil
	}
	if owner.Node == s.config.Name {
		return l.engine.actors.NewLocalPID(gateOf(uint32(in)))
	}
	if link := s.links.Load().byName[owner.Node]; link != nil {
		if on := link.connected(); on != nil {
			return actor.NewPID(on.target, gateOf(uint32(in)))
		}
	}
	return nil
}

// RemovePid implements actorcluster.IdentityLookup.
func (l *lookup) RemovePid(*actorcluster.ClusterIdentity, *actor.PID) {}

// Setup implements actorcluster.IdentityLookup.
func (l *lookup) Setup(*actorcluster.Cluster, []string, bool) {}

// Shutdown implements actorcluster.IdentityLookup.
func (l *lookup) Shutdown() {}

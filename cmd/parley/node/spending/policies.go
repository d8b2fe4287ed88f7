package spending

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/core/quota"
	"parley/proto/directorypb"
)

// maxTenants bounds the tenants whose policies are kept ready.
const maxTenants = 10_000

// Policies keeps the policies of tenants ready to be asked. It compares the versions of their records on each use, so it is never late.
type Policies struct {
	records collection.Store

	mu      sync.RWMutex
	tenants map[string]*readied
}

type readied struct {
	prefix   string
	records  []collection.Record
	policies []*quota.Policy
}

// NewPolicies returns the policies in a directory.
func NewPolicies(records collection.Store) *Policies {
	return &Policies{records: records, tenants: map[string]*readied{}}
}

// Of returns a tenant's, nil when it has none.
func (p *Policies) Of(tenantID string) []*quota.Policy {
	p.mu.RLock()
	known := p.tenants[tenantID]
	p.mu.RUnlock()
	if known != nil {
		if records := p.records.List(catalog.QuotaPolicies, known.prefix); known.fresh(records) {
			return known.policies
		}
	}
	return p.read(tenantID)
}

func (r *readied) fresh(records []collection.Record) bool {
	if len(records) != len(r.records) {
		return false
	}
	for i := range records {
		if records[i].Version != r.records[i].Version || records[i].Key != r.records[i].Key {
			return false
		}
	}
	return true
}

func (p *Policies) read(tenantID string) []*quota.Policy {
	made := &readied{prefix: catalog.Key(tenantID, "")}
	made.records = slices.Clone(p.records.List(catalog.QuotaPolicies, made.prefix))
	var decoded []*directorypb.QuotaPolicy
	for _, record := range made.records {
		policy := &directorypb.QuotaPolicy{}
		if proto.Unmarshal(record.Value, policy) == nil {
			decoded = append(decoded, policy)
		}
	}
	made.policies = quota.Read(decoded)
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.tenants {
		if len(p.tenants) < maxTenants {
			break
		}
		delete(p.tenants, other)
	}
	p.tenants[tenantID] = made
	return made.policies
}
